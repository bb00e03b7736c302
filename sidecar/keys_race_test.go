//go:build race

package sidecar_test

// raceKeys is how many keys the producers race for; the race detector makes everything take ten times as long.
const raceKeys = 200
