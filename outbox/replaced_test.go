package outbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
)

// replacing are options under which a job is cancelled in favour of a later one.
var replacing = map[string]string{
	"replaced":                `{"unique":{"keys":["type"],"on_conflict":"replace"}}`,
	"replaced where it waits": `{"delay":"PT1H","unique":{"keys":["type"],"on_conflict":"replace"}}`,
	"not on a schedule":       `{"unique":{"keys":["type"],"on_conflict":"replace_except_schedule"}}`,
	"debounced":               `{"delay":"PT1H","deduplication":{"id":"k","replace":true}}`,
	"debounced for a while":   `{"delay":"PT1H","deduplication":{"id":"k","ttl":3600,"extend":true,"replace":true}}`,
}

// TestARowWhoseJobIsReplaced: the row stays until the job that answers for it now
// has ended, through how many hands it may go, over restarts and when its own job
// is forgotten, and is sent again when the disk is lost.
func TestARowWhoseJobIsReplaced(t *testing.T) {
	for name, options := range replacing {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) { replaced(t, w, options) })
		})
	}
}

func replaced(t *testing.T, w *world, options string) {
	d := disk(t)
	p := w.pod(t, d, onComplete)
	push := func() job.ID {
		t.Helper()
		rs, err := p.Enqueue(t.Context(), envelope(t, options)) // not through the outbox
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].ID
	}
	restart := func() {
		t.Helper()
		p.die(t)
		p = w.pod(t, d, onComplete)
		step(t, p.relay)
	}
	mine := newID(t)
	w.order(mine, 1, options)
	w.order("", 2, options) // in one batch with the first, which it replaces
	step(t, p.relay)
	step(t, p.relay)
	w.holds(t, statuses("relayed", 1, 3))
	push()
	push()
	step(t, p.relay) // hears of both at once
	w.holds(t, statuses("relayed", 1, 3))
	p.forget(t)
	restart() // and knows it still, though their own jobs are forgotten
	w.holds(t, statuses("relayed", 1, 3))
	push()
	last := push()
	restart() // hears of both by the jobs themselves
	w.holds(t, statuses("relayed", 1, 3))

	q := w.pod(t, disk(t), onComplete) // the disk is lost
	w.outlive(p, q)
	w.until("another has sent them again", func() bool { step(t, q.relay); return w.status().Relayed == 2 })
	if had := ids(t, q.store); len(had) != 2 || !had[job.ID(mine)] {
		t.Errorf("the other has %v, want the jobs of both rows", had)
	}
	if had := ids(t, q.store); had[last] {
		t.Error("the other has a job that no row brought")
	}
	for id := range ids(t, q.store) {
		if _, err := q.Cancel(t.Context(), id, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	step(t, q.relay)
	w.holds(t, "")
}

// TestTheEndOfWhatHasReplacedAJob frees the rows of all that it answers for: so
// does a job that has ended before anybody asks.
func TestTheEndOfWhatHasReplacedAJob(t *testing.T) {
	for name, options := range replacing {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				d := disk(t)
				p := w.pod(t, d, onComplete)
				end := func() {
					t.Helper()
					rs, err := p.Enqueue(t.Context(), envelope(t, options))
					if err == nil {
						_, err = p.Cancel(t.Context(), rs[0].ID, "ada", "enough")
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				w.order("", 1, options)
				step(t, p.relay)
				end()
				step(t, p.relay)
				w.holds(t, "")
				w.order("", 2, options)
				step(t, p.relay)
				end()
				p.die(t)
				p = w.pod(t, d, onComplete)
				step(t, p.relay)
				w.holds(t, "")
			})
		})
	}
}

// deaf is a job server whose histories cannot be read for a while.
type deaf struct {
	*sidecar.Sidecar
	err error
}

func (d *deaf) History(ctx context.Context, id job.ID) ([]job.Event, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Sidecar.History(ctx, id)
}

// TestAHistoryThatCannotBeRead is no refusal: the rows before it in the batch
// stay sent, and nobody reads of them that the job server takes no jobs.
func TestAHistoryThatCannotBeRead(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		to, told := &deaf{p.Sidecar, job.Errorf(job.Unavailable, "the disk is away")}, map[int64]int{}
		r := outbox.NewRelay(w.again(), w.d, to, outbox.RelayOptions{Release: outbox.OnComplete, Owner: p.store.Identity(),
			OnRelay: func(rows []outbox.Relayed) {
				for _, row := range rows {
					told[row.Row]++
				}
			}})
		head := w.order("", 1, "")
		for n := 2; n < 4; n++ { // the second replaces the first
			w.order("", n, `{"unique":{"keys":["type"],"on_conflict":"replace"}}`)
		}
		if _, err := r.Step(t.Context()); err == nil || strings.Contains(err.Error(), "does not take jobs") {
			t.Fatalf("without a history: %v", err)
		}
		w.holds(t, "relayed[1] pending[2] pending[3]")
		to.err = nil
		step(t, r)
		w.holds(t, statuses("relayed", 1, 4))
		if told[head] != 1 {
			t.Errorf("the first row was told %d times", told[head])
		}
	})
}
