package sidecar

import (
	"context"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// pass lets time pass.
func (x *machine) pass(r *rapid.T) {
	target := x.now.Add(rapid.SampledFrom([]time.Duration{tick, 999 * tick, time.Second, 3 * time.Second, 10 * time.Second, 70 * time.Second}).Draw(r, "time"))
	x.passUntil(target, func() {
		x.settle(r)
		x.compare(r)
	})
}

// passUntil stops at every instant at which the model expects something, and looks.
func (x *machine) passUntil(target time.Time, look func()) {
	for x.now.Before(target) {
		step := target
		for _, j := range x.m.jobs {
			if at := x.m.due(j); !at.IsZero() && at.Before(step) {
				step = at
			}
		}
		x.now = step
		look()
	}
}

// settle does what is due, on both sides.
func (x *machine) settle(r *rapid.T) {
	x.m.settle(x.now)
	for range 100 {
		x.Recover(context.Background())
		if x.errors.Len() > 0 { // a duty that failed comes again later than the model knows
			r.Fatal(x.errors.String())
		}
		if x.clock.soonest().After(x.now) {
			return
		}
	}
	r.Fatal("the duties do not come to an end")
}

func (x *machine) check(r *rapid.T) {
	x.settle(r)
	x.compare(r)
}

// compare looks at all jobs.
func (x *machine) compare(r *rapid.T) {
	page, err := x.Jobs(context.Background(), job.Filter{Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	stored := map[job.ID]*job.Job{}
	for _, j := range page.Jobs {
		stored[j.ID] = j
	}
	for _, m := range x.m.jobs {
		j := stored[m.id]
		if (j == nil) != m.deleted {
			r.Fatalf("%s: stored %v, deleted %v", m.id, j != nil, m.deleted)
		}
		if j == nil {
			continue
		}
		if n := strings.Count(string(j.Errors), `"timestamp"`); j.State != m.state || j.Attempt != m.attempt || j.Dead != m.dead || n != m.errors ||
			!j.NextRetryAt.Equal(m.retry) || j.Lease.Token != m.lease.token || !j.Lease.Until.Equal(m.lease.until) {
			r.Fatalf("at %s the model has %+v\nand the store %d errors, dead %v, lease %+v in %s", x.now, *m, n, j.Dead, j.Lease, j.AppendJSON(nil, job.View{}))
		}
	}
}
