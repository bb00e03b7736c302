package sidecar_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
)

// Thousands of jobs with one key stand side by side, where no policy counted the
// others. One replace ends all of them in its one transaction, or none.
func TestReplaceEndsThousands(t *testing.T) {
	const many = 4000
	s := sidecar.New(openStore(t), sidecar.Options{})
	var es []job.Envelope
	for i := range many {
		e := job.Envelope{Type: "resize.avatar", Args: json.RawMessage(`[]`), Unique: json.RawMessage(`{"states":["discarded"]}`), Hold: i%5 == 0}
		if i%3 == 0 {
			e.Delay = time.Hour
		}
		es = append(es, e)
	}
	if _, err := s.Enqueue(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	replace := job.Envelope{Type: "resize.avatar", Args: json.RawMessage(`[1]`), Unique: json.RawMessage(`{"on_conflict":"replace"}`)}
	refused := job.Envelope{Type: "resize.avatar", Args: json.RawMessage(`[2]`), Unique: json.RawMessage(`{}`)}
	if _, err := s.Enqueue(t.Context(), replace, refused); job.KindOf(err) != job.Duplicate {
		t.Errorf("with a neighbour that is refused: %v", err)
	}
	if c, err := s.HeldKeys(t.Context(), job.Filter{}); err != nil || c.Total != 1 {
		t.Errorf("the one key is listed as %+v, %v", c, err)
	}
	page, err := s.Jobs(t.Context(), job.Filter{States: []job.State{job.Cancelled}})
	if err != nil || page.Total != 0 {
		t.Errorf("%d are cancelled although the call failed, %v", page.Total, err)
	}
	rs, err := s.Enqueue(t.Context(), replace)
	if err != nil || len(rs[0].AllReplaced) != many || rs[0].AllReplaced[0] != rs[0].Replaced {
		t.Fatalf("%d gave way, %v", len(rs[0].AllReplaced), err)
	}
	for _, tt := range []struct {
		states []job.State
		want   int64
	}{{[]job.State{job.Cancelled}, many}, {[]job.State{job.Available}, 1}, {nil, many + 1}} {
		if page, err = s.Jobs(t.Context(), job.Filter{States: tt.states}); err != nil || page.Total != tt.want {
			t.Errorf("%d jobs are %v, %v; want %d", page.Total, tt.states, err, tt.want)
		}
	}
	told, after := 0, int64(0)
	for {
		events, err := s.Events(t.Context(), job.EventFilter{Types: []string{"job.cancelled"}, After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		told, after = told+len(events), events[len(events)-1].Seq
	}
	if told != many {
		t.Errorf("%d were told", told)
	}
}
