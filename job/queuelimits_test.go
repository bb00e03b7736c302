package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What contract §3.13 takes as the limits of a queue, and the patch that it comes to.
func TestQueueLimitsAreRead(t *testing.T) {
	for body, want := range map[string]string{
		`{"concurrency":5}`:    `{"concurrency":5}`,
		`{"concurrency":null}`: `{"concurrency":null}`,
		`{"rate":{"limit":100,"period":"minute"},"throttle":null}`:               `{"rate_limit":{"limit":100,"period":"PT60S"},"throttle":null}`,
		` {"rate":100,"period":"hour","x_by":"ada"}`:                             `{"rate_limit":{"limit":100,"period":"PT3600S"}}`,
		`{"throttle":{"limit":3},"period":0.5,"concurrency":1e2}`:                `{"concurrency":100,"throttle":{"limit":3,"period":"PT0.5S"}}`,
		`{"max_per_second":2,"rate":null}`:                                       `{"rate_limit":null,"throttle":{"limit":2,"period":"PT1S"}}`,
		`{"concurrency":null,"rate":null,"throttle":{"limit":1,"period":"P1D"}}`: `{"concurrency":null,"rate_limit":null,"throttle":{"limit":1,"period":"PT86400S"}}`,
	} {
		patch, err := ParseQueueLimits([]byte(body))
		if err != nil || string(patch) != want {
			t.Errorf("%s: %s, %v; want %s", body, patch, err, want)
			continue
		}
		c, err := QueueConfig{}.Patched(patch)
		if err != nil {
			t.Errorf("%s as a configuration: %v", patch, err)
		}
		set, err := paceOf(body)
		if err != nil || c.Pace() != set || c.Limits() != (set != Pace{}) {
			t.Errorf("%s: as a configuration %+v, as a pace %+v, %v", body, c.Pace(), set, err)
		}
	}
}

// paceOf reads the same as an operator's pace of a key.
func paceOf(body string) (Pace, error) {
	_, p, err := paceAtTop([]byte(body))
	return p, err
}

// What is none of them names the member.
func TestBadQueueLimitsNameTheirMember(t *testing.T) {
	for body, field := range map[string]string{
		`{}`: "concurrency", `5`: "concurrency", `[]`: "concurrency", `{"x_a":1}`: "concurrency", `{"concurrency":0}`: "concurrency", `{"concurrency":"5"}`: "concurrency",
		`{"rate":5}`: "period", `{"rate":{"limit":5}}`: "rate.period", `{"rate":{"period":1}}`: "rate.limit", `{"rate":{"limit":-1,"period":1}}`: "rate.limit",
		`{"throttle":{"limit":1,"period":"week"}}`: "throttle.period", `{"throttle":[]}`: "throttle", `{"throttle":{"limit":1,"period":1,"burst":2}}`: "throttle.burst",
		`{"concurrency":5,"period":1}`: "period", `{"concurrency":5,"on_limit":"drop"}`: "on_limit", `{"concurrency":5,"key":"k"}`: "key",
		`{"max_per_second":1,"throttle":{"limit":1,"period":1}}`: "max_per_second", `{"concurrency":1,"concurrency":2}`: "concurrency",
	} {
		_, err := ParseQueueLimits([]byte(body))
		e, ok := err.(*Error)
		if !ok || e.Kind != Invalid || e.Details["field"] != field || !strings.Contains(e.Message, field) {
			t.Errorf("%s: %v; want Invalid for %s", body, err, field)
		}
	}
	if _, err := ParseQueueLimits([]byte(`{"concurrency":`)); err == nil {
		t.Error("half a document was taken")
	}
}

// A configuration reads rates as jobs do; one without a period is of a second.
func TestQueueConfigReadsRates(t *testing.T) {
	c, err := ParseQueueConfig(json.RawMessage(`{"concurrency":3,"rate_limit":{"limit":7,"period":"PT0.5S"},"throttle":{"limit":2}}`))
	if want := (Pace{Concurrency: 3, Rate: Quota{7, 500 * time.Millisecond}, Throttle: Quota{2, time.Second}}); err != nil || c.Pace() != want {
		t.Errorf("%+v, %v", c.Pace(), err)
	}
	for body, field := range map[string]string{
		`{"rate_limit":{"limit":1,"period":"24h"}}`: "rate_limit.period", `{"rate_limit":{"limit":1,"on_limit":"drop"}}`: "rate_limit.on_limit",
		`{"throttle":{"limit":1.5}}`: "throttle.limit", `{"throttle":{"limit":1,"period":0}}`: "throttle.period", `{"throttle":7}`: "throttle",
	} {
		_, err := ParseQueueConfig(json.RawMessage(body))
		if e, ok := err.(*Error); !ok || e.Kind != Invalid || e.Details["field"] != field {
			t.Errorf("%s: %v; want Invalid for %s", body, err, field)
		}
	}
}

// There is room for as many as can start one after the other.
func TestRoomIsWhatMayStart(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		quota := func(name string) (q Quota) {
			if rapid.Bool().Draw(r, name) {
				q = Quota{rapid.SampledFrom([]int{1, 2, 5, 300, 3000}).Draw(r, "limit"), time.Duration(rapid.IntRange(1, 2000).Draw(r, "period")) * time.Millisecond}
			}
			return q
		}
		now := noon
		l := NewLimit("k", now)
		l.Define(Pace{Concurrency: rapid.IntRange(0, 4).Draw(r, "concurrency"), Rate: quota("rate"), Throttle: quota("throttle")}, now)
		l.Active = rapid.IntRange(0, 5).Draw(r, "active")
		for range 10 {
			most := rapid.IntRange(0, 10).Draw(r, "most")
			room, n := l.Room(now, most), 0
			for ; n < most; n++ {
				if open, _ := l.Open(now); !open {
					break
				}
				l.Started(now)
			}
			if room != n {
				r.Fatalf("room for %d, and %d started under %+v", room, n, l.Holds())
			}
			for range rapid.IntRange(0, 3).Draw(r, "ended") {
				l.Ended(now)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(r, "ms")) * time.Millisecond)
		}
	})
}
