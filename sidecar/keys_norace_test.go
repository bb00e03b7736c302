//go:build !race

package sidecar_test

const raceKeys = 1000
