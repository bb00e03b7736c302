//go:build !race

package sidecar

const raced = false
