package sidecar

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar/schedule"
)

// Options sets a sidecar up. The zero value works.
type Options struct {
	Log        *slog.Logger  // nil is nowhere
	Visibility time.Duration // length of a reservation nobody chose; 0 is 30 minutes
	Timeout    time.Duration // limit of an execution whose job names none; 0 is 30 minutes, negative is none
	Silence    time.Duration // without a beat until a worker that once beat counts as dead; 0 is 45 s, see [MinSilence]
	Retention  Retention     // how long finished jobs stay
	Backtraces Backtraces    // what becomes of backtraces; empty is kept
	Ticks      Ticks         // where the servers of one app agree whose a tick is; nil: this one fires all of its schedules
	Rules      job.Rules     // what becomes of jobs whose own options do not decide it
	Middleware *Chain        // runs around every PUSH; nil is none. It may be changed while the sidecar works

	// TestDirectives lets the test_directive in a job's meta tell its worker what
	// to do, for conformance suites. Anybody may write meta, so leave it off otherwise.
	TestDirectives bool

	Now   func() time.Time // the clock; nil is time.Now
	NewID func() job.ID    // ids of jobs that bring none; nil is UUIDv7
	Token func() string    // lease tokens; nil is 128 random bits
	Rand  func() float64   // jitter in [0,1); nil is math/rand
}

// Retention is how long finished jobs and events are kept. Zero members take the
// defaults of contract §4.21; a negative duration removes at once. Durations of
// less than an hour are kept to the millisecond, others by a round each hour.
type Retention struct {
	Completed time.Duration // 7 days
	Cancelled time.Duration // 7 days
	Discarded time.Duration // 30 days, for jobs that are no dead letters
	Dead      time.Duration // 180 days
	Events    time.Duration // 7 days
	DeadCount int           // how many dead letters stay, the newest; 0 is 10,000, negative is all of them
}

// Sidecar is a job.Service over a store. It is safe for concurrent use.
type Sidecar struct {
	store     job.Store
	o         Options
	log       *slog.Logger
	started   time.Time
	wakeups   wakeups
	news      news
	shut      shut
	shares    shares
	ends      ends
	schemas   registry
	spaces    spaces
	keyed     keyed
	totals    totals
	mode      mode
	clock     clock
	roster    roster
	quiet     chan struct{} // closed by Quiet
	quietOnce sync.Once

	pauses  pauses
	answers answers
	limited bool // the jobs from before this server started have been looked at; Run's alone

	silent     []silent  // workers that have been found so and not been dealt with; Run's alone
	forgot     time.Time // when limits were last forgotten; Run's alone
	silentNext time.Time // when one of them must be looked at again; Run's alone

	crons       *schedule.Schedules
	cronService // of crons
}

var _ job.Service = (*Sidecar)(nil)

const (
	defaultVisibility = 30 * time.Minute // ojs-core.md §6.5
	defaultTimeout    = 30 * time.Minute // §5.2
	silence           = 45 * time.Second // three missed heartbeats of the 15 s that §7.5 recommends
	day               = 24 * time.Hour
)

// New makes a sidecar. It starts nothing and does not own the store: whoever
// opened the store closes it, after Run has returned.
func New(store job.Store, o Options) *Sidecar {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Silence = cmp.Or(o.Silence, silence)
	r := &o.Retention
	r.Completed, r.Cancelled = cmp.Or(r.Completed, 7*day), cmp.Or(r.Cancelled, 7*day)
	r.Discarded, r.Dead = cmp.Or(r.Discarded, 30*day), cmp.Or(r.Dead, 180*day)
	r.Events, r.DeadCount = cmp.Or(r.Events, 7*day), cmp.Or(r.DeadCount, 10_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	if o.Token == nil {
		o.Token = newToken
	}
	if o.Rand == nil {
		o.Rand = mathrand.Float64
	}
	s := &Sidecar{store: store, o: o, log: o.Log, quiet: make(chan struct{})}
	s.started = s.now()
	s.pauses.most = s.o.Silence / 3
	s.schemas.count.Store(-1)
	s.clock.init(len(s.duties()))
	s.crons = s.schedules()
	s.cronService = s.crons
	return s
}

func newID() job.ID {
	return job.ID(uuid.Must(uuid.NewV7()).String()) // fails only without a random source, which ends Go programs anyway
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// now is the one look at the clock that an operation takes. Stored times are
// milliseconds, so that what is answered is what is stored.
func (s *Sidecar) now() time.Time { return s.o.Now().UTC().Truncate(time.Millisecond) }

// Quiet makes every FETCH answer empty from now on, the waiting ones too. It is
// the first step of a shutdown: PUSH, ACK and FAIL go on. It may be called twice.
func (s *Sidecar) Quiet() { s.quietOnce.Do(func() { close(s.quiet) }) }

// Recover does once what has come due while no server was running: a server
// calls it before it answers its first request (contract §4.6).
func (s *Sidecar) Recover(ctx context.Context) {
	if err := s.loadRoster(ctx); err != nil {
		s.log.Warn("the known workers could not be read yet; trying again when they are needed", "error", err)
	}
	s.round(ctx)
	if s.o.Ticks == nil { // which may wait for a database
		s.crons.Fire(ctx)
	}
}

// change is every verb on one job: read, rule, write, in one transaction.
func (s *Sidecar) change(ctx context.Context, id job.ID, verb func(*job.Job) error) (job.Change, error) {
	var c job.Change
	err := s.update(ctx, func(t *turn) error {
		j, err := t.Job(id)
		if err != nil {
			return err
		}
		c = job.Change{Job: j, Previous: j.State}
		if err := verb(s.ruled(t, j)); err != nil {
			return err
		}
		return t.save(j)
	})
	if err != nil {
		return job.Change{}, err
	}
	s.show(c.Job)
	return c, nil
}
