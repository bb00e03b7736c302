package sidecar

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// maintenance is the maintenance at an instant, from memory.
func (t *turn) maintenance(now time.Time) job.Maintenance {
	set, _ := t.QueueSettings(job.MaintenanceQueue)
	return set.Maintenance(now)
}

// Maintenance reads whether the server is in maintenance; see [job.AdminService].
func (s *Sidecar) Maintenance(ctx context.Context) (job.Maintenance, error) {
	now := s.now()
	return view(ctx, s, func(tx job.ReadTx) (job.Maintenance, error) { return maintenanceIn(tx, now) })
}

func maintenanceIn(tx job.ReadTx, now time.Time) (job.Maintenance, error) {
	set, err := tx.QueueSettings(job.MaintenanceQueue)
	return set.Maintenance(now), err
}

// SetMaintenance begins, changes or ends a maintenance; see [job.AdminService].
func (s *Sidecar) SetMaintenance(ctx context.Context, ask job.MaintenanceAsk) (m job.Maintenance, err error) {
	now := s.now()
	var before job.Maintenance
	var next *job.QueueSettings
	err = s.update(ctx, func(t *turn) error {
		own, err := ownSettings(t, job.MaintenanceQueue)
		if err != nil {
			return err
		}
		before = own.Maintenance(now)
		if next, err = own.WithMaintenance(ask, now); err != nil {
			return err
		}
		m = next.Maintenance(now)
		if next == nil {
			return t.DeleteQueueSettings(job.MaintenanceQueue)
		}
		return t.PutQueueSettings(next)
	})
	if err != nil {
		return job.Maintenance{}, err
	}
	if _, err := s.closed.look(ctx, s); err != nil { // it is stored all the same
		s.closed.set.Store(next)
	}
	switch {
	case m.On:
		s.log.Warn("in maintenance: no job is handed out, none is promoted and no schedule fires, until it is ended", "reason", m.Reason, "ends", m.Ends)
		s.clock.wake(dutyReopen, later(m.Ends, now))
	case before.On:
		s.reopen("the maintenance was ended; jobs are handed out again", before, now)
	}
	return m, nil
}

// endMaintenance ends a maintenance whose time is over, and says when the one that there
// is will be.
func (s *Sidecar) endMaintenance(ctx context.Context, now time.Time) (time.Time, error) {
	set, err := s.closed.look(ctx, s)
	ends := set.MaintenanceEnd()
	if err != nil || ends.IsZero() || now.Before(ends) {
		return ends, err
	}
	over := false
	err = s.update(ctx, func(t *turn) error {
		own, err := ownSettings(t, job.MaintenanceQueue)
		if ends = own.MaintenanceEnd(); err != nil || ends.IsZero() || now.Before(ends) { // it was changed meanwhile
			over = false
			return err
		}
		over = true
		return t.DeleteQueueSettings(job.MaintenanceQueue)
	})
	if err != nil || !over {
		return ends, err
	}
	if _, err := s.closed.look(ctx, s); err != nil { // it is over all the same
		s.closed.set.Store(nil)
	}
	s.reopen("the maintenance is over; jobs are handed out again", set.Maintenance(ends.Add(-1)), now)
	return time.Time{}, nil
}

// reopen wakes all who have waited for the end of a maintenance.
func (s *Sidecar) reopen(said string, m job.Maintenance, now time.Time) {
	s.log.Info(said, "reason", m.Reason, "lasted", now.Sub(m.Started))
	s.clock.wake(dutyPromote, now)
	s.wakeups.ringAll("")
}

// closed is the maintenance that was stored last, for those who look often.
type closed struct {
	mu  sync.Mutex // held from the look at the store on, so that no older look comes later
	set atomic.Pointer[job.QueueSettings]
}

// look reads it from the store, and keeps it.
func (c *closed) look(ctx context.Context, s *Sidecar) (*job.QueueSettings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set, err := view(ctx, s, func(tx job.ReadTx) (*job.QueueSettings, error) { return tx.QueueSettings(job.MaintenanceQueue) })
	if err == nil {
		c.set.Store(set)
	}
	return set, err
}

// held reports whether schedules must not fire now, from memory: the duties look at the
// store before the first of them fires.
func (s *Sidecar) held() bool { return s.closed.set.Load().Maintenance(s.now()).On }
