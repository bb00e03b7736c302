package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/self"
	"github.com/outrider-jobs/outrider/job"
)

// childSettings are those of the processes. Who stays looks at the dashboard: each failed
// job as a line would soon have moved its address off the terminal.
func (d *demo) childSettings() []string {
	level := "warn"
	if d.stays {
		level = "error"
	}
	return []string{"OUTRIDER_LOG_LEVEL=" + level, "OUTRIDER_SHUTDOWN_GRACE=2s"}
}

// scan calls fn with every line until the reader ends.
func scan(from io.Reader, fn func(line string)) {
	for s := bufio.NewScanner(from); s.Scan(); {
		fn(s.Text())
	}
}

// launch starts cmd and hands its output, line by line, to out; what it writes
// to its stderr is told as who. wait returns when the process and its output have ended.
func (d *demo) launch(cmd *exec.Cmd, who string, out func(string)) (wait func() error, err error) {
	apart(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", who, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { scan(stdout, out) })
	reading.Go(func() { scan(stderr, func(line string) { d.say(who, "%s", line) }) })
	return func() error {
		reading.Wait()
		return cmd.Wait()
	}, nil
}

// startServer runs "outrider serve" and starts it again whenever it dies, as a
// supervisor would, until the end of ctx. It returns when the server answers for the first
// time, or inTime is over.
func (d *demo) startServer(ctx, inTime context.Context, fail context.CancelCauseFunc, processes *sync.WaitGroup) error {
	ready, listen, up := make(chan string, 1), d.address(), false
	processes.Go(func() {
		for ctx.Err() == nil {
			err := d.serveOnce(ctx, listen, func(url string) {
				listen, up = strings.TrimPrefix(url, "http://"), true
				select {
				case ready <- url:
				default:
				}
			})
			var exit *exec.ExitError
			switch {
			case ctx.Err() != nil:
				return
			case errors.As(err, &exit) && !up && listen != anyPort: // somebody was faster
				listen = anyPort
				continue
			case errors.As(err, &exit) && exit.ExitCode() > 0:
				fail(fmt.Errorf("the server exited with code %d; its output is above", exit.ExitCode()))
				return
			case err != nil && exit == nil:
				fail(err)
				return
			}
			d.say("server", "was killed (%v); starting it again on the same file", err)
		}
	})
	select {
	case url := <-ready:
		var err error
		d.url = url
		d.client, err = client.New(url, client.Options{})
		return err
	case <-inTime.Done():
		return orCause(inTime, fmt.Errorf("the server did not start: %w", inTime.Err()))
	}
}

const usualPort, anyPort = "127.0.0.1:8080", "127.0.0.1:0"

// address is where the server should listen: a demo that stays is at the usual port, where
// that is free.
func (d *demo) address() string {
	if !d.stays {
		return anyPort
	}
	ln, err := net.Listen("tcp", usualPort)
	if err != nil {
		d.say("server", "port 8080 is in use by somebody else, so this one gets another")
		return anyPort
	}
	_ = ln.Close() // it was only a question
	return usualPort
}

// serveOnce is one life of the server.
func (d *demo) serveOnce(ctx context.Context, listen string, ready func(url string)) error {
	cmd, err := self.Command(ctx, 5*time.Second, d.childSettings(), "serve", "--listen", listen, "--db", filepath.Join(d.dir, "outrider.db"), "--outbox", "sqlite:"+d.shop.path)
	if err != nil {
		return err
	}
	wait, err := d.launch(cmd, "server", func(line string) {
		if _, rest, ok := strings.Cut(line, "listening on "); ok {
			url, _, _ := strings.Cut(rest, " ")
			d.say("server", "process %d serves %s and relays the shop's outbox", cmd.Process.Pid, url)
			ready(url)
		}
	})
	if err != nil {
		return err
	}
	return wait()
}

// startWorker runs the worker in a process of its own, which knows the server's
// address and nothing else.
func (d *demo) startWorker(ctx context.Context, fail context.CancelCauseFunc, processes *sync.WaitGroup) error {
	args := []string{"demo-worker", "--url", d.url}
	if d.stays {
		args = append(args, "--shop")
	}
	cmd, err := self.Command(ctx, 5*time.Second, d.childSettings(), args...)
	if err != nil {
		return err
	}
	wait, err := d.launch(cmd, "worker", d.heard)
	if err != nil {
		return err
	}
	d.say("worker", "process %d receives jobs over HTTP", cmd.Process.Pid)
	processes.Go(func() {
		if err := wait(); ctx.Err() == nil {
			fail(fmt.Errorf("the worker ended too early: %w", err))
		}
	})
	return nil
}

// demoReport is a line from the worker: it began an attempt.
type demoReport struct {
	Order   int64     `json:"order"`
	Attempt int       `json:"attempt"`
	Fails   bool      `json:"fails"`
	At      time.Time `json:"at"`
}

// heard notes what the worker says.
func (d *demo) heard(line string) {
	var r demoReport
	if json.Unmarshal([]byte(line), &r) != nil {
		d.say("worker", "%s", line)
		return
	}
	var since time.Duration
	d.mu.Lock()
	living := d.living
	for _, o := range d.orders {
		if o.ID == r.Order {
			if o.started.IsZero() {
				o.started = r.At
			}
			since = r.At.Sub(o.committed)
		}
	}
	d.mu.Unlock()
	switch {
	case living: // there is no end of it
	case r.Fails:
		d.say("worker", "order %d started %s after its commit, and fails: it will be retried", r.Order, took(since))
	case r.Attempt > 1:
		d.say("worker", "order %d started again, attempt %d", r.Order, r.Attempt)
	default:
		d.say("worker", "order %d started %s after its commit", r.Order, took(since))
	}
}

// Work is the other process of the demo: a worker of the server at url, or all those of the
// living shop. It says on stdout what it does.
func Work(ctx context.Context, url string, shop bool, stdout io.Writer) error {
	c, err := client.New(url, client.Options{})
	if err != nil {
		return err
	}
	confirming := func(_ context.Context, j *job.Job) (any, error) { return confirm(j, stdout) }
	if shop {
		return staff(ctx, c, confirming)
	}
	w := client.NewWorker(c, settled(client.WorkerOptions{}))
	w.Handle(orderJob, confirming)
	return w.Run(ctx)
}

// settled are the options of a worker whose server may be killed at any time.
func settled(o client.WorkerOptions) client.WorkerOptions {
	o.Heartbeat, o.Visibility = 500*time.Millisecond, 2*time.Second
	o.Wait, o.Grace = 5*time.Second, time.Second
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

// confirm is the handler: it says what it does, and fails once where it is asked to.
func confirm(j *job.Job, stdout io.Writer) (any, error) {
	var o order
	if err := client.Args(j, &o); err != nil {
		return nil, client.Discard(err)
	}
	r := demoReport{Order: o.ID, Attempt: j.Attempt, Fails: o.FailOnce && j.Attempt == 1, At: time.Now()}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(stdout, string(line))
	if r.Fails {
		return nil, errors.New("the mail server is not there yet")
	}
	return map[string]string{"mailed": o.Email}, nil
}
