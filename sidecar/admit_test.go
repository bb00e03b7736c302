package sidecar

import (
	"encoding/json"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// Without middleware a PUSH must not pay for it.
func TestNoMiddlewareCostsNothing(t *testing.T) {
	c, err := job.Envelope{ID: "019539a4-b68c-7def-8000-000000000001", Type: "a.b", Args: json.RawMessage(`[]`)}.Check()
	if err != nil {
		t.Fatal(err)
	}
	cs := []job.Checked{c}
	for name, s := range map[string]*Sidecar{"no chain": {}, "an empty chain": {o: Options{Middleware: new(Chain)}}} {
		ctx := t.Context()
		if n := testing.AllocsPerRun(100, func() {
			if _, err := s.admit(ctx, cs); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
