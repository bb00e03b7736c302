package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// The events of a queue's life (contract §4.18).
const (
	QueueWasPaused  = "queue.paused"
	QueueWasResumed = "queue.resumed"
	QueueWasCreated = "queue.created"
	QueueWasDeleted = "queue.deleted"
	QueueDrains     = "queue.draining"
)

// QueueEvent is an event of a queue: kind is one of those above.
func QueueEvent(kind, queue, by string, now time.Time) Event {
	e := Event{Type: kind, Time: now, Queue: queue}
	if by != "" {
		o := rawjson.Object(make([]byte, 0, 48))
		o.Str("by", by)
		e.Data = o.Close()
	}
	return e
}

// Turn is s in another condition, with the event that tells of it. Where it is in that
// condition already nothing changes, and there is no event. A nil s has nothing set.
func (s *QueueSettings) Turn(queue, status, by string, now time.Time) (next *QueueSettings, told []Event, err error) {
	kind := map[string]string{QueuePaused: QueueWasPaused, QueueActive: QueueWasResumed, QueueDraining: QueueDrains}[status]
	if kind == "" {
		return nil, nil, invalid(Invalid, "status", "must be active, paused or draining, got %.40q", status)
	}
	next = &QueueSettings{Name: queue}
	if s != nil {
		*next = *s
	}
	was := next.Status
	if was == "" {
		was = QueueActive
	}
	if was == status {
		return next, nil, nil
	}
	next.Status, next.Since, next.By = status, now, by
	return next, []Event{QueueEvent(kind, queue, by, now)}, nil
}

// CheckQueueName is Invalid for what no queue can be named.
func CheckQueueName(name string) error { return checkQueue(name) }

// CheckConfigured is CheckQueueName for what a configuration may be of: a queue, or TemplateQueue.
func CheckConfigured(name string) error {
	if name == TemplateQueue {
		return nil
	}
	return checkQueue(name)
}

// In makes the next verbs on j heed the configuration of its queue, and returns j.
func (j *Job) In(c *QueueConfig) *Job {
	j.queue = c
	return j
}

// InheritRetry gives a new job the number of attempts that its queue's default policy
// allows, where the job leaves that open.
func (j *Job) InheritRetry() {
	if j.queue != nil && j.queue.DefaultRetry != nil {
		j.MaxAttempts = j.policy().MaxAttempts
	}
}

// Retain dates a job that has ended so that it is found when the retention of its queue
// is over: standard is the one by which it is looked for. Without one of the queue it
// is found by that alone. It reports whether that has changed anything.
func (j *Job) Retain(own *time.Duration, standard time.Duration) bool {
	if !j.State.Terminal() || j.Dead {
		return false
	}
	was := j.DueAt
	if j.DueAt = j.FinishedAt; own != nil {
		j.DueAt = j.FinishedAt.Add(*own - standard)
	}
	return !j.DueAt.Equal(was)
}

// Reprioritize changes the priority of a job that has not begun (contract §3.7). Its
// place among those of the same priority stays that of its age.
func (j *Job) Reprioritize(priority int) error {
	if priority < MinPriority || priority > MaxPriority {
		return invalid(Invalid, "priority", "must be an integer from %d to %d, got %d", MinPriority, MaxPriority, priority)
	}
	switch j.State {
	case Available, Scheduled, Pending:
		j.Priority = priority
		return nil
	}
	return Errorf(Conflict, "job %s is %s, and its priority no longer matters; it can be changed while a job is available, scheduled or pending", j.ID, j.State).
		With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "expected_state": "available, scheduled or pending"})
}

// The bounds of a priority (contract C-51).
const (
	MinPriority = -100
	MaxPriority = 100
)

// Strategies of the deletion of a queue (contract §3.13).
const (
	DeleteReject  = "reject"  // refuse while jobs of it have not ended
	DeleteDiscard = "discard" // cancel those
	DeleteMove    = "move"    // put those into another queue
)

// QueueDeletion says what becomes of the jobs of a queue that is deleted.
type QueueDeletion struct {
	Strategy string // empty: DeleteReject
	Target   string // of DeleteMove
	By       string // who asks for it
}

// Validate is Invalid for what cannot be done to the queue of that name.
func (d *QueueDeletion) Validate(queue string) error {
	switch d.Strategy {
	case "":
		d.Strategy = DeleteReject
	case DeleteReject, DeleteDiscard:
	case "force":
		d.Strategy = DeleteDiscard
	case DeleteMove:
		if d.Target == "" {
			return invalid(Invalid, "target_queue", "is required: the queue into which the jobs of %s are moved", queue)
		}
		if !ValidQueue(d.Target) || d.Target == queue {
			return invalid(Invalid, "target_queue", "must be the name of another queue, got %.140q", d.Target)
		}
		return nil
	default:
		return invalid(Invalid, "strategy", "must be reject, discard or move, got %.40q", d.Strategy)
	}
	if d.Target != "" {
		return invalid(Invalid, "target_queue", "is for the strategy move only; the strategy is %s", d.Strategy)
	}
	return nil
}

// Purge chooses finished jobs of a queue to be removed (contract §3.13).
type Purge struct {
	States []State   // terminal ones, at least one
	Before time.Time // when they ended; zero: whenever
	DryRun bool      // only count them
}

// Validate is Invalid for a purge of jobs that have not ended.
func (p Purge) Validate() error {
	if len(p.States) == 0 {
		return invalid(Invalid, "states", "is required: at least one of completed, cancelled and discarded")
	}
	for _, s := range p.States {
		if !s.Terminal() {
			return invalid(Invalid, "states", "must be completed, cancelled or discarded, got %.40q: jobs that have not ended are cancelled first", s)
		}
	}
	return nil
}

// Takes reports whether the purge is of a job.
func (p Purge) Takes(j *Job) bool {
	return slices.Contains(p.States, j.State) && (p.Before.IsZero() || j.FinishedAt.Before(p.Before))
}

// MoveTo puts a job that has not ended into another queue, at its end.
func (j *Job) MoveTo(queue string) error {
	if j.State.Terminal() {
		return Errorf(Conflict, "job %s has ended and stays in its queue", j.ID)
	}
	if j.Lane == QueueKey(j.Queue) {
		j.Lane = QueueKey(queue)
	}
	if j.Queue = queue; j.State == Available {
		j.Seq = 0
	}
	return nil
}

// QueueInUse is the Conflict for a queue that cannot be deleted.
func QueueInUse(queue string, depth int64) error {
	return Errorf(Conflict, "the queue %s holds %d jobs that have not ended; delete it with the strategy discard or move, or wait for them", queue, depth).
		With(map[string]any{"resource_type": "queue", "resource_id": queue, "depth": int(depth), "hint": "Say with strategy what is to become of its jobs."})
}

// QueueExists is the Conflict for a queue that is there already.
func QueueExists(queue string) error {
	return Errorf(Conflict, "there is a queue %s already; change it by its configuration", queue).
		With(map[string]any{"resource_type": "queue", "resource_id": queue, "hint": "PUT its configuration, or choose another name."})
}

func (p Pressure) String() string { return fmt.Sprintf("%d/%d", p.Depth, p.Bound) }
