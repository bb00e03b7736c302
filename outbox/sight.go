package outbox

import (
	"context"
	"database/sql"
	"math"
	"time"
)

// seenLease is another's lease as this relay has seen it.
type seenLease struct {
	until int64         // when it ends
	since time.Duration // what was watched when it was first seen so
}

// left is when the lease of a relay ends that has said that it stops.
const left = 1

// look reads the leases of the others, and returns whose have not moved for so
// long that they are dead if the database says so, too.
func (r *Relay) look(ctx context.Context) (still []string, err error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	was := r.seenLeases
	r.seenLeases, r.over = map[string]seenLease{}, math.MaxInt64
	err = r.each(ctx, func(rows *sql.Rows) (bool, error) {
		var owner string
		var until int64
		if err := rows.Scan(&owner, &until); err != nil {
			return false, err
		}
		s, known := was[owner]
		if !known || s.until != until {
			s = seenLease{until, r.watched}
		}
		r.seenLeases[owner] = s
		if until == left || r.watched-s.since >= r.o.Lease {
			still = append(still, owner)
		} else {
			r.over = min(r.over, until-1)
		}
		return true, nil
	}, r.d.sql.Leases, r.o.Owner)
	if err != nil {
		r.seenLeases, r.over = was, 0
		return nil, r.failed(ctx, "look for other relays in", err)
	}
	return still, nil
}
