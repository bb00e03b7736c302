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
	err = s.update(ctx, func(t *turn) error {
		own, err := ownSettings(t, job.MaintenanceQueue)
		if err != nil {
			return err
		}
		before = own.Maintenance(now)
		next, err := own.WithMaintenance(ask, now)
		if err != nil {
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
	s.mode.changes.Add(1)
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
	set, err := view(ctx, s, func(tx job.ReadTx) (*job.QueueSettings, error) { return tx.QueueSettings(job.MaintenanceQueue) })
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
	s.reopen("the maintenance is over; jobs are handed out again", set.Maintenance(ends.Add(-1)), now)
	return time.Time{}, nil
}

// reopen wakes all who have waited for the end of a maintenance.
func (s *Sidecar) reopen(said string, m job.Maintenance, now time.Time) {
	s.log.Info(said, "reason", m.Reason, "lasted", now.Sub(m.Started))
	s.clock.wake(dutyPromote, now)
	s.wakeups.ringAll("")
}

// mode remembers the maintenance, so that a server with nothing to do need not read it.
type mode struct {
	changes atomic.Int64 // how often it was changed here
	mu      sync.Mutex
	upto    int64 // the changes that known has seen
	known   *job.QueueSettings
	read    bool
}

// held reports whether schedules must not fire now. Where that cannot be read they may
// try: they will not be able to store what they make.
func (s *Sidecar) held(ctx context.Context) bool {
	m, now := &s.mode, s.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.changes.Load(); !m.read || m.upto != at {
		set, err := view(ctx, s, func(tx job.ReadTx) (*job.QueueSettings, error) { return tx.QueueSettings(job.MaintenanceQueue) })
		if err != nil {
			return false
		}
		m.known, m.upto, m.read = set, at, true
	}
	return m.known.Maintenance(now).On
}
