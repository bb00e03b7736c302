package sqlitestore

import (
	"database/sql/driver"

	"github.com/outrider-jobs/outrider/job"
)

// waits are the rows of jobs that are stored as soon as something must be read. All of
// their numbers are at least first. Where an ID or a key turns out to be taken, nobody
// knows any more whose it was: the pass is undone and made again with care, which does
// not wait. What was taken once will be again, so the next groups do not wait either.
type waits struct {
	bodies, states, keyed []driver.Value
	first                 int64
	size                  int // of the bodies in bytes, about
	eager, eagerKeys      int // how many groups do not wait with jobs, and with those that have a key
}

const eagerGroups = 100

// maxWaiting is how many bytes wait at most, but for a job that is larger.
const maxWaiting = 1 << 20

func (w *waits) reset() {
	clear(w.bodies) // what they point to may go
	w.bodies, w.states, w.keyed, w.size = w.bodies[:0], w.states[:0], w.keyed[:0], 0
}

// next begins a group.
func (w *waits) next() {
	w.reset()
	w.eager, w.eagerKeys = max(0, w.eager-1), max(0, w.eagerKeys-1)
}

// settle stores what waits: whoever reads jobs with SQL calls it before.
func (t *tx) settle() error {
	w := &t.waits
	if len(w.bodies) == 0 {
		return nil
	}
	whole, err := t.insertRows(&t.w.st.plainBody, w.bodies)
	if err == nil && !whole {
		w.eager, err = eagerGroups, errTaken
	}
	if err == nil {
		if whole, err = t.insertRows(&t.w.st.plainState, w.states); err == nil && !whole {
			w.eager, err = eagerGroups, errTaken
		}
	}
	if err == nil {
		if whole, err = t.insertRows(&t.w.st.keyedState, w.keyed); err == nil && !whole {
			w.eagerKeys, err = eagerGroups, errTaken
		}
	}
	w.reset()
	return t.fail("insert jobs", err)
}

// settleFor is settle before the rows with a number are changed.
func (t *tx) settleFor(n int64) error {
	if n < t.waits.first {
		return nil
	}
	return t.settle()
}

// errTaken undoes a pass whose rows did not all find their place.
var errTaken = job.Errorf(job.Internal, "a job that was to be stored has the id or the number of another")
