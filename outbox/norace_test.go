//go:build !race

package outbox_test

const raced = false
