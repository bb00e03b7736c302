//go:build race

package outbox_test

// raced: everything takes ten times as long, the time under a lock too.
const raced = true
