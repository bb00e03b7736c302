package job

import (
	"context"
	"encoding/json"
	"time"
)

// QueueService is what those who run the queues ask (contract §3.13, §3.7).
type QueueService interface {
	// SetQueueStatus pauses a queue (QueuePaused), lets it drain (QueueDraining) or
	// resumes it (QueueActive). A queue that is not there is made. By is who asks, and
	// may be empty. It may be asked twice, and survives a restart. Of a queue that is
	// paused no job is claimed, and those that run go on; one that drains takes no
	// PUSH. Resuming wakes every FETCH that waits for the queue. Invalid.
	SetQueueStatus(ctx context.Context, name, status, by string) (Queue, error)
	// CreateQueue makes a queue before any job names it, with its configuration, which
	// may be nil. Conflict if there is one; what SetQueueConfig says.
	CreateQueue(ctx context.Context, name string, config json.RawMessage, by string) (Queue, error)
	// DeleteQueue removes a queue with its settings, its statistics and all of its
	// jobs that have ended, and says how many jobs had not. What becomes of those
	// d says. It works in slices, and the queue takes no PUSH meanwhile; where it
	// fails in between, it has that status, and to ask again goes on. NotFound;
	// Conflict for DeleteReject while jobs have not ended, where a job that is moved
	// meets its custom id there, and while a workflow that runs may ask for the result
	// of one of its jobs; Invalid.
	DeleteQueue(ctx context.Context, name string, d QueueDeletion) (int64, error)
	// PurgeQueue removes finished jobs of a queue for good, or counts them, and says
	// how many. It works in slices: the count is right also beside an error. NotFound, Invalid.
	PurgeQueue(ctx context.Context, name string, p Purge) (int64, error)
	// QueueConfig reads the configuration of a queue as it was set, without what the
	// template adds; the zero value where nothing was.
	QueueConfig(ctx context.Context, name string) (QueueConfig, error)
	// SetQueueConfig sets the configuration of a queue, or of TemplateQueue. A queue that
	// is not there is made. A patch changes only the members that it names. It holds
	// from the answer on, also for jobs that are there already, but for those that are
	// active beyond a new limit: they stay so. Removal by another retention may take some
	// time. What ParseQueueConfig says.
	SetQueueConfig(ctx context.Context, name string, config json.RawMessage, patch bool) (QueueConfig, error)
	// QueueStats reads the counters of a queue and what happened in the last hour, of
	// all queues together if it has no name. One that is not there has zeros.
	QueueStats(ctx context.Context, name string) (QueueReport, error)
	// Slots reads the tallies of a queue, of all together if it has no name, by their
	// time: those of the slots that begin at from or later. They are kept for KeepSlots.
	Slots(ctx context.Context, queue string, from time.Time) ([]Slot, error)
	// Priorities counts the available jobs of a queue by their priority.
	Priorities(ctx context.Context, queue string) (map[int]int64, error)
	// Reprioritize changes the priority of a job that has not begun: the next claim
	// heeds it. Invalid, NotFound; Conflict in other states than available, scheduled and pending.
	Reprioritize(ctx context.Context, id ID, priority int) (Change, error)
}

// QueueReport is a queue and what happened in the last hour.
type QueueReport struct {
	Queue
	Stats  QueueStats
	Bound  int64     // of its depth; 0 is none
	Oldest time.Time // when the job entered that is available for the longest time; zero where there is none, and of all queues together
	At     time.Time // of the report
}

// BulkService does one thing to many jobs (contract §3.19).
type BulkService interface {
	// PushEach stores the jobs of p that can be stored, and says of each what became
	// of it; with p.Atomic it stores all of them or none. All are stored in one
	// transaction, with the answer under p.Key. An error is about the whole: nothing
	// was stored then. Conflict for a key that was used for another request; TooLarge; Invalid.
	PushEach(ctx context.Context, p BulkPush) (BulkResult, error)
	// Bulk does a.Action to many jobs, in slices, so that other callers get their
	// turn: after an error what was done stays done. Conflict for a key that was used
	// for another request; TooLarge; Invalid.
	Bulk(ctx context.Context, a BulkAct) (BulkResult, error)
}
