package main

import (
	"testing"
)

func TestSizesOfSettings(t *testing.T) {
	for _, v := range []string{"63MB", "0", "lots"} {
		if _, err := configured(t, nil, "--memory-limit", v); err == nil {
			t.Errorf("--memory-limit %s is taken", v)
		}
	}
	for _, v := range []string{"7", "0", "-1", "65537", "many"} {
		if _, err := configured(t, []string{"OUTRIDER_MAX_CONNECTIONS=" + v}); err == nil {
			t.Errorf("OUTRIDER_MAX_CONNECTIONS=%s is taken", v)
		}
	}
	c, err := configured(t, []string{"OUTRIDER_MEMORY_LIMIT=1GiB"}, "--max-connections", "20")
	if err != nil || c.memoryLimit != 1<<30 || c.connections != 20 {
		t.Errorf("%d bytes, %d connections, %v", c.memoryLimit, c.connections, err)
	}
	if c, err = configured(t, nil); err != nil || c.memoryLimit != 256<<20 || c.connections != 1024 {
		t.Errorf("by default %d bytes, %d connections, %v", c.memoryLimit, c.connections, err)
	}
}
