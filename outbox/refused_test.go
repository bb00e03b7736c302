package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// TestABatchFullOfRefusals: however many rows of a batch the job server refuses,
// those are parked, the others become jobs in the order of their rows, and all of
// it is handed over a few times and not once for each refusal.
func TestABatchFullOfRefusals(t *testing.T) {
	for _, every := range []int{1, 2, 3, 7, 50, 199} {
		w := newWorld(t)
		const rows = 200
		handed, refused := 0, 0
		w.server.refuse = func(_ int, es []job.Envelope) error {
			handed += len(es)
			for i, e := range es {
				if strings.HasPrefix(string(e.Args), `["refused`) {
					err := job.Errorf(job.Rejected, "not this one")
					err.Details = map[string]any{"index": i}
					return err
				}
			}
			return nil
		}
		for i := range rows {
			args := fmt.Sprintf(`[%03d]`, 100+i)
			if i%every == 0 {
				args, refused = `["refused"]`, refused+1
			}
			w.exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('a', ?)`, args)
		}
		w.drain(w.relay(outbox.RelayOptions{Batch: rows}))
		if n, resends, _ := w.server.sizes(); n != rows-refused || resends != 0 || w.count("parked") != refused || w.count("pending") != 0 {
			t.Errorf("every %dth refused: got %d jobs, %d of them again, %d parked, %d pending", every, n, resends, w.count("parked"), w.count("pending"))
		}
		if most := 5*rows + 2*8*refused; handed > most {
			t.Errorf("every %dth refused: %d rows were handed over %d times, want at most %d", every, rows, handed, most)
		}
		for i := 1; i < len(w.server.order); i++ {
			if a, b := w.server.jobs[w.server.order[i-1]], w.server.jobs[w.server.order[i]]; string(a.Args) >= string(b.Args) {
				t.Fatalf("every %dth refused: the jobs came in another order than the rows", every)
			}
		}
	}
}

// TestRefusalsAreJudgedInPlace: what a row meets is what stood before it, also in
// the same batch, and a job server that goes away in the middle parks nothing
// whose rows before it were not taken.
func TestRefusalsAreJudgedInPlace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 40).Draw(r, "names")
		down := rapid.IntRange(0, 8).Draw(r, "the call that fails")
		w := newWorld(t)
		seen := map[string]bool{} // committed
		w.server.refuse = func(calls int, es []job.Envelope) error {
			if calls == down {
				return job.Errorf(job.Unavailable, "away")
			}
			here := map[string]bool{}
			for i, e := range es {
				if seen[string(e.Args)] || here[string(e.Args)] {
					err := job.Errorf(job.Duplicate, "there is one")
					err.Details = map[string]any{"index": i}
					return err
				}
				here[string(e.Args)] = true
			}
			for name := range here {
				seen[name] = true
			}
			return nil
		}
		first := map[string]bool{}
		for _, name := range names {
			w.exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('a', ?)`, `["`+name+`"]`)
			first[name] = true
		}
		relay := w.relay(outbox.RelayOptions{Batch: 40})
		for failed := 0; ; {
			n, err := relay.Step(t.Context())
			if err != nil {
				if failed++; failed > 1 {
					r.Fatalf("failed again: %v", err)
				}
			} else if n == 0 {
				break
			}
		}
		if n, _, _ := w.server.sizes(); n != len(first) || w.count("parked") != len(names)-len(first) || w.count("pending") != 0 {
			r.Errorf("%q: got %d jobs, %d parked, %d pending, want the first of each name", names, n, w.count("parked"), w.count("pending"))
		}
	})
}

// TestACheckThatIsInterruptedFindsNoFault: a program that is told to stop while it looks
// at the outbox, wherever it is, must not say that something is missing there.
func TestACheckThatIsInterruptedFindsNoFault(t *testing.T) {
	w := newWorld(t)
	for looks := 0; ; looks++ {
		err := outbox.Check(&endingContext{Context: t.Context(), left: looks}, w.app, w.d)
		if err == nil {
			if looks < 4 {
				t.Errorf("a check looked at its context %d times: this test interrupts nothing", looks)
			}
			return
		}
		if job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted at its look %d: %v", looks, err)
		}
	}
}

// endingContext ends when it has been looked at so many times.
type endingContext struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *endingContext) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	return c.left < 0
}

func (c *endingContext) Done() <-chan struct{} {
	done := make(chan struct{})
	if c.ended() {
		close(done)
	}
	return done
}

func (c *endingContext) Err() error {
	if c.ended() {
		return context.Canceled
	}
	return nil
}
