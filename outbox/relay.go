package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

// RelayOptions are how a relay works. The zero value is right for most.
type RelayOptions struct {
	// Name is the outbox in logs and errors, never a DSN with a password. Empty is the table's name.
	Name string
	// Batch is how many rows are handed over in one call, 1 to job.MaxBatch. 0 is
	// 200, and 500 on a database server.
	Batch int
	// Busy and Idle are how often the relay asks: soon after it has heard of
	// something, and when it has heard of nothing for seconds. 0 is 2 ms and 40 ms
	// where the database tells of commits (SQLite), 20 ms and 1 s elsewhere.
	Busy, Idle time.Duration
	// Keep is how long a row stays after it was sent. 0 is not at all: it is
	// deleted instead of marked. OnComplete keeps no row.
	Keep time.Duration
	// Release is when a row may go. Empty is OnRelay. OnComplete needs a job
	// server that is a Follower.
	Release Release
	// Lease is how long after its last renewal a silent relay counts as alive. Others
	// take its rows when they have also watched it be silent for as long. 0 is 60 s.
	// A relay that works less than twice in that time takes nobody's rows. It should
	// be the same for all relays of an outbox: one with a shorter lease watches
	// others for less.
	Lease time.Duration
	// Owner names the job server's disk: what this owner has relayed is there.
	// It must be another one for each disk, and the same after a restart. Empty is
	// a random one.
	Owner string
	// Fresh says that the disk of the job server is new.
	Fresh bool
	// Lineage is how that disk has come to be what it is. By it the relay finds an
	// older copy that was put back. Without it a row whose job the job server does
	// not know at a start is sent again, also if the job has ended long ago.
	Lineage job.Lineage
	// Log takes what an operator should know. Nil is slog.Default.
	Log *slog.Logger
	// Now is the clock of sent_at and next_try_at, which any goroutine may ask. Nil
	// is time.Now.
	Now func() time.Time
	// OnRelay is told of each batch after the job server has it and before its
	// rows are marked. It is called by the goroutine of Run or Step and must
	// neither block nor use the relay.
	OnRelay func([]Relayed)
}

// Relayed is a row that has become a job.
type Relayed struct {
	Row      int64
	Job      job.ID
	Existing bool      // it was sent before: the job was there already
	Written  time.Time // the row's created_at
	At       time.Time // when the job server answered
}

// Paces that nobody has needed to set.
const (
	defaultBatch = 200
	sharedBatch  = 500                    // where taking and marking are trips to a server
	maxBytes     = 4 << 20                // of rows in one call
	relax        = 400                    // the wait for the next question is this part of the time since the last commit
	relaxFar     = 20                     // the same where nobody tells of commits
	lookAnyway   = time.Second            // the longest time between two looks for rows
	quiet        = 20 * time.Millisecond  // without a commit: the app is not writing
	markAfter    = 500 * time.Millisecond // the longest time a settled row stays unmarked
	markFull     = 1000                   // settled rows that are marked whatever the app does
	minBackoff   = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	closing      = 5 * time.Second // for the last marks when Run ends
)

// Relay takes the rows of one outbox to a job server. Any number of relays may
// work on one outbox, in any number of processes: each job is made once. The
// rows of a batch go in the order of their ids; two relays keep no order between
// them.
//
// It uses one connection of its db, and starts no goroutine but for a job server
// that takes longer than a third of the lease.
type Relay struct {
	db   *sql.DB
	d    Dialect
	to   job.Enqueuer
	o    RelayOptions
	host string         // this process, as the table of relays names it
	rand func() float64 // in [0,1)
	poke chan struct{}

	follower Follower // nil where jobs are not followed
	state    atomic.Pointer[RelayState]

	mu      sync.Mutex // one turn at a time; guards all below
	conn    *sql.Conn  // nil until it is needed, and after an error
	file    openFile   // where conn's file is
	changed *sql.Stmt  // nil where the dialect has none
	version int64      // the last answer of changed
	of      string     // identity of the outbox, once read
	narrow  bool       // the database does not keep every character
	warned  bool       // Caution has been looked at
	settled []outcome  // rows whose outcome is known and not yet written
	oldest  time.Time  // when the first of settled came
	heard   time.Time  // when the last commit of another was noticed
	looked  time.Time  // when rows were last looked for
	more    bool       // the last batch was full
	swept   sweep
	trouble trouble

	marked      int                  // of the last batch, how many rows have their outcome written
	standby     bool                 // another relay works, and this one waits
	started     bool                 // this relay has its place, and what it had before
	renewed     time.Time            // when the lease was last renewed
	renewal     time.Time            // when it is looked at again
	reached     time.Time            // when the database last took a renewal, also of one that stands by
	watched     time.Duration        // for how long in all it did
	seenLeases  map[string]seenLease // by owner
	over        int64                // leases that end later may be of the living
	idle        bool                 // there was nothing to take
	count       int64                // rows sent and not yet counted in the table of relays
	upto        int64                // Seq of an event of the job server behind all that was sent
	follows     followed
	warnedPeers bool
	warnedOf    map[string]time.Time // when an option that nobody knows was last told
}

// NewRelay returns a relay from the outbox in db to a job server: a client, a
// sidecar in this process, or anything else that takes an id once. It touches
// neither. The connections of db should be opened as the dialect's adapter
// says, so that the relay does not get in the app's way.
func NewRelay(db *sql.DB, d Dialect, to job.Enqueuer, opts RelayOptions) *Relay {
	o := opts
	batch, busy, idle := defaultBatch, 2*time.Millisecond, 40*time.Millisecond
	if d.shared() {
		batch = sharedBatch
	}
	if d.sql.Changed == "" {
		busy, idle = 20*time.Millisecond, time.Second
	}
	o.Name = cmp.Or(o.Name, d.sql.Table)
	o.Batch = min(cmp.Or(max(o.Batch, 0), batch), job.MaxBatch)
	o.Busy, o.Idle = cmp.Or(max(o.Busy, 0), busy), cmp.Or(max(o.Idle, 0), idle)
	o.Release = cmp.Or(o.Release, OnRelay)
	o.Lease = cmp.Or(max(o.Lease, 0), time.Minute)
	o.Owner = cmp.Or(o.Owner, uuid.NewString())
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Relay{db: db, d: d, to: to, o: o, host: thisProcess(), rand: rand.Float64, poke: make(chan struct{}, 1)}
	r.follower, _ = to.(Follower)
	r.state.Store(&RelayState{})
	return r
}

// RelayState is what a relay says of itself.
type RelayState struct {
	Trouble bool      // it has stopped after an error, and tries again
	Standby bool      // another relay works, and this one waits
	Err     error     // the latest error, its own or that of a row; nil if there was none
	ErrAt   time.Time // when that was
}

// State is how the relay is now. It may be called at any time.
func (r *Relay) State() RelayState { return *r.state.Load() }

// say changes what State answers. The caller holds mu.
func (r *Relay) say(change func(*RelayState)) {
	s := r.State()
	change(&s)
	r.state.Store(&s)
}

// sayErr notes an error.
func (r *Relay) sayErr(err error) {
	r.say(func(s *RelayState) { s.Err, s.ErrAt = err, r.o.Now() })
}

// Poke tells the relay that there may be a row now, and returns at once. Nobody
// needs to: it saves the few milliseconds until the relay sees the commit itself.
func (r *Relay) Poke() {
	select {
	case r.poke <- struct{}{}:
	default: // it is told already
	}
}

// Run relays until ctx ends, then marks what it has sent and returns nil. The
// only error is at the start: an outbox that [Check] refuses. Everything later,
// a database or a job server that does not answer, is logged once when it
// begins, for each other cause that it comes to have (eight at most), and when it
// ends, and tried again after 100 ms to 10 s, or to a sixth of a shorter lease.
//
// It must not be called twice at the same time.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.d.known(); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	poked := true // the first turn looks for rows in any case
	for {
		select {
		case <-ctx.Done():
			return r.stop(context.WithoutCancel(ctx))
		case <-r.poke:
			poked = true
		case <-timer.C:
		}
		wait := r.turn(ctx, poked)
		poked = false
		timer.Reset(wait)
	}
}

// start checks the outbox. A database that does not answer yet is no error.
func (r *Relay) start(ctx context.Context) error {
	if r.o.Release == OnComplete && r.follower == nil {
		return job.Errorf(job.Unsupported, "outbox %s: on_complete needs a job server in this process, which tells when jobs have ended; relay with on_relay", r.o.Name)
	}
	err := r.check(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if job.KindOf(err) == job.Unavailable {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.backOff(err)
		return nil
	}
	return job.Errorf(job.KindOf(err), "outbox %s: %w", r.o.Name, err)
}

// stop writes what is known and gives the connection back.
func (r *Relay) stop(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	err := r.mark(ctx, len(r.settled))
	if err == nil {
		err = r.leave(ctx)
	}
	if err != nil {
		r.o.Log.Warn("outbox: some rows that were sent are not marked; they will be sent again, which adds nothing",
			"outbox", r.o.Name, "rows", len(r.settled), "error", err)
	}
	r.drop(true)
	return nil
}

// Step relays one batch of rows that are pending now, marks them, and returns
// how many it has settled: sent, parked or put off. It is Run's work without
// its pace, for tests and for programs with a clock of their own. Errors are
// Unavailable, or what the job server answered.
func (r *Relay) Step(ctx context.Context) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.drop(true)
	r.file.next = time.Time{}
	if mine, err := r.lease(ctx); err != nil || !mine {
		return 0, err
	}
	if err := r.mark(ctx, len(r.settled)); err != nil {
		return 0, err
	}
	r.follows.at = time.Time{}
	if err := r.follow(ctx); err != nil {
		return 0, err
	}
	err = r.send(ctx)
	n = len(r.settled) + r.marked
	if merr := r.mark(ctx, len(r.settled)); err == nil {
		err = merr
	}
	return n, err
}

// turn does what is due now, and returns how long nothing will be.
func (r *Relay) turn(ctx context.Context, poked bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.trouble.until.Sub(r.o.Now()); wait > 0 {
		return wait
	}
	if err := r.work(ctx, poked); err != nil {
		if ctx.Err() != nil {
			return 0
		}
		return r.backOff(err)
	}
	if r.more {
		return 0
	}
	if r.standby {
		return max(r.renewal.Sub(r.o.Now()), r.o.Busy)
	}
	// The longer there was nothing, the rarer the question: waking a process up
	// costs more than the question itself.
	part := time.Duration(relax)
	if r.d.sql.Changed == "" {
		part = relaxFar
	}
	wait := min(max(r.o.Now().Sub(r.heard)/part, r.o.Busy), max(r.o.Idle, r.o.Busy))
	if len(r.follows.rows) > 0 {
		wait = min(wait, followEvery)
	}
	return min(wait, max(0, r.renewal.Sub(r.o.Now()))) // an idle relay lives, too
}

func (r *Relay) work(ctx context.Context, poked bool) error {
	if mine, err := r.lease(ctx); err != nil || !mine {
		if err == nil {
			r.more = false
			r.recover()
		}
		return err
	}
	commit, err := r.listen(ctx)
	if err != nil {
		return err
	}
	now := r.o.Now()
	if commit {
		r.heard = now
	}
	// Marks come first: the moment after a commit is the app's quietest.
	if err := r.tidy(ctx, now); err != nil {
		return err
	}
	if err := r.follow(ctx); err != nil {
		return err
	}
	again := r.more || r.trouble.tries > 0
	if !commit && !poked && !again && r.d.sql.Changed != "" && now.Sub(r.looked) < lookAnyway {
		return nil
	}
	if poked {
		r.idle = false // somebody knows that there is a row: nothing is asked first
	}
	r.looked = now
	if err := r.send(ctx); err != nil {
		return err
	}
	r.recover()
	return nil
}

// listen reports whether another connection has committed since the last call.
func (r *Relay) listen(ctx context.Context) (bool, error) {
	if err := r.open(ctx); err != nil {
		return false, err
	}
	if r.changed == nil {
		return false, nil // the rows themselves tell
	}
	// Without a context that can end the driver needs no goroutine for it.
	var v int64
	if err := r.changed.QueryRowContext(context.WithoutCancel(ctx)).Scan(&v); err != nil {
		return false, r.failed(ctx, "look for commits", err)
	}
	if v == r.version {
		return false, nil
	}
	r.version = v
	return true, nil
}
