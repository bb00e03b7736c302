package outbox

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// Who relays an outbox is written in its table of relays: each owner with the
// time until which it is taken to live. A relay that stops to write there loses
// its rows to the others, and what it still says of them changes nothing.
//
// The clock of the database tells when a lease ends. That it has ended is no proof
// that somebody is dead: the database may have been away, or all have stood still.
// So a relay takes the rows of another when it has besides seen that one's lease
// unrenewed for the length of a lease in which it could renew its own.

// Release is when a row of the outbox may go.
type Release string

const (
	// OnRelay: as soon as the job server has the job on its disk.
	OnRelay Release = "on_relay"
	// OnComplete: when the job has ended, or another that answers for the row. A job
	// server whose disk is lost stops to renew its lease, and another takes its rows
	// under the same job ids.
	OnComplete Release = "on_complete"
)

// lease makes sure that the relay may work, and says so. It renews its place
// after a third of the lease, and then looks after those that have died.
func (r *Relay) lease(ctx context.Context) (bool, error) {
	if err := r.watch(); err != nil {
		return false, err
	}
	now := r.o.Now()
	if now.Before(r.renewal) {
		return !r.standby, nil
	}
	if now.Sub(r.renewed) > r.o.Lease {
		r.started = false // others may have taken what this relay had
	}
	if !r.d.shared() {
		if _, err := r.look(ctx); err != nil {
			return false, err
		}
	}
	n, err := r.renew(ctx)
	if err != nil {
		return false, err
	}
	if was := r.standby; !r.d.shared() && n == 0 {
		if r.standby = true; !was {
			r.say(func(s *RelayState) { s.Standby = true })
			if err := r.logStandby(ctx); err != nil {
				return false, err
			}
		}
		r.renewal = now.Add(min(time.Second, r.o.Lease/3))
		return false, nil
	}
	if r.standby {
		r.o.Log.Info("outbox: the other relay is gone; this one takes over", "outbox", r.o.Name)
		r.say(func(s *RelayState) { s.Standby = false })
	}
	r.standby, r.renewed, r.renewal = false, now, now.Add(r.o.Lease/3)
	if !r.started {
		if err := r.resume(ctx); err != nil {
			return false, err
		}
		r.started = true
	}
	return true, r.freeRowsOfDead(ctx)
}

// renew renews the lease, and counts the time since the last time as watched. Of
// a longer one nobody knows who could renew a lease in it.
func (r *Relay) renew(ctx context.Context) (int64, error) {
	now, args := r.o.Now(), []any{r.o.Owner, string(r.o.Release), r.o.Lease.Milliseconds(), r.host}
	if !r.d.shared() {
		args = append(args, r.over)
	}
	n, err := r.change(ctx, "renew the lease in", r.d.sql.Renew, args...)
	if err != nil {
		return 0, err
	}
	d := now.Sub(r.reached)
	if d <= r.o.Lease/2 {
		r.watched += max(0, d)
	}
	if d > r.o.Lease && !r.reached.IsZero() && !r.standby && r.o.Release == OnComplete {
		r.o.Log.Warn("outbox: the lease was renewed too late, so others may have taken this job server's rows, and their jobs may run twice. The database may have been away, or this machine too busy. A longer lease bears more",
			"outbox", r.o.Name, "lease", r.o.Lease, "last_renewed", d.Round(time.Millisecond))
	}
	r.reached = now
	return n, nil
}

// live renews the lease in the middle of long work: there may be a million rows to read or to free.
func (r *Relay) live(ctx context.Context) error {
	now := r.o.Now()
	if now.Before(r.renewed.Add(r.o.Lease / 3)) {
		return nil
	}
	_, err := r.renew(ctx)
	r.renewed = now
	return err
}

// stayAlive renews the lease by itself until stop is called, for a caller who
// holds mu and waits for something else than the database. A renewal that fails
// is tried again soon: the lease may outlive the trouble.
func (r *Relay) stayAlive(ctx context.Context) (stop func()) {
	var mu sync.Mutex // the relay is the caller's again once stop has it
	var timer *time.Timer
	stopped := false
	every := r.o.Lease / 3
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(max(0, every-r.o.Now().Sub(r.renewed)), func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		now := r.o.Now()
		switch n, err := r.renew(ctx); {
		case err != nil:
			timer.Reset(every / 4)
		case n > 0:
			if now.Sub(r.renewed) > r.o.Lease {
				r.started = false // as in lease: others may have taken what this relay had
			}
			r.renewed = now
			timer.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// logStandby says whom this relay waits for, and how long at most.
func (r *Relay) logStandby(ctx context.Context) error {
	peers, err := r.peers(ctx, 0)
	if err != nil {
		return err
	}
	other := Peer{Seen: time.UnixMilli(0).UTC()}
	for _, p := range peers {
		if p.Seen.After(other.Seen) {
			other = p
		}
	}
	now := r.o.Now().UTC()
	if now.Before(other.Seen) {
		now = other.Seen
	}
	r.o.Log.Warn("outbox: another job server relays this outbox, so this one stands by. If that one is dead, this one takes over when its lease has run out, and this one has watched it for as long",
		"outbox", r.o.Name, "owner", other.Owner, "host", other.Host, "pid", other.PID, "last_seen", other.Seen.Format(time.RFC3339), "lease_until", now.Add(r.o.Lease).Format(time.RFC3339))
	return nil
}

// resume takes up what this owner had when it stopped: rows that were taken and
// not sent are everybody's again, those of jobs under way are followed again.
func (r *Relay) resume(ctx context.Context) error {
	if r.d.shared() {
		if _, err := r.change(ctx, "give rows back to", r.d.sql.Back, r.o.Owner); err != nil {
			return err
		}
	}
	r.settled = nil
	if err := r.warnOfPeers(ctx); err != nil {
		return err
	}
	return r.reload(ctx)
}

// leave tells the others that this relay has stopped, so that nobody waits for
// its lease. Rows of jobs under way keep theirs: the jobs are on this disk.
func (r *Relay) leave(ctx context.Context) error {
	if r.standby || !r.started {
		return nil
	}
	if r.d.shared() {
		if _, err := r.change(ctx, "give rows back to", r.d.sql.Back, r.o.Owner); err != nil {
			return err
		}
	}
	if r.o.Release == OnComplete {
		return nil
	}
	_, err := r.change(ctx, "leave", r.d.sql.Leave, r.o.Owner)
	r.started, r.renewal = false, time.Time{}
	return err
}

// take reads a batch and makes it this relay's own, in one short transaction.
func (r *Relay) take(ctx context.Context) ([]row, error) {
	if r.idle {
		var one int64
		err := r.conn.QueryRowContext(ctx, r.d.sql.Peek, r.o.Now().UnixMilli()).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, r.failed(ctx, "look for rows in", err)
		}
	}
	tx, err := r.conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, r.failed(ctx, "begin to read", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	if r.d.sql.Ordered != "" {
		if _, err := tx.ExecContext(ctx, r.d.sql.Ordered); err != nil {
			_ = tx.Rollback() // it holds the connection, which could not be closed
			return nil, r.failed(ctx, "prepare to read", err)
		}
	}
	batch, full, err := r.read(ctx, tx, r.d.sql.Pending)
	if err == nil && len(batch) > 0 {
		outcomes := make([]outcome, len(batch))
		for i, b := range batch {
			outcomes[i].row = b.id
		}
		_, err = tx.ExecContext(ctx, fill(r.d.sql.Take, "{ids}", idsOf(outcomes)), r.o.Owner)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, r.failed(ctx, "take rows of", err)
	}
	r.idle, r.more = len(batch) == 0, full
	return batch, nil
}

// giveBack makes the rows that are taken and have no outcome everybody's again.
func (r *Relay) giveBack(ctx context.Context) {
	if !r.d.shared() || len(r.settled) > 0 {
		return
	}
	// If this fails, the lease runs out.
	_, _ = r.change(context.WithoutCancel(ctx), "give rows back to", r.d.sql.Back, r.o.Owner)
}
