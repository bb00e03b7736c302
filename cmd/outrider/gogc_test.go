package main

import (
	"log/slog"
	"runtime/debug"
	"testing"
)

// Whoever sets GOGC says how much garbage there may be, up to --memory-limit.
func TestGOGCIsObeyed(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	held := map[string]int64{}
	for _, set := range []string{"", "800"} {
		a := &app{env: map[string]string{"GOGC": set}}
		_, stop := a.limitMemory(config{memoryLimit: 1 << 30}, slog.New(slog.DiscardHandler))
		held[set] = debug.SetMemoryLimit(-1)
		stop()
	}
	if all := debug.SetMemoryLimit(-1); held["800"] != all || held[""] >= all {
		t.Errorf("the runtime keeps to %v of %d bytes", held, all)
	}
}
