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
