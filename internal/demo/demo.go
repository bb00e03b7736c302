package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// The demo is the whole way of a job on real parts: an app's database and its
// transactions, the relay, the store, HTTP, and a worker in a process of its
// own. It trusts nothing it prints: at the end it compares orders and jobs.

const patience = time.Minute // with a server that is killed again and again

// demo is one run of it.
type demo struct {
	stdout io.Writer
	dir    string
	began  time.Time
	stays  bool
	shop   *demoShop
	url    string
	client *client.Client

	mu     sync.Mutex // guards the rest, and the output
	orders []*order
	living bool // the part that checks itself is over
}

// Options are what a demo is told.
type Options struct {
	Orders int  // of the part that checks itself; every fourth is rolled back
	Stay   bool // go on with a living shop until the end of ctx
	Files  bool // leave the folder with the databases
}

// Run is the demo. It prints what it sees on stdout. With Stay the end of ctx is a good
// end, and what the demo started has ended when Run returns.
func Run(ctx context.Context, stdout io.Writer, o Options) (err error) {
	dir, err := os.MkdirTemp("", "outrider-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	d := &demo{stdout: stdout, dir: dir, began: time.Now(), stays: o.Stay}
	defer func() { err = errors.Join(err, d.leave(o.Files)) }()
	told := ctx
	ctx, stop := context.WithCancelCause(ctx)
	var processes sync.WaitGroup
	defer processes.Wait()
	defer stop(nil)
	defer func() { err = errors.Join(err, d.shop.close()) }()
	err = d.first(ctx, stop, &processes, o.Orders)
	switch {
	case err == nil && o.Stay:
		err = orCause(ctx, d.live(ctx, int64(o.Orders)))
	case err == nil:
		d.next()
	}
	if o.Stay && told.Err() != nil {
		return nil // it was told to stop, and does
	}
	return err
}

// first is the part that checks itself. The processes that it starts live until the end of
// ctx; all else of it has to be done in time.
func (d *demo) first(ctx context.Context, stop context.CancelCauseFunc, processes *sync.WaitGroup, orders int) (err error) {
	inTime, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if d.shop, err = openShop(inTime, filepath.Join(d.dir, "shop.db")); err != nil {
		return err
	}
	d.say("shop", "created a database with orders and an outbox: %s", d.shop.path)
	if err := d.startServer(ctx, inTime, stop, processes); err != nil {
		return err
	}
	if err := d.startWorker(ctx, stop, processes); err != nil {
		return err
	}
	if err := d.placeOrders(inTime, orders); err != nil {
		return orCause(inTime, err)
	}
	jobs, err := d.await(inTime)
	if err != nil {
		return orCause(inTime, err)
	}
	d.table(jobs)
	return d.check(jobs)
}

// leave removes the folder, or says where it is.
func (d *demo) leave(files bool) error {
	if files {
		fmt.Fprintf(d.stdout, "\nThe databases are in %s\n", d.dir)
		return nil
	}
	err := os.RemoveAll(d.dir)
	if d.stays && err == nil {
		fmt.Fprintf(d.stdout, "The server and the worker have ended, and %s is removed.\n", d.dir)
	}
	return err
}

// orCause is why ctx ended, where that is the reason of err.
func orCause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.DeadlineExceeded) {
		return c
	}
	return err
}

// say prints one step.
func (d *demo) say(who, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.stdout, "%6.2f s  %-7s %s\n", time.Since(d.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// placeOrders writes orders, each with its row in the outbox, in one
// transaction each. Every fourth is rolled back.
func (d *demo) placeOrders(ctx context.Context, n int) error {
	for i := 1; i <= n; i++ {
		o := &order{ID: int64(i), Email: fmt.Sprintf("customer%d@example.com", i), FailOnce: i == 3}
		rolledBack := i%4 == 0
		if !rolledBack {
			d.mu.Lock()
			d.orders = append(d.orders, o)
			d.mu.Unlock()
		}
		at, err := d.shop.place(ctx, o, rolledBack)
		if err != nil {
			return fmt.Errorf("place order %d: %w", i, err)
		}
		d.mu.Lock()
		o.committed = at
		d.mu.Unlock()
		if rolledBack {
			d.say("app", "order %d was rolled back: it must not become a job", i)
		} else {
			d.say("app", "order %d committed, and its outbox row with it", i)
		}
	}
	return nil
}

// await asks the server until every committed order's job is completed. A
// server that is away, because somebody killed it, is asked again.
func (d *demo) await(ctx context.Context) ([]*job.Job, error) {
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for {
		jobs, err := d.jobs(ctx)
		done := 0
		for _, j := range jobs {
			if j.State == job.Completed {
				done++
			}
		}
		if err == nil && done >= len(d.orders) {
			return jobs, nil
		}
		select {
		case <-ask.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d orders were done when the demo gave up after %s; the last answer was: %w",
				done, len(d.orders), patience, errors.Join(err, ctx.Err()))
		}
	}
}

// jobs reads every job of the demo, page by page.
func (d *demo) jobs(ctx context.Context) (all []*job.Job, err error) {
	f := job.Filter{Type: orderJob, Limit: 200}
	for {
		page, err := d.client.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Jobs...); page.Next == "" {
			return all, nil
		}
		f.Cursor = page.Next
	}
}

// check compares what the app committed with what was done, one to one.
func (d *demo) check(jobs []*job.Job) error {
	committed, err := d.shop.committed()
	if err != nil {
		return err
	}
	done := map[int64]int{}
	for _, j := range jobs {
		var o order
		if err := client.Args(j, &o); err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
		if j.State != job.Completed {
			return fmt.Errorf("job %s of order %d is %s, it should be completed", j.ID, o.ID, j.State)
		}
		done[o.ID]++
	}
	for _, id := range committed {
		if done[id] != 1 {
			return fmt.Errorf("order %d was committed and has %d jobs, it should have exactly one", id, done[id])
		}
		delete(done, id)
	}
	for id, n := range done {
		return fmt.Errorf("order %d was never committed and has %d jobs, it should have none", id, n)
	}
	d.say("check", "%d orders committed, %d jobs completed, one to one; %d rolled back, no job", len(committed), len(jobs), d.shop.rolledBack)
	return nil
}

// table shows the jobs as the server has them, and how long they took.
func (d *demo) table(jobs []*job.Job) {
	byOrder := map[int64]*job.Job{}
	for _, j := range jobs {
		var o order
		if client.Args(j, &o) == nil {
			byOrder[o.ID] = j
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.stdout, "\n%-7s%-38s%-11s%8s%16s\n", "ORDER", "JOB", "STATE", "ATTEMPT", "COMMIT TO START")
	for _, o := range d.orders {
		j := byOrder[o.ID]
		if j == nil {
			continue // check says so
		}
		fmt.Fprintf(d.stdout, "%-7d%-38s%-11s%8d%16s\n", o.ID, j.ID, j.State, j.Attempt, took(o.started.Sub(o.committed)))
	}
	fmt.Fprintln(d.stdout)
}

// took is a duration as the demo shows it.
func took(t time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(max(0, t).Microseconds())/1000)
}

// program is how this program is called at a shell.
func program() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/outrider"
	}
	return "outrider"
}

// next says what to type now.
func (d *demo) next() {
	fmt.Fprintf(d.stdout, `
That was one machine, two databases and three processes. Next, with your own:

  %[1]s outbox init sqlite:./shop.db
  %[1]s serve --outbox sqlite:./shop.db
  %[1]s work --exec 'email.send=cat'
  %[1]s outbox add sqlite:./shop.db email.send ada@example.com
  %[1]s job ls
`, program())
}
