package sidecar

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// configOf is the configuration that holds for a queue. It is a look at memory, and
// never fails in a turn.
func (t *turn) configOf(queue string) *job.QueueConfig {
	set, _ := t.QueueSettings(queue)
	return set.Effective()
}

// ruled makes the next verbs on a job heed what the server and its queue say.
func (s *Sidecar) ruled(t *turn, j *job.Job) *job.Job {
	return j.Under(&s.o.Rules).In(t.configOf(j.Queue))
}

// timeout is the limit of an execution whose job names none.
func (s *Sidecar) timeout(t *turn, queue string) time.Duration {
	if own := t.configOf(queue).DefaultTimeout; own > 0 {
		return own
	}
	return s.o.Timeout
}

// SetQueueStatus pauses, drains or resumes a queue; see [job.QueueService].
func (s *Sidecar) SetQueueStatus(ctx context.Context, name, status, by string) (job.Queue, error) {
	var q job.Queue
	if err := job.CheckQueueName(name); err != nil {
		return q, err
	}
	now := s.now()
	err := s.update(ctx, func(t *turn) error {
		own, err := ownSettings(t, name)
		if err != nil {
			return err
		}
		next, told, err := own.Turn(name, status, by, now)
		if err != nil {
			return err
		}
		if err := t.makeQueue(name, by, now); err != nil {
			return err
		}
		if len(told) > 0 {
			if err := t.PutQueueSettings(next); err != nil {
				return err
			}
		}
		for _, e := range told {
			if err := t.addEvent(e); err != nil {
				return err
			}
		}
		q, err = t.Queue(name)
		return err
	})
	if err != nil {
		return job.Queue{}, err
	}
	s.settled(name)
	return q, nil
}

// ownSettings are the settings that are stored of a queue, nil for none.
func ownSettings(tx job.QueueReader, name string) (*job.QueueSettings, error) {
	all, err := tx.AllQueueSettings()
	for _, set := range all {
		if set.Name == name {
			return set, err
		}
	}
	return nil, err
}

// makeQueue makes a queue that is not there, and tells of it.
func (t *turn) makeQueue(name, by string, now time.Time) error {
	if _, err := t.Queue(name); job.KindOf(err) != job.NotFound || err == nil {
		return err
	}
	if err := t.PutQueue(name, now); err != nil {
		return err
	}
	return t.addEvent(job.QueueEvent(job.QueueWasCreated, name, by, now))
}

// settled wakes those who wait for what the settings of a queue may have changed.
func (s *Sidecar) settled(queue string) {
	if queue == job.TemplateQueue {
		queue = ""
	}
	s.wakeups.ringAll(queue)
	s.spaces.wakeAll(queue)
}

// CreateQueue makes a queue; see [job.QueueService].
func (s *Sidecar) CreateQueue(ctx context.Context, name string, config json.RawMessage, by string) (q job.Queue, err error) {
	if err := job.CheckQueueName(name); err != nil {
		return q, err
	}
	set := &job.QueueSettings{Name: name}
	if set.Config, err = readConfig(config); err != nil {
		return q, err
	}
	now := s.now()
	err = s.update(ctx, func(t *turn) error {
		if _, err := t.Queue(name); err == nil {
			return job.QueueExists(name)
		} else if job.KindOf(err) != job.NotFound {
			return err
		}
		if err := t.makeQueue(name, by, now); err != nil {
			return err
		}
		if set.Config.Raw != nil {
			own := *set
			if err := t.PutQueueSettings(&own); err != nil {
				return err
			}
		}
		q, err = t.Queue(name)
		return err
	})
	return q, err
}

// readConfig reads a configuration that a caller sent, a copy of it.
func readConfig(raw json.RawMessage) (job.QueueConfig, error) {
	if raw == nil {
		return job.QueueConfig{}, nil
	}
	if err := job.CheckJSON(raw); err != nil {
		return job.QueueConfig{}, err
	}
	return job.ParseQueueConfig(append(json.RawMessage(nil), raw...))
}

// QueueConfig reads a configuration as it was set; see [job.QueueService].
func (s *Sidecar) QueueConfig(ctx context.Context, name string) (job.QueueConfig, error) {
	if err := job.CheckConfigured(name); err != nil {
		return job.QueueConfig{}, err
	}
	return view(ctx, s, func(tx job.ReadTx) (job.QueueConfig, error) {
		own, err := ownSettings(tx, name)
		if own == nil {
			return job.QueueConfig{}, err
		}
		return own.Config, err
	})
}

// SetQueueConfig sets a configuration; see [job.QueueService].
func (s *Sidecar) SetQueueConfig(ctx context.Context, name string, raw json.RawMessage, patch bool) (c job.QueueConfig, err error) {
	if err := job.CheckConfigured(name); err != nil {
		return c, err
	}
	asked, err := readConfig(raw)
	if err != nil {
		return c, err
	}
	now, redate := s.now(), false
	err = s.update(ctx, func(t *turn) error {
		own, err := ownSettings(t, name)
		if err != nil {
			return err
		}
		next := &job.QueueSettings{Name: name}
		if own != nil {
			*next = *own
		}
		was := next.Config
		if c = asked; patch {
			if c, err = was.Patched(asked.Raw); err != nil {
				return err
			}
		}
		next.Config, redate = c, !c.Retention.Same(was.Retention)
		if name != job.TemplateQueue {
			if err := t.makeQueue(name, "", now); err != nil {
				return err
			}
		}
		return t.PutQueueSettings(next)
	})
	if err != nil {
		return job.QueueConfig{}, err
	}
	s.settled(name)
	if redate {
		err = s.redate(ctx, name)
	}
	return c, err
}

// QueueStats reads what a queue holds and what happened in the last hour; see
// [job.QueueService].
func (s *Sidecar) QueueStats(ctx context.Context, name string) (job.QueueReport, error) {
	now := s.now()
	return view(ctx, s, func(tx job.ReadTx) (r job.QueueReport, err error) {
		r.At = now
		if name == "" {
			r.Queue, err = allQueues(tx)
		} else if r.Queue, err = tx.Queue(name); job.KindOf(err) == job.NotFound && err != nil {
			r.Queue, err = job.Queue{Name: name}, nil
		}
		if err != nil {
			return r, err
		}
		slots, err := tx.Slots(name, job.HourBefore(now))
		if err != nil {
			return r, err
		}
		r.Stats = job.StatsOf(slots, now)
		if r.Since, r.By, r.CreatedAt = (time.Time{}), "", (time.Time{}); name == "" { // they are of the queue, and not of the hour
			return r, nil
		}
		set, err := tx.QueueSettings(name)
		if err != nil {
			return r, err
		}
		r.Bound = set.Effective().Backpressure.MaxDepth
		r.Oldest, err = tx.OldestSince(name)
		return r, err
	})
}

// allQueues are all queues as if they were one.
func allQueues(tx job.QueueReader) (all job.Queue, err error) {
	qs, err := tx.Queues()
	all.Counts = map[job.State]int64{}
	for _, q := range qs {
		for st, n := range q.Counts {
			all.Counts[st] += n
		}
		all.Dead += q.Dead
	}
	return all, err
}

// Slots reads the tallies of a queue; see [job.QueueService].
func (s *Sidecar) Slots(ctx context.Context, queue string, from time.Time) ([]job.Slot, error) {
	return view(ctx, s, func(tx job.ReadTx) ([]job.Slot, error) { return tx.Slots(queue, from) })
}

// Priorities counts the available jobs by their priority; see [job.QueueService].
func (s *Sidecar) Priorities(ctx context.Context, queue string) (map[int]int64, error) {
	return view(ctx, s, func(tx job.ReadTx) (map[int]int64, error) { return tx.Priorities(queue) })
}

// Reprioritize changes the priority of a job; see [job.QueueService].
func (s *Sidecar) Reprioritize(ctx context.Context, id job.ID, priority int) (job.Change, error) {
	return s.change(ctx, id, func(j *job.Job) error { return j.Reprioritize(priority) })
}

// PurgeQueue removes finished jobs of a queue; see [job.QueueService].
func (s *Sidecar) PurgeQueue(ctx context.Context, name string, p job.Purge) (n int64, err error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if _, err := s.Queue(ctx, name); err != nil {
		return 0, err
	}
	f := job.Filter{Queue: name, States: p.States}
	if p.DryRun {
		return s.count(ctx, f, func(tx job.ReadTx, j *job.Job) (bool, error) {
			if !p.Takes(j) {
				return false, nil
			}
			needed, err := inRunningFlow(tx, j)
			return !needed, err
		})
	}
	return s.each(ctx, f, p.Takes, func(t *turn, j *job.Job) (bool, error) {
		if needed, err := inRunningFlow(t, j); needed || err != nil {
			return false, err
		}
		return true, t.remove(j.ID)
	})
}

// DeleteQueue removes a queue; see [job.QueueService].
func (s *Sidecar) DeleteQueue(ctx context.Context, name string, d job.QueueDeletion) (n int64, err error) {
	if err := d.Validate(name); err != nil {
		return 0, err
	}
	if err := s.feedsNoFlow(ctx, name); err != nil {
		return 0, err
	}
	if err := s.closeQueue(ctx, name, d); err != nil {
		return 0, err
	}
	for {
		done, err := s.emptyQueue(ctx, name, d)
		if n += done; err != nil {
			return n, err
		}
		now, gone := s.now(), false
		err = s.update(ctx, func(t *turn) error {
			gone = false
			q, err := t.Queue(name)
			switch {
			case job.KindOf(err) == job.NotFound && err != nil: // somebody else was at it, too
				gone = true
				return nil
			case err != nil:
				return err
			}
			for _, c := range q.Counts {
				if c > 0 { // which came meanwhile: from a schedule, or back from a worker
					return nil
				}
			}
			gone = true
			if err := t.DeleteQueue(name); err != nil {
				return err
			}
			if err := t.DeleteLimit(job.QueueLimitKey(name)); err != nil {
				return err
			}
			return t.addEvent(job.QueueEvent(job.QueueWasDeleted, name, d.By, now))
		})
		if err != nil {
			return n, err
		}
		if gone {
			s.settled(name)
			return n, nil
		}
	}
}

// feedsNoFlow refuses to delete a queue with results that a workflow may still ask for.
func (s *Sidecar) feedsNoFlow(ctx context.Context, name string) error {
	var feeds *job.Job
	_, err := s.count(ctx, job.Filter{Queue: name, States: []job.State{job.Completed}}, func(tx job.ReadTx, j *job.Job) (bool, error) {
		if feeds != nil {
			return false, nil
		}
		needed, err := inRunningFlow(tx, j)
		if needed {
			feeds = j
		}
		return needed, err
	})
	if err == nil && feeds != nil {
		err = neededByFlow(feeds)
	}
	return err
}

// closeQueue keeps new jobs out of a queue that is to be deleted.
func (s *Sidecar) closeQueue(ctx context.Context, name string, d job.QueueDeletion) error {
	now := s.now()
	return s.update(ctx, func(t *turn) error {
		q, err := t.Queue(name)
		if err != nil {
			return err
		}
		if d.Strategy == job.DeleteReject && q.Depth() > 0 {
			return job.QueueInUse(name, q.Depth())
		}
		if d.Strategy == job.DeleteMove {
			if err := t.makeQueue(d.Target, d.By, now); err != nil {
				return err
			}
		}
		own, err := ownSettings(t, name)
		if err != nil {
			return err
		}
		next, _, err := own.Turn(name, job.QueueDraining, d.By, now)
		if err != nil {
			return err
		}
		return t.PutQueueSettings(next)
	})
}

// emptyQueue does with the jobs of a queue what its deletion says, and counts those
// that had not ended.
func (s *Sidecar) emptyQueue(ctx context.Context, name string, d job.QueueDeletion) (n int64, err error) {
	n, err = s.each(ctx, job.Filter{Queue: name, States: unfinished}, func(j *job.Job) bool { return j.Queue == name && !j.State.Terminal() },
		func(t *turn, j *job.Job) (bool, error) { return true, s.leaveQueue(t, j, d) })
	if err != nil {
		return n, err
	}
	_, err = s.each(ctx, job.Filter{Queue: name, States: finished}, func(j *job.Job) bool { return j.Queue == name && j.State.Terminal() },
		func(t *turn, j *job.Job) (bool, error) {
			if j.State == job.Completed { // since it was looked at
				if needed, err := inRunningFlow(t, j); err != nil {
					return false, err
				} else if needed {
					return false, neededByFlow(j)
				}
			}
			return true, t.remove(j.ID)
		})
	return n, err
}

// The states by whether they are final.
var (
	unfinished = []job.State{job.Scheduled, job.Available, job.Pending, job.Active, job.Retryable}
	finished   = []job.State{job.Completed, job.Cancelled, job.Discarded}
)

// leaveQueue does with a job that has not ended what the deletion of its queue says.
func (s *Sidecar) leaveQueue(t *turn, j *job.Job, d job.QueueDeletion) error {
	switch d.Strategy {
	case job.DeleteReject:
		return job.QueueInUse(j.Queue, 1)
	case job.DeleteDiscard:
		if err := j.Cancel(s.now(), d.By, "its queue was deleted"); err != nil {
			return err
		}
		return t.save(j)
	}
	if j.CustomID != "" {
		if other, err := t.Custom(d.Target, j.CustomID); err != nil {
			return err
		} else if other != nil {
			return job.Errorf(job.Conflict, "job %s cannot be moved to the queue %s, where job %s has its job_id %q already; the queue %s keeps what is left of it, and is draining", j.ID, d.Target, other.ID, j.CustomID, j.Queue).
				With(map[string]any{"job_id": string(j.ID), "existing_job_id": string(other.ID)})
		}
	}
	if err := j.MoveTo(d.Target); err != nil {
		return err
	}
	return t.save(j)
}

// redate finds the finished jobs of a queue, or of all, to which its changed retention
// gives another end.
func (s *Sidecar) redate(ctx context.Context, queue string) error {
	f := job.Filter{Queue: queue, States: finished}
	if queue == job.TemplateQueue {
		f.Queue = ""
	}
	_, err := s.each(ctx, f, nil, func(t *turn, j *job.Job) (bool, error) {
		if !j.State.Terminal() || !s.retain(t, j) {
			return false, nil
		}
		return true, t.save(j)
	})
	s.clock.wake(dutyPrune, s.now())
	return err
}

// retain dates a finished job as the retention of its queue says, and reports whether
// that has changed anything.
func (s *Sidecar) retain(t *turn, j *job.Job) bool {
	return j.Retain(t.configOf(j.Queue).Retention.Of(j.State), s.o.Retention.kept(j.State))
}
