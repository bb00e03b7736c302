package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// laggard is a store on a disk that takes its time: whoever waits is committed
// together, and each commit takes as long as lag says.
type laggard struct {
	job.Store
	lag   func() time.Duration
	calls chan *delayed
}

type delayed struct {
	ctx  context.Context
	fn   func(job.Tx) error
	done chan error
}

func (l *laggard) Update(ctx context.Context, fn func(job.Tx) error) error {
	d := &delayed{ctx, fn, make(chan error, 1)}
	l.calls <- d
	return <-d.done
}

func (l *laggard) run() {
	for first := range l.calls {
		group := []*delayed{first}
		for len(l.calls) > 0 {
			group = append(group, <-l.calls)
		}
		errs := make([]error, len(group))
		for i, d := range group {
			errs[i] = l.Store.Update(d.ctx, d.fn)
		}
		time.Sleep(l.lag()) // of the bubble
		for i, d := range group {
			d.done <- errs[i]
		}
	}
}

// stalled plays a server on a disk that is slow in its own way for 40 s, with
// workers who live and others who die, and judges what becomes of them.
func stalled(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)+1))
	}
	slowest := []time.Duration{0, 30 * time.Millisecond, time.Second, 2500 * time.Millisecond, 6 * time.Second}[seed%5]
	seldom := seed%3 == 0 // only now and then
	path := filepath.Join(t.TempDir(), fmt.Sprint(seed, ".db"))
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var rolling sync.Mutex
		l := &laggard{Store: store, calls: make(chan *delayed, 4096)}
		l.lag = func() time.Duration {
			rolling.Lock()
			defer rolling.Unlock()
			if slowest == 0 || seldom && r.IntN(8) > 0 {
				return time.Millisecond
			}
			return between(slowest/2, slowest)
		}
		go l.run()
		s := New(l, Options{Rand: func() float64 { return 0.5 }, Silence: 15 * time.Second})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		began := time.Now()
		var workers sync.WaitGroup
		for n := range 8 {
			rolling.Lock()
			reservation := between(time.Second, 6*time.Second).Truncate(time.Millisecond)
			if n%3 == 2 {
				reservation = time.Hour // its silence ends it
			}
			every := between(50*time.Millisecond, min(reservation, 15*time.Second)-20*time.Millisecond)
			lives := 40 * time.Second
			if n%2 == 1 {
				lives = between(0, 20*time.Second)
			}
			rolling.Unlock()
			workers.Go(func() {
				name := fmt.Sprint("w", n)
				if _, err := s.Enqueue(ctx, job.Envelope{Type: "a.b", Queue: name, Args: []byte(`[]`)}); err != nil {
					t.Error(err)
					return
				}
				jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{name}, Worker: name, Visibility: reservation})
				if err != nil || len(jobs) != 1 {
					t.Errorf("fetch: %v, %v", jobs, err)
					return
				}
				j, heard := jobs[0], time.Now()
				b := job.Beat{Worker: job.WorkerInfo{ID: name}, Jobs: []job.Claim{{ID: j.ID, Token: j.Lease.Token}}}
				for n := 0; n == 0 || time.Since(began) < lives; n++ {
					reply, err := s.Beat(ctx, b)
					if err != nil || len(reply.Extended) != 1 {
						t.Errorf("seed %d: %s lives, beats every %s for %s and was robbed: %+v, %v", seed, name, every, reservation, reply, err)
						return
					}
					heard = time.Now()
					time.Sleep(every)
				}
				// It is dead. Its job goes to another as soon as that can be stored.
				end := heard.Add(min(reservation, 15*time.Second))
				time.Sleep(time.Until(end) - time.Millisecond)
				if j, err := s.Job(ctx, j.ID); err != nil || j.State != job.Active {
					t.Errorf("seed %d: %s, whose reservation has not ended, was robbed: %v, %v", seed, name, j, err)
				}
				time.Sleep(8*slowest + 4*readTime) // other duties may wait for the disk before
				if j, err := s.Job(ctx, j.ID); err != nil || j.State == job.Active {
					t.Errorf("seed %d: %s is dead for long and has its job still: %v, %v", seed, name, j, err)
				}
			})
		}
		workers.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		close(l.calls)
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// However long a commit takes, who lives keeps his job: a reservation is counted
// from when its worker hears of it. Who is dead loses it as soon as that can be
// stored, also while the disk stays slow. OUTRIDER_STALLS is how
// many disks there are; ten, or two with the race detector.
func TestASlowStoreRobsNobodyAndSparesNobodyLong(t *testing.T) {
	t.Parallel()
	disks := "10"
	if raced {
		disks = "2"
	}
	seeds, err := strconv.ParseUint(cmp.Or(os.Getenv("OUTRIDER_STALLS"), disks), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range seeds {
		stalled(t, seed)
	}
}

// hooked is a store that does something before an Update.
type hooked struct {
	job.Store
	before atomic.Pointer[func()]
}

func (h *hooked) Update(ctx context.Context, fn func(job.Tx) error) error {
	if before := h.before.Load(); before != nil {
		(*before)()
	}
	return h.Store.Update(ctx, fn)
}

// A process that is stopped while it is at a duty has missed that time as well as
// one that was asleep: what its workers said meanwhile lies in the sockets.
func TestAPauseInTheMiddleOfADuty(t *testing.T) {
	t.Parallel()
	for _, long := range []time.Duration{60 * time.Millisecond, 2500 * time.Millisecond, 4500 * time.Millisecond} {
		path := filepath.Join(t.TempDir(), "o.db")
		synctest.Test(t, func(t *testing.T) {
			store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var skew atomic.Int64 // of the clock: for those who were not stopped it has gone on
			h := &hooked{Store: store}
			s := New(h, Options{Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }})
			w := &world{t: t, path: path, store: store, Sidecar: s}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			w.push(nil)
			w.push(nil)
			w.take("dead", time.Second)
			held := w.take("live", 1050*time.Millisecond)
			time.Sleep(900 * time.Millisecond) // of the bubble
			var once sync.Once
			stopped := func() { once.Do(func() { skew.Add(int64(long)) }) }
			h.before.Store(&stopped)           // the duty that takes the job of the dead
			time.Sleep(140 * time.Millisecond) // half of it to read what lies in the socket
			h.before.Store(nil)
			w.beat("live", held)
			if j := w.read(held.ID); j.State != job.Active || j.Attempt != 1 {
				t.Errorf("after %s: the job of a worker that lives is %s, attempt %d", long, j.State, j.Attempt)
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
