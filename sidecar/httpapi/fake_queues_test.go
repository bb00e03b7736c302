package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// queueFake is what a fake answers about queues and about many jobs at once.
type queueFake struct {
	setStatus    func(name, status, by string) (job.Queue, error)
	createQueue  func(name string, config json.RawMessage, by string) (job.Queue, error)
	deleteQueue  func(name string, d job.QueueDeletion) (int64, error)
	purgeQueue   func(name string, p job.Purge) (int64, error)
	queueConfig  func(name string) (job.QueueConfig, error)
	setConfig    func(name string, raw json.RawMessage, patch bool) (job.QueueConfig, error)
	queueStats   func(name string) (job.QueueReport, error)
	slots        func(queue string, from time.Time) ([]job.Slot, error)
	priorities   func(queue string) (map[int]int64, error)
	reprioritize func(id job.ID, priority int) (job.Change, error)
	pushEach     func(p job.BulkPush) (job.BulkResult, error)
	bulk         func(a job.BulkAct) (job.BulkResult, error)
}

func (f *fake) SetQueueStatus(_ context.Context, name, status, by string) (q job.Queue, err error) {
	f.calls.Add(1)
	if f.setStatus == nil {
		return q, nil
	}
	return f.setStatus(name, status, by)
}

func (f *fake) CreateQueue(_ context.Context, name string, config json.RawMessage, by string) (q job.Queue, err error) {
	f.calls.Add(1)
	if f.createQueue == nil {
		return q, nil
	}
	return f.createQueue(name, config, by)
}

func (f *fake) DeleteQueue(_ context.Context, name string, d job.QueueDeletion) (int64, error) {
	f.calls.Add(1)
	if f.deleteQueue == nil {
		return 0, nil
	}
	return f.deleteQueue(name, d)
}

func (f *fake) PurgeQueue(_ context.Context, name string, p job.Purge) (int64, error) {
	f.calls.Add(1)
	if f.purgeQueue == nil {
		return 0, nil
	}
	return f.purgeQueue(name, p)
}

func (f *fake) QueueConfig(_ context.Context, name string) (c job.QueueConfig, err error) {
	f.calls.Add(1)
	if f.queueConfig == nil {
		return c, nil
	}
	return f.queueConfig(name)
}

func (f *fake) SetQueueConfig(_ context.Context, name string, raw json.RawMessage, patch bool) (c job.QueueConfig, err error) {
	f.calls.Add(1)
	if f.setConfig == nil {
		return c, nil
	}
	return f.setConfig(name, raw, patch)
}

// QueueStats is made of the queue where nothing else is wanted.
func (f *fake) QueueStats(ctx context.Context, name string) (r job.QueueReport, err error) {
	if f.queueStats != nil {
		f.calls.Add(1)
		return f.queueStats(name)
	}
	if r.Queue, err = f.Queue(ctx, name); job.KindOf(err) == job.NotFound && err != nil {
		r.Queue, err = job.Queue{Name: name}, nil
	}
	r.At = noon
	return r, err
}

func (f *fake) Slots(_ context.Context, queue string, from time.Time) ([]job.Slot, error) {
	f.calls.Add(1)
	if f.slots == nil {
		return nil, nil
	}
	return f.slots(queue, from)
}

func (f *fake) Priorities(_ context.Context, queue string) (map[int]int64, error) {
	f.calls.Add(1)
	if f.priorities == nil {
		return nil, nil
	}
	return f.priorities(queue)
}

func (f *fake) Reprioritize(_ context.Context, id job.ID, priority int) (c job.Change, err error) {
	f.calls.Add(1)
	if f.reprioritize == nil {
		return c, nil
	}
	return f.reprioritize(id, priority)
}

func (f *fake) PushEach(_ context.Context, p job.BulkPush) (r job.BulkResult, err error) {
	f.calls.Add(1)
	if f.pushEach == nil {
		return r, nil
	}
	return f.pushEach(p)
}

func (f *fake) Bulk(_ context.Context, a job.BulkAct) (r job.BulkResult, err error) {
	f.calls.Add(1)
	if f.bulk == nil {
		return r, nil
	}
	return f.bulk(a)
}

// queueing fills in what is asked of queues and of many jobs.
func queueing(f *fake) {
	f.setStatus = func(name, status, by string) (job.Queue, error) {
		if err := job.CheckQueueName(name); err != nil {
			return job.Queue{}, err
		}
		return job.Queue{Name: name, Paused: status == job.QueuePaused, Draining: status == job.QueueDraining, Since: noon, By: by}, nil
	}
	f.createQueue = func(name string, _ json.RawMessage, _ string) (job.Queue, error) {
		if name == "mail" {
			return job.Queue{}, job.QueueExists(name)
		}
		return job.Queue{Name: name, CreatedAt: noon}, nil
	}
	f.deleteQueue = func(name string, d job.QueueDeletion) (int64, error) {
		if d.Strategy == "" {
			return 0, job.QueueInUse(name, 3)
		}
		return 3, d.Check(name)
	}
	f.purgeQueue = func(_ string, p job.Purge) (int64, error) { return int64(len(p.States)), nil }
	f.queueConfig = func(name string) (job.QueueConfig, error) {
		if name == "default" {
			return job.QueueConfig{}, nil
		}
		return job.ParseQueueConfig(json.RawMessage(`{"concurrency":4,"x_own":{"b":1.0}}`))
	}
	f.setConfig = func(_ string, raw json.RawMessage, _ bool) (job.QueueConfig, error) { return job.ParseQueueConfig(raw) }
	f.queueStats = func(name string) (r job.QueueReport, err error) {
		r.At = noon
		if r.Name = name; name != "mail" && name != "" {
			return r, nil
		}
		r.Queue = aQueue(name)
		r.CreatedAt = time.Time{}
		r.Bound, r.Oldest = 100, noon.Add(-time.Minute)
		r.Stats = job.StatsOf([]job.Slot{{Start: noon, Tally: job.Tally{Enqueued: 7, Started: 3, Completed: 2, Failed: 1, Timed: 2, Took: 2500 * time.Millisecond, Waited: time.Second}}}, noon)
		return r, nil
	}
	f.slots = func(_ string, from time.Time) ([]job.Slot, error) {
		return []job.Slot{{Start: job.SlotOf(from), Tally: job.Tally{Enqueued: 7, Started: 3, Completed: 2, Failed: 1, Timed: 2, Took: 2500 * time.Millisecond, Waited: time.Second}},
			{Start: noon, Tally: job.Tally{Enqueued: 1}}}, nil
	}
	f.priorities = func(string) (map[int]int64, error) { return map[int]int64{-5: 2, 10: 1, 0: 4}, nil }
	f.reprioritize = func(id job.ID, priority int) (job.Change, error) {
		j := started(id)
		if priority == 100 {
			return job.Change{}, j.Reprioritize(priority)
		}
		j.Priority = priority
		return job.Change{Job: j, Previous: j.State}, nil
	}
	f.pushEach = func(p job.BulkPush) (r job.BulkResult, err error) {
		r.Atomic = p.Atomic
		for i, b := range p.Jobs {
			it := job.BulkItem{Index: i, Status: job.BulkCreated}
			if b.Err != nil || p.Atomic {
				if it.Status, it.Err = job.BulkFailed, b.Err; it.Err == nil {
					it.Err = job.Errorf(job.Conflict, "not stored")
				}
			} else {
				it.Job = started(idOne)
				it.ID = idOne
			}
			r.Note(it, true)
		}
		r.Replayed = p.Key == "again"
		return r, nil
	}
	f.bulk = func(a job.BulkAct) (r job.BulkResult, err error) {
		if err := a.Check(); err != nil {
			return r, err
		}
		r.Action, r.DryRun = a.Action, a.DryRun
		r.Note(job.BulkItem{Index: 0, ID: idOne, Status: job.BulkDone}, true)
		r.Note(job.BulkItem{Index: 1, ID: idTwo, Status: job.BulkFailed, Err: job.Errorf(job.NotFound, "there is no job %s", idTwo)}, true)
		return r, nil
	}
}
