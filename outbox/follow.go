package outbox

import (
	"context"
	"database/sql"
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
}

// followed are the rows whose jobs have not ended, by the job's id: 40 bytes for
// each, as there may be a million of them.
type followed struct {
	rows   map[[16]byte]int64
	cursor int64     // Seq of the last event that was heard
	at     time.Time // when it was last asked for more
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

// watch begins to follow the job of a row. told is the Seq of an event of the
// job before its end.
func (f *followed) watch(id job.ID, row, told int64) {
	if f.rows == nil {
		f.rows = map[[16]byte]int64{}
	}
	if len(f.rows) == 0 {
		f.cursor = told
	}
	f.cursor = min(f.cursor, told)
	f.rows[key(id)] = row
}

// reload follows the jobs of the rows that this owner has relayed before: those
// that have ended, or are gone from the store after they had, are let go.
func (r *Relay) reload(ctx context.Context) error {
	r.follows = followed{}
	if r.o.Release != OnComplete {
		return nil
	}
	for after := int64(0); ; {
		var page []row
		err := r.each(ctx, func(rows *sql.Rows) (bool, error) {
			var b row
			var id sql.NullString
			err := rows.Scan(&b.id, &id, &b.created)
			b.jobID, page = id.String, append(page, b)
			return true, err
		}, r.d.Held, r.o.Owner, after, followPage)
		if err != nil {
			return r.failed(ctx, "read the relayed rows of", err)
		}
		for _, b := range page {
			if err := r.rejoin(ctx, b); err != nil {
				return err
			}
			after = b.id
		}
		if err := r.live(ctx); err != nil {
			return err
		}
		if len(page) < followPage {
			return nil
		}
	}
}

func (r *Relay) rejoin(ctx context.Context, b row) error {
	id := job.ID(b.jobID)
	if id == "" {
		id = deriveID(r.of, b.id, b.created)
	}
	j, err := r.follower.Job(ctx, id)
	switch {
	case err != nil && job.KindOf(err) == job.NotFound, err == nil && j.State.Terminal():
		r.settle(b, fate{verb: ended})
		return nil
	case err != nil:
		return err
	}
	r.follows.watch(id, b.id, j.Told)
	return nil
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
			if id, ok := f.rows[key(e.JobID)]; ok && slices.Contains(endings, e.Type) {
				delete(f.rows, key(e.JobID))
				r.settle(row{id: id}, fate{verb: ended})
			}
			f.cursor = e.Seq
		}
		if len(es) < followPage {
			return nil
		}
	}
}
