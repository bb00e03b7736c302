package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// fickle is a store that fails when a test says so, and tells it of each commit.
type fickle struct {
	job.Store
	fail   func() error           // before a transaction
	insert func([]*job.Job) error // before jobs are stored
	after  func()                 // a transaction, before its caller goes on
}

func (f *fickle) Update(ctx context.Context, fn func(job.Tx) error) error {
	if f.fail != nil {
		if err := f.fail(); err != nil {
			return err
		}
	}
	err := f.Store.Update(ctx, func(tx job.Tx) error { return fn(fickleTx{tx, f}) })
	if after := f.after; err == nil && after != nil {
		f.after = nil
		after()
	}
	return err
}

type fickleTx struct {
	job.Tx
	f *fickle
}

func (t fickleTx) InsertJobs(js []*job.Job) ([]bool, error) {
	if t.f.insert != nil {
		if err := t.f.insert(js); err != nil {
			return nil, err
		}
	}
	return t.Tx.InsertJobs(js)
}

// fickleWorld is a world over a store that fails.
func fickleWorld(t *testing.T, o Options) (*world, *fickle) {
	w := newWorld(t, Retention{})
	f := &fickle{Store: w.store}
	o.Now, o.Rand = w.time, func() float64 { return 0.5 }
	w.Sidecar = New(f, o)
	return w, f
}

// cron makes a schedule.
func (w *world) cron(name, expr string, overlap job.Overlap) *job.Cron {
	w.t.Helper()
	c, _, err := w.PutCron(w.t.Context(), job.CronSpec{Name: name, Expression: expr, Overlap: overlap, Template: json.RawMessage(`{"type":"` + name + `.run","args":[],"options":{"queue":"mail"}}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// schedule reads a schedule.
func (w *world) schedule(name string) *job.Cron {
	w.t.Helper()
	c, err := w.Cron(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// tock is one round of the loop of schedules.
func (w *world) tock() { w.crons.Fire(w.t.Context()) }

// later lets time pass with a round at each second.
func (w *world) later(d time.Duration) {
	for end := w.time().Add(d); w.time().Before(end); {
		w.set(w.time().Add(time.Second))
		w.tock()
	}
}

func unavailable() error { return job.Errorf(job.Unavailable, "there is no space left") }

// A run that is enqueued behind one that ends at that very moment goes on.
func TestRunWhosePredecessorEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	w.cron("c", "* * * * *", job.OverlapEnqueue)
	w.later(time.Minute)
	first := w.take("w", time.Hour)
	w.later(59 * time.Second)
	w.set(w.time().Add(time.Second))
	var second job.ID
	f.after = func() { // the second run waits
		second = w.schedule("c").LastJob
		w.is("enqueued", second, job.Pending)
		w.ack(first)
	}
	w.tock()
	w.is("the first", first.ID, job.Completed)
	w.is("the second", second, job.Available)
}

// A middleware that cannot tell about one schedule does not hold up the others.
func TestOneMiddlewareThatCannotTell(t *testing.T) {
	t.Parallel()
	chain := &Chain{}
	_ = chain.Add("asks", func(ctx context.Context, e *job.Envelope, next EnqueueFunc) error {
		if e.Type == "asks.run" {
			return unavailable()
		}
		return next(ctx, e)
	})
	w, _ := fickleWorld(t, Options{Middleware: chain})
	w.cron("asks", "* * * * *", job.OverlapAllow)
	w.cron("other", "* * * * *", job.OverlapAllow)
	w.later(10 * time.Minute)
	if n := w.schedule("other").RunCount; n != 10 {
		t.Errorf("%d runs in 10 minutes, want 10", n)
	}
}

// A job that the store does not take holds up its own schedule only.
func TestOneJobThatIsNotStored(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	for i := range 300 {
		w.cron(fmt.Sprintf("c%03d", i), "* * * * *", job.OverlapAllow)
	}
	f.insert = func(js []*job.Job) error {
		for _, j := range js {
			if j.Type == "c150.run" {
				return errors.New("this one not")
			}
		}
		return nil
	}
	w.later(65 * time.Second)
	for i := range 300 {
		want := int64(1)
		if i == 150 {
			want = 0
		}
		if got := w.schedule(fmt.Sprintf("c%03d", i)).RunCount; got != want {
			t.Fatalf("c%03d has run %d times after a minute, want %d", i, got, want)
		}
	}
	f.insert = nil
	w.later(2 * time.Minute)
	if got := w.schedule("c150").RunCount; got == 0 {
		t.Error("the one that could not be stored never ran")
	}
}

// A store that fails for a while, after a time without a server: one catch-up each, and then the series.
func TestCatchUpWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	const n = 200
	for i := range n {
		w.cron(fmt.Sprintf("c%03d", i), "* * * * *", job.OverlapAllow)
	}
	w.tock()
	w.set(w.time().Add(3*day + time.Second))
	full := true
	f.fail = func() error {
		if full {
			return unavailable()
		}
		return nil
	}
	w.later(10 * time.Minute)
	full = false
	w.later(15 * time.Second) // no minute begins in it
	for i := range n {
		if c := w.schedule(fmt.Sprintf("c%03d", i)); c.RunCount != 1 {
			t.Fatalf("%s made %d jobs after one time without a server, want 1: %v", c.Name, c.RunCount, c.Runs)
		}
	}
}

// A machine that sleeps again while catch-ups are spread makes up once.
func TestSleepWhileCatchUpsAreSpread(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	const n = 200
	for i := range n {
		w.cron(fmt.Sprintf("c%03d", i), "0 * * * *", job.OverlapAllow)
	}
	w.tock()
	w.set(w.time().Add(3 * day))
	w.tock()
	w.set(w.time().Add(2 * day))
	w.later(20 * time.Second)
	for i := range n {
		c := w.schedule(fmt.Sprintf("c%03d", i))
		for _, r := range c.Runs {
			if j := w.read(r.JobID); j.CreatedAt.Sub(r.At) > day {
				t.Fatalf("%s made a job %s after its tick", c.Name, j.CreatedAt.Sub(r.At))
			}
		}
	}
}

// A middleware that panics refuses the job, and ends nobody's server.
func TestMiddlewareThatPanics(t *testing.T) {
	t.Parallel()
	chain := &Chain{}
	_ = chain.Add("falls", func(ctx context.Context, e *job.Envelope, next EnqueueFunc) error {
		if e.Type == "falls.run" {
			panic("no")
		}
		return next(ctx, e)
	})
	w, _ := fickleWorld(t, Options{Middleware: chain})
	w.cron("falls", "* * * * *", job.OverlapAllow)
	w.cron("other", "* * * * *", job.OverlapAllow)
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the loop of schedules panicked: %v", p)
		}
	}()
	w.later(2 * time.Minute)
	if n := w.schedule("other").RunCount; n != 2 {
		t.Errorf("%d runs in 2 minutes", n)
	}
}

// A middleware that takes its time over a job that a person triggers holds up
// no schedule.
func TestTriggerThatTakesItsTime(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	chain := &Chain{}
	_ = chain.Add("slow", func(ctx context.Context, e *job.Envelope, next EnqueueFunc) error {
		if e.Type == "slow.run" {
			close(asked)
			<-answer
		}
		return next(ctx, e)
	})
	w, _ := fickleWorld(t, Options{Middleware: chain})
	w.cron("slow", "0 0 1 1 *", job.OverlapAllow)
	w.cron("other", "* * * * *", job.OverlapAllow)
	triggered := make(chan error, 1)
	go func() {
		_, err := w.TriggerCron(t.Context(), "slow")
		triggered <- err
	}()
	<-asked
	ticked := make(chan struct{})
	go func() {
		defer close(ticked)
		w.later(time.Minute)
	}()
	select {
	case <-ticked:
	case <-time.After(5 * time.Second):
		t.Error("no schedule fires while a middleware is asked about a job that was triggered")
	}
	close(answer)
	if err := <-triggered; err != nil {
		t.Error(err)
	}
	<-ticked
}
