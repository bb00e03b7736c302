package sidecar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// interleaved is a store with something to do between a commit and its answer.
type interleaved struct {
	job.Store
	then func()
}

func (i *interleaved) Update(ctx context.Context, fn func(job.Tx) error) error {
	err := i.Store.Update(ctx, fn)
	if then := i.then; then != nil {
		i.then = nil
		then()
	}
	return err
}

// between does something between the next commit and its answer.
func (w *world) between(then func()) {
	w.Sidecar.store = &interleaved{Store: w.store, then: then}
}

// A job goes back and to another worker in one commit that takes long. Whatever the
// server hears of first, the reservation of the other is counted from its answer.
func TestALateAnswerOutlivesTheAttemptBefore(t *testing.T) {
	t.Parallel()
	const long = 2500 * time.Millisecond
	giveBack := func(w *world, j *job.Job) { w.fail(j, job.Failure{Requeue: true}) }
	for name, last := range map[string]func(w *world, j *job.Job, fetch func()){
		"given back": func(w *world, j *job.Job, fetch func()) {
			w.between(fetch)
			giveBack(w, j)
		},
		"ran out": func(w *world, _ *job.Job, fetch func()) {
			w.between(fetch)
			w.pass(time.Minute)
		},
		"given back, with a beat before": func(w *world, j *job.Job, fetch func()) {
			w.between(func() { giveBack(w, j); fetch() })
			w.beat("first", j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Retention{})
			w.push(nil)
			first := w.take("first", time.Minute)
			w.set(w.time().Add(tick))
			var second *job.Job
			last(w, first, func() {
				w.between(func() { w.set(w.time().Add(long)) })
				second = w.take("second", 4*time.Second)
			})
			if second == nil || second.ID != first.ID {
				t.Fatalf("the second worker got %v", second)
			}
			w.pass(4*time.Second - tick)
			if j := w.read(second.ID); j.State != job.Active || j.Lease.Token != second.Lease.Token {
				t.Errorf("a tick before the end of its reservation the job is %s", j.State)
			}
			w.pass(tick)
			w.is("at the end of its reservation", second.ID, job.Available)
		})
	}
}

// A job that ends before a beat about it was answered is forgotten all the same.
func TestAnswersAfterTheEndAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	j := w.take("w", time.Minute)
	w.between(func() {
		w.ack(j)
		if _, err := w.Deregister(t.Context(), "w"); err != nil {
			t.Error(err)
		}
		w.set(w.time().Add(time.Second))
	})
	w.beat("w", j)
	w.pass(2 * time.Hour)
	w.pass(25 * time.Hour)
	if a := &w.answers; len(a.until)+len(a.said)+len(a.open)+len(a.askedBy) > 0 {
		t.Errorf("remembered of a job and a worker that are gone: %v, %v, %d, %v", a.until, a.said, len(a.open), a.askedBy)
	}
}

// A server under load answers late about each job it hands out, and may have handed out
// very many: little is remembered of each, and nothing once all have ended.
func TestLateAnswersTakeLittleMemory(t *testing.T) {
	const n, most = 50_000, 100 // bytes each
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var a answers
	began := time.UnixMilli(0).UTC()
	ids := make([]job.ID, n)
	before := used()
	for i := range ids {
		q := a.ask(began, "")
		j := &job.Job{Envelope: job.Envelope{ID: job.IDOf([16]byte{byte(i), byte(i >> 8), 15: 1})}}
		j.StartedAt = began
		j.Lease = job.Lease{Token: newToken(), Until: began.Add(time.Minute)}
		q.about(j.ID)
		q.answer(began.Add(2*moment), []*job.Job{j})
		q.over()
		ids[i] = j.ID
	}
	if took := used() - before - n*48; len(a.until) != n || took > n*most { // an ID takes 48, and is the test's
		t.Errorf("%d jobs took %d bytes each, want %d at most", len(a.until), took/n, most)
	}
	for _, id := range ids {
		a.forget(id)
	}
	if left := used() - before - n*48; left > n {
		t.Errorf("%d bytes are left of jobs that have ended", left)
	}
	runtime.KeepAlive(&a)
	runtime.KeepAlive(ids)
}

// scattered is a store that answers each call so late after its commit as lag says.
type scattered struct {
	job.Store
	lag func() time.Duration
}

func (s scattered) Update(ctx context.Context, fn func(job.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	time.Sleep(s.lag()) // of the bubble
	return err
}

// life is a worker in the world of scattered answers, which does one job after another.
type life struct {
	t    *testing.T
	s    *Sidecar
	name string
	roll func(least, most time.Duration) time.Duration
	slow time.Duration // the longest lag
}

// work takes a job, beats for it in time, always at the last moment or earlier, and
// then gives it back, ends it or dies.
func (l *life) work(ctx context.Context) {
	reservation := l.roll(300*time.Millisecond, 2*time.Second)
	jobs, err := l.s.Fetch(ctx, job.FetchRequest{Queues: []string{mail}, Worker: l.name, Visibility: reservation})
	if err != nil || len(jobs) == 0 {
		if err != nil {
			l.t.Error(err)
		}
		time.Sleep(l.roll(time.Millisecond, 300*time.Millisecond))
		return
	}
	j, heard := jobs[0], time.Now()
	claim := job.Claim{ID: j.ID, Token: j.Lease.Token}
	for range l.roll(0, 6) {
		time.Sleep(l.roll(reservation/2, reservation-2*time.Millisecond))
		reply, err := l.s.Beat(ctx, job.Beat{Worker: job.WorkerInfo{ID: l.name}, Jobs: []job.Claim{claim}})
		if err != nil || len(reply.Extended) != 1 {
			l.t.Errorf("%s: %s lives, was heard %s ago, beats for %s and was robbed: %+v, %v", time.Now(), l.name, time.Since(heard), reservation, reply, err)
			return
		}
		heard = time.Now()
	}
	switch l.roll(0, 3) {
	case 0:
		_, err = l.s.Fail(ctx, claim, job.Failure{Requeue: true, Undelivered: true})
	case 1:
		_, err = l.s.Ack(ctx, claim, nil)
	default:
		l.die(ctx, claim, heard.Add(reservation))
	}
	if err != nil {
		l.t.Errorf("%s: %v", l.name, err)
	}
}

// die waits for the end of the reservation and looks whether the job stays until
// then and goes thereafter.
func (l *life) die(ctx context.Context, c job.Claim, end time.Time) {
	holds := func() bool {
		j, err := l.s.Job(ctx, c.ID)
		if err != nil {
			l.t.Error(err)
		}
		return j.State == job.Active && j.Lease.Token == c.Token
	}
	time.Sleep(time.Until(end) - 2*time.Millisecond)
	if !holds() {
		l.t.Errorf("%s, whose reservation has not ended, was robbed", l.name)
	}
	time.Sleep(moment + 4*l.slow + 4*readTime) // other duties may be waiting for their answers
	if holds() {
		l.t.Errorf("%s is dead for long and has its job still", l.name)
	}
}

// In whatever order answers come, late ones and those that came in a moment, of
// attempts that follow one another and of the sweeps between them: who beats in
// time keeps his job, and who is dead loses it.
func TestAnswersInWhateverOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		path := filepath.Join(t.TempDir(), fmt.Sprint(seed, ".db"))
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			var rolling sync.Mutex
			roll := func(least, most time.Duration) time.Duration {
				rolling.Lock()
				defer rolling.Unlock()
				return least + time.Duration(r.Int64N(int64(most-least)+1))
			}
			store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			slow := []time.Duration{moment, 3 * moment / 2, time.Second, time.Second}[seed]
			s := New(scattered{store, func() time.Duration {
				if slow > moment && roll(0, 1) == 0 {
					return roll(0, moment)
				}
				return roll(0, slow)
			}}, Options{Rand: func() float64 { return 0.5 }})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			var workers sync.WaitGroup
			for n := range 8 {
				workers.Go(func() {
					l := &life{t, s, fmt.Sprint("w", n), roll, slow}
					for began := time.Now(); time.Since(began) < time.Minute && !t.Failed(); {
						if n%2 == 0 {
							if _, err := s.Enqueue(ctx, job.Envelope{Type: "a.b", Queue: mail, Args: []byte(`[]`)}); err != nil {
								t.Error(err)
							}
						}
						l.work(ctx)
					}
				})
			}
			workers.Wait()
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
