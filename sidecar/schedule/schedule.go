package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Host is what the service that the schedules belong to does for them. All of it
// must be set.
type Host struct {
	Log    *slog.Logger
	Now    func() time.Time // in UTC, to the millisecond
	NewID  func() job.ID
	View   func(context.Context, func(job.ReadTx) error) error
	Update func(context.Context, func(Tx) error) error // fn may run more than once
	Admit  func(context.Context, *job.Checked) error   // asks the middleware, which may change it
	// AdmitFlow gives the jobs of a workflow their ids and asks the middleware for each.
	AdmitFlow func(context.Context, *job.Flow) error
	Held      func(context.Context) bool // whether no schedule fires now; nil: never
	Show      func(...*job.Job)          // takes out of jobs what is not to be shown; nil stands for none
}

// Tx is one transaction of the service. What follows from its changes is the
// service's to do.
type Tx interface {
	job.WorkTx
	// Save stores what has become of a job that this Tx has read.
	Save(*job.Job) error
	// Insert stores new jobs without keys, or fails if an ID is taken.
	Insert(...*job.Job) error
	// InsertKeyed stores a new job if its keys let it.
	InsertKeyed(j *job.Job, now time.Time) (job.Receipt, error)
	// BeginFlow stores a new workflow, which it may change, with the jobs that may run at
	// once, or once behind has ended, a job or a workflow, unless that is empty. Duplicate
	// where one of those jobs meets another by its keys; then the transaction must not be
	// committed.
	BeginFlow(f *job.Flow, behind job.ID, now time.Time) (*job.Workflow, error)
	// CancelFlow stops a workflow that runs.
	CancelFlow(f *job.Flow, by, reason string, now time.Time) error
	// Left is a new job as the transaction has left it, once that is on disk: what
	// came behind Insert may have changed it.
	Left(*job.Job) *job.Job
}

// Ticks is where the servers of one app agree on which of them makes the job of
// a tick.
type Ticks interface {
	// Fire makes the jobs of the ticks that no other server has made, each once
	// whatever happens, and returns for each of the others, as a reason of
	// [job.CronSkipped], why it made none. live reports whether a job or a workflow has
	// not ended on this server. After an error nothing is known; the same ticks with the same
	// ids may be tried again.
	Fire(ctx context.Context, ticks []job.Tick, live func(job.ID) (bool, error)) (skipped []string, err error)
}

// Schedules are the schedules of a service. They are a [job.CronService], and safe
// for concurrent use.
type Schedules struct {
	host  Host
	ticks Ticks // nil: this server fires all of its schedules

	verbs  sync.Mutex // held while a schedule is changed, or its tick stored
	loaded bool       // the timetable holds what is stored; under verbs
	table  timetable

	poke   chan struct{} // room for one: a schedule has changed
	looked time.Time     // when the clock was last looked at; Fire's alone
}

const (
	longest = time.Second           // sleep while there are schedules, so that a clock that is set is noticed
	idle    = 365 * 24 * time.Hour  // sleep while there are none
	pause   = time.Second           // after a failure
	share   = 40 * time.Millisecond // of the writer's time for one transaction, so that callers get their turn
)

// New makes the schedules of a service; ticks may be nil. It starts nothing.
func New(host Host, ticks Ticks) *Schedules {
	return &Schedules{host: host, ticks: ticks, poke: make(chan struct{}, 1), looked: host.Now()}
}

// Run fires the schedules until ctx ends.
func (s *Schedules) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.poke:
		case <-timer.C:
		}
		timer.Reset(s.Fire(ctx))
	}
}

// Fire does what the schedules have to do now, and returns how long nobody need look
// again. It is called by one goroutine at a time.
func (s *Schedules) Fire(ctx context.Context) (wait time.Duration) {
	now := s.host.Now()
	if back := s.looked.Sub(now); back > 0 && s.table.rewound(now) {
		s.host.Log.Warn("the clock was set back; ticks that have fired do not fire again", "back", back)
	}
	s.looked = now
	if s.host.Held != nil && s.host.Held(ctx) {
		return pause
	}
	if err := s.fire(ctx, now); err != nil {
		if ctx.Err() == nil {
			s.host.Log.Error("a background task failed and will be retried", "duty", "cron", "error", err)
		}
		return pause
	}
	return s.table.wait(s.host.Now())
}

// planned puts a schedule into the timetable, in place of what is there by that
// name, and has Run look; nil takes it out. The caller holds verbs since before it
// was stored, or another verb may come in between.
func (s *Schedules) planned(name string, e *entry) {
	s.table.put(name, e)
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// lock takes verbs, so that no other verb changes a schedule, with all of them
// loaded. After an error, and after a panic, verbs is free.
func (s *Schedules) lock(ctx context.Context) error {
	s.verbs.Lock()
	loaded := false
	defer func() {
		if !loaded {
			s.verbs.Unlock()
		}
	}()
	err := s.load(ctx)
	loaded = err == nil
	return err
}

// view runs fn on a snapshot and returns what it read.
func view[T any](ctx context.Context, s *Schedules, fn func(job.ReadTx) (T, error)) (out T, err error) {
	err = s.host.View(ctx, func(tx job.ReadTx) (err error) {
		out, err = fn(tx)
		return err
	})
	return out, err
}
