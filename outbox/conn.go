package outbox

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// open makes sure of the connection and of what is kept on it: a number such as
// SQLite's data_version means something only to the connection that asks.
func (r *Relay) open(ctx context.Context) error {
	if r.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reaching)
	defer cancel()
	conn, replaced, err := r.file.conn(ctx, r.db, r.d)
	if err != nil {
		if r.file.lost {
			r.forget() // what comes back may be a copy, of the same identity
		}
		return job.Errorf(job.Unavailable, "outbox %s: open the database: %w", r.o.Name, err)
	}
	r.conn = conn
	if err := r.recognize(ctx, replaced); err != nil {
		return err
	}
	if r.d.sql.Changed != "" {
		if r.changed, err = conn.PrepareContext(ctx, r.d.sql.Changed); err != nil {
			return r.failed(ctx, "look for commits", err)
		}
		r.version = -1 // the first answer is always a change
	}
	return r.warnOfDatabase(ctx)
}

// recognize reads whose outbox it is. What is known of the rows of another one
// must not be written to this: the error says that all begins anew.
func (r *Relay) recognize(ctx context.Context, replaced bool) error {
	if r.of != "" && r.d.sql.Path == "" {
		return nil
	}
	of, err := identity(ctx, r.conn, r.d)
	if err != nil {
		return r.failed(ctx, "read the identity of", err)
	}
	if replaced || r.of != "" && r.of != of {
		r.forget()
		return job.Errorf(job.Unavailable, "outbox %s: the database is another one than before, and is opened anew", r.o.Name)
	}
	r.of = of
	if r.narrow, err = narrow(ctx, r.conn, r.d); err != nil {
		return r.failed(ctx, "read the encoding of", err)
	}
	return nil
}

// watch looks, once a second, whether a database that is a file is still there.
func (r *Relay) watch() error {
	now := r.o.Now()
	if r.d.sql.Path == "" || now.Before(r.file.next) && now.After(r.file.next.Add(-2*lookEvery)) {
		return nil
	}
	r.file.next = now.Add(lookEvery)
	if err := r.file.moved(); err != nil {
		r.forget()
		return job.Errorf(job.Unavailable, "outbox %s: %w", r.o.Name, err)
	}
	return nil
}

// forget gives up the connection, and all that is known of a database that is
// gone: its rows have nothing to do with those of the one that takes its place.
func (r *Relay) forget() {
	r.drop(false)
	r.of, r.settled, r.count, r.swept, r.follows = "", nil, 0, sweep{}, followed{}
	r.started, r.renewed, r.renewal = false, time.Time{}, time.Time{}
	r.seenLeases, r.over = nil, 0
	r.warned, r.looked = false, time.Time{}
}

// warnOfDatabase warns once of a database that makes the relay a burden to the app.
func (r *Relay) warnOfDatabase(ctx context.Context) error {
	c := r.d.sql.Caution
	if r.warned || c.Query == "" {
		return nil
	}
	var is string
	if err := r.conn.QueryRowContext(ctx, c.Query).Scan(&is); err != nil {
		return r.failed(ctx, "look at the mode of", err)
	}
	r.warned = true
	if is != c.Good {
		r.o.Log.Warn("outbox: "+c.Advice, "outbox", r.o.Name, "is", is)
	}
	return nil
}

// drop gives the connection back, or closes it if it is not trusted again. Errors
// of closing change nothing.
func (r *Relay) drop(trusted bool) {
	if r.changed != nil {
		_ = r.changed.Close() // before its connection
		r.changed = nil
	}
	if r.conn != nil && trusted {
		_ = r.conn.Close()
	} else if r.conn != nil {
		discard(r.conn)
	}
	r.conn = nil
}

// failed is an error of the database, said as well as possible: a table that is
// gone is told with the command that makes it. The connection is not trusted again.
func (r *Relay) failed(ctx context.Context, doing string, err error) error {
	r.drop(false)
	if r.d.shared() {
		// What was asked last may have been done, and its answer lost: rows may be
		// taken of which this relay does not know. It begins again.
		r.started, r.renewal = false, time.Time{}
	}
	if ctx.Err() == nil {
		if why := r.check(ctx); why != nil && job.KindOf(why) != job.Unavailable {
			r.forget() // a table that is made anew has rows with the ids of others
			return job.Errorf(job.Unavailable, "outbox %s: %w", r.o.Name, why)
		}
	}
	return job.Errorf(job.Unavailable, "outbox %s: %s the table %s: %w", r.o.Name, doing, r.d.sql.Table, err)
}

// check is Check, of a database that may never answer.
func (r *Relay) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reaching)
	defer cancel()
	return Check(ctx, r.db, r.d)
}

// trouble is a database or a job server that does not answer.
type trouble struct {
	tries   int
	refused int // of tries, how often the job server did not take the batch
	since   time.Time
	until   time.Time // nothing is tried before
	logged  []string  // the causes that the log has, without what differs from try to try
}

// maxCauses is how many causes of one outage the log tells.
const maxCauses = 8

// varying is what differs between two tries that fail alike: ports, ids, sizes.
var varying = regexp.MustCompile(`[0-9]{4,}`)

// backOff backs off after an error, logs each cause once, and returns how
// long to wait: 100 ms, doubled at each error up to 10 s, less up to a half by chance.
// Who waits is back before a lease that was just renewed could run out.
func (r *Relay) backOff(err error) time.Duration {
	t, now := &r.trouble, r.o.Now()
	if t.tries == 0 {
		t.since = now
	}
	if cause := varying.ReplaceAllString(err.Error(), "#"); len(t.logged) < maxCauses && !slices.Contains(t.logged, cause) {
		what := "outbox: the relay has stopped and tries again by itself; it loses no row"
		if t.tries > 0 {
			what = "outbox: the relay has not gone on yet, now for another reason; it tries again by itself"
		}
		t.logged = append(t.logged, cause)
		r.o.Log.Warn(what, "outbox", r.o.Name, "error", err)
	}
	r.sayErr(err)
	r.say(func(s *RelayState) { s.Trouble = true })
	wait := min(minBackoff<<min(t.tries, 10), maxBackoff, r.o.Lease/6)
	wait -= time.Duration(r.rand() * float64(wait/2))
	t.tries++
	t.until = now.Add(wait)
	r.more = false
	return wait
}

// recover ends the trouble, if there was any.
func (r *Relay) recover() {
	if t := r.trouble; t.tries > 0 {
		r.o.Log.Info("outbox: the relay works again", "outbox", r.o.Name,
			"tries", t.tries, "after", r.o.Now().Sub(t.since).Round(time.Millisecond))
		r.say(func(s *RelayState) { s.Trouble = false })
	}
	r.trouble = trouble{}
}
