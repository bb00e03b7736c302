package outbox

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Follower is what a relay with OnComplete needs of its job server: to hear when
// jobs end. A sidecar has it.
type Follower interface {
	Events(ctx context.Context, f job.EventFilter) ([]job.Event, error)
	Job(ctx context.Context, id job.ID) (*job.Job, error)
	History(ctx context.Context, id job.ID) ([]job.Event, error)
}

// followed are the rows whose jobs have not ended, by the job that answers for
// them: 40 bytes for each, as there may be a million of them.
type followed struct {
	rows   map[[16]byte]int64
	more   map[[16]byte][]int64 // the other rows of jobs that answer for several
	cursor int64                // Seq of the last event that was heard
	at     time.Time            // when it was last asked for more
}

const (
	followEvery = 100 * time.Millisecond
	followPage  = 1000
)

var endings = []string{"job.completed", "job.cancelled", "job.discarded"}

// key is a job's id in 16 bytes.
func key(id job.ID) (k [16]byte) {
	_, _ = hex.Decode(k[:], []byte(strings.ReplaceAll(string(id), "-", ""))) // a row's job has a valid id
	return k
}

// watch begins to follow the job that answers for a row. told is the Seq of an
// event before the job's end.
func (f *followed) watch(id job.ID, row, told int64) {
	if f.rows == nil {
		f.rows, f.more = map[[16]byte]int64{}, map[[16]byte][]int64{}
	}
	if len(f.rows) == 0 {
		f.cursor = told
	}
	k := key(id)
	switch first, known := f.rows[k]; {
	case !known: // else its end is still to be heard
		f.rows[k] = row
		f.cursor = min(f.cursor, told)
	case first != row:
		f.more[k] = append(f.more[k], row)
	}
}

// take ends to follow a job, and returns its rows.
func (f *followed) take(k [16]byte) []int64 {
	first, known := f.rows[k]
	if !known {
		return nil
	}
	rows := append(f.more[k], first)
	delete(f.rows, k)
	delete(f.more, k)
	return rows
}

// ended lets the rows of a job go, or to the job that has replaced it.
func (r *Relay) ended(e job.Event) {
	heir := e.ReplacedBy()
	for _, id := range r.follows.take(key(e.JobID)) {
		if heir == "" {
			r.settle(row{id: id}, outcome{verb: ended})
			continue
		}
		r.follows.watch(heir, id, e.Seq)
		r.settle(row{id: id}, outcome{verb: passed, by: key(heir)})
	}
}

// answerer is the job that answers in the place of j: itself, or the one that it was
// cancelled in favour of. It is nil if that has ended.
func (r *Relay) answerer(ctx context.Context, j *job.Job) (*job.Job, error) {
	for j.State == job.Cancelled {
		es, err := r.follower.History(ctx, j.ID)
		if err != nil && job.KindOf(err) != job.NotFound {
			return nil, err
		}
		if len(es) == 0 || es[len(es)-1].ReplacedBy() == "" {
			return nil, nil
		}
		if j, err = r.follower.Job(ctx, es[len(es)-1].ReplacedBy()); err != nil {
			if job.KindOf(err) == job.NotFound {
				return nil, nil
			}
			return nil, err
		}
	}
	if j.State.Terminal() {
		return nil, nil
	}
	return j, nil
}

// follow hears which jobs have ended, and lets their rows go.
func (r *Relay) follow(ctx context.Context) error {
	f := &r.follows
	if now := r.o.Now(); len(f.rows) == 0 || now.Sub(f.at) < followEvery {
		return nil
	} else {
		f.at = now
	}
	for {
		// All events, not only endings: else what is between two endings would be read again and again.
		es, err := r.follower.Events(ctx, job.EventFilter{After: f.cursor, Limit: followPage})
		if err != nil {
			return err
		}
		for _, e := range es {
			if slices.Contains(endings, e.Type) {
				r.ended(e)
			}
			f.cursor = e.Seq
		}
		if len(es) < followPage {
			return nil
		}
	}
}
