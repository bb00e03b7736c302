package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// AdminService is what those ask who run the server (contract §3.23).
type AdminService interface {
	// Detail reads a job and the policy that holds for it. NotFound.
	Detail(ctx context.Context, id ID) (Detail, error)
	// ForgetWorker removes a worker that is stale; what it holds goes back as by
	// Deregister. Conflict for one that was heard of in time, NotFound, Invalid.
	ForgetWorker(ctx context.Context, id string) (released []ID, err error)
	// Maintenance reads whether the server is in maintenance now.
	Maintenance(ctx context.Context) (Maintenance, error)
	// SetMaintenance begins a maintenance, changes the one that there is, or ends it:
	// see [Maintenance]. It is on disk when it returns, and outlives a restart.
	// TooLarge for a reason of more than MaxReason bytes; Invalid for a negative duration.
	SetMaintenance(ctx context.Context, ask MaintenanceAsk) (Maintenance, error)
	// Tenants lists the tenants that have jobs, by name: at most n of those behind after.
	Tenants(ctx context.Context, after string, n int) ([]string, error)
	// Middlewares lists the middleware around PUSH, the outermost first.
	Middlewares(ctx context.Context) ([]MiddlewareInfo, error)
	// Metrics counts. It reads counters that are kept, and no jobs.
	Metrics(ctx context.Context) (Metrics, error)
}

// Detail is a job and the retry policy that holds for it: what the job leaves open its
// queue says, and then the server (ojs-retry.md §8.1).
type Detail struct {
	*Job
	Policy RetryPolicy
}

// EffectivePolicy is the retry policy that holds for the job under what it was told by
// Under and In.
func (j *Job) EffectivePolicy() RetryPolicy { return j.policy() }

// MiddlewareInfo is one middleware of a chain.
type MiddlewareInfo struct {
	Name  string
	Order int // its place, from 1
}

// WorkerCounts are workers by what they do. Each is in one of them.
type WorkerCounts struct{ Running, Quiet, Stale int64 }

// CountWorkers counts workers. Quiet are those that take no jobs.
func CountWorkers(ws []WorkerInfo) (n WorkerCounts) {
	for _, w := range ws {
		switch {
		case w.Stale:
			n.Stale++
		case !w.Takes():
			n.Quiet++
		default:
			n.Running++
		}
	}
	return n
}

// Metrics are the counters of a server.
type Metrics struct {
	At        time.Time
	Uptime    time.Duration
	Queues    []QueueMetrics // by name
	Workers   WorkerCounts
	AvgWaited time.Duration // of the jobs that began in the last hour; 0 where there are none
	PerSecond Rates
}

// QueueMetrics are the counters of one queue. Those of Totals begin at 0 when the server
// starts.
type QueueMetrics struct {
	Name   string
	Counts map[State]int64
	Dead   int64
	Totals Totals
}

// Totals are what has happened since the server started. They never become less.
type Totals struct {
	Enqueued  int64 // jobs that were stored
	Completed int64
	Failed    int64 // attempts that ended badly
	Discarded int64
	Rejected  int64 // jobs that were refused because their queue was full
}

// Add adds other totals.
func (t *Totals) Add(o Totals) {
	t.Enqueued += o.Enqueued
	t.Completed += o.Completed
	t.Failed += o.Failed
	t.Discarded += o.Discarded
	t.Rejected += o.Rejected
}

// MaintenanceQueue is the name under which a maintenance is kept among the settings of
// queues. No job can name it.
const MaintenanceQueue = "_maintenance"

// MaxReason bounds the reason of a maintenance, in bytes.
const MaxReason = 1024

// Maintenance is whether the server is in maintenance (contract §3.23): no FETCH gets a
// job, no scheduled or retryable job enters its queue and no schedule fires, while PUSH,
// ACK, FAIL and all else go on. It ends by itself where it has an end.
type Maintenance struct {
	On      bool
	Reason  string
	Started time.Time // zero while it is off
	Ends    time.Time // by itself; zero: never
}

// MaintenanceAsk is what becomes of a maintenance.
type MaintenanceAsk struct {
	On       bool
	Reason   string        // empty: as it was
	Duration time.Duration // from now on, until it ends by itself; 0: until somebody ends it
}

// Validate is nil for what SetMaintenance takes. TooLarge, Invalid.
func (ask MaintenanceAsk) Validate() error {
	if len(ask.Reason) > MaxReason {
		return tooLarge("the reason of a maintenance", len(ask.Reason), MaxReason)
	}
	if ask.Duration < 0 || ask.Duration > MaxDuration {
		return invalid(Invalid, "duration", "must be from 0 to 100 years, got %s", ask.Duration)
	}
	return nil
}

// Maintenance is the maintenance in the settings at an instant. A nil has none.
func (s *QueueSettings) Maintenance(now time.Time) Maintenance {
	if s == nil || !s.Config.maintenance.On {
		return Maintenance{}
	}
	if m := s.Config.maintenance; m.Ends.IsZero() || now.Before(m.Ends) {
		return m
	}
	return Maintenance{}
}

// MaintenanceEnd is when the maintenance in the settings ends by itself, also where it has:
// the zero time for never, and for none.
func (s *QueueSettings) MaintenanceEnd() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.Config.maintenance.Ends
}

// WithMaintenance is the settings that keep what is asked for, nil where it is off.
// TooLarge, Invalid.
func (s *QueueSettings) WithMaintenance(ask MaintenanceAsk, now time.Time) (*QueueSettings, error) {
	if err := ask.Validate(); err != nil {
		return s, err
	}
	if !ask.On {
		return nil, nil
	}
	m := s.Maintenance(now)
	if !m.On {
		m = Maintenance{On: true, Started: now}
	}
	if ask.Reason != "" {
		m.Reason = ask.Reason
	}
	if m.Ends = (time.Time{}); ask.Duration > 0 {
		m.Ends = now.Add(ceilMillis(ask.Duration))
	}
	o := rawjson.Object(nil)
	o.Optional("reason", m.Reason).Time("started_at", m.Started).Time("ends_at", m.Ends)
	return &QueueSettings{Name: MaintenanceQueue, Config: QueueConfig{Raw: o.Close(), maintenance: m}}, nil
}

// parseMaintenance reads what WithMaintenance wrote.
func parseMaintenance(raw json.RawMessage) (Maintenance, error) {
	var v struct {
		Reason  string    `json:"reason"`
		Started time.Time `json:"started_at"`
		Ends    time.Time `json:"ends_at"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return Maintenance{}, Errorf(Unavailable, "the maintenance cannot be read: %w", err)
	}
	return Maintenance{On: true, Reason: v.Reason, Started: v.Started.UTC(), Ends: v.Ends.UTC()}, nil
}

// CheckPurge is nil for an instant before which dead letters can be removed.
func CheckPurge(before time.Time) error {
	if !before.IsZero() {
		return nil
	}
	return invalid(Invalid, "older_than", "is required: an age or an instant, before which dead letters are removed")
}
