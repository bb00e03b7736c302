//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// keptDemo is a demo that stays, in a process of its own.
type keptDemo struct {
	cmd            *exec.Cmd
	url, dir       string
	server, worker int // process ids

	mu   sync.Mutex
	said strings.Builder
	read chan struct{} // closed when all that it said was read
}

var (
	workerLine    = regexp.MustCompile(`process (\d+) receives`)
	dashboardLine = regexp.MustCompile(`dashboard +(http://127\.0\.0\.1:\d+)/$`)
	folderLine    = regexp.MustCompile(`databases +(\S+): shop\.db`)
)

// keepDemo starts one, and returns when it says how to end it.
func keepDemo(t *testing.T, args ...string) *keptDemo {
	t.Helper()
	d := &keptDemo{read: make(chan struct{})}
	d.cmd = exec.Command(os.Args[0], append([]string{"demo", "--keep"}, args...)...)
	d.cmd.Env = append(os.Environ(), asProgram)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell starts it
	out, in := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = in, in
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it has ended, or the test has failed
		_ = in.Close()
		<-d.read
	})
	open := make(chan struct{})
	go d.listen(out, open)
	select {
	case <-open:
	case <-d.read:
	case <-time.After(2 * time.Minute):
	}
	if d.url == "" || d.dir == "" || d.server == 0 || d.worker == 0 {
		t.Fatalf("it does not say where it is: %+v\n%s", d, d.all())
	}
	return d
}

// listen reads what it says, and closes open when it has said all.
func (d *keptDemo) listen(out io.Reader, open chan struct{}) {
	defer close(d.read)
	for s := bufio.NewScanner(out); s.Scan(); {
		line := s.Text()
		d.mu.Lock()
		fmt.Fprintln(&d.said, line)
		d.mu.Unlock()
		for pattern, pid := range map[*regexp.Regexp]*int{serverLine: &d.server, workerLine: &d.worker} {
			if m := pattern.FindStringSubmatch(line); m != nil {
				*pid, _ = strconv.Atoi(m[1])
			}
		}
		for pattern, to := range map[*regexp.Regexp]*string{dashboardLine: &d.url, folderLine: &d.dir} {
			if m := pattern.FindStringSubmatch(line); m != nil {
				*to = m[1]
			}
		}
		if strings.HasPrefix(line, "Ctrl-C ends it all") {
			close(open)
		}
	}
}

func (d *keptDemo) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// end sends the signal, to the whole group as a terminal does or to the process, and wants
// that nothing is left.
func (d *keptDemo) end(t *testing.T, sig syscall.Signal, group bool) {
	t.Helper()
	pid := d.cmd.Process.Pid
	if group {
		pid = -pid
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("it did not end well: %v\n%s", err, d.all())
	}
	d.gone(t)
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
	if said := d.all(); strings.Contains(said, "second signal") || strings.Contains(said, "level=") {
		t.Errorf("it ends with noise:\n%s", said)
	}
}

// gone wants that its processes end.
func (d *keptDemo) gone(t *testing.T) {
	t.Helper()
	for _, pid := range []int{d.server, d.worker} {
		eventually(t, fmt.Sprintf("the end of process %d", pid), 2*time.Minute, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

// livingShop wants all that the shop has to show.
func (d *keptDemo) livingShop(t *testing.T) {
	t.Helper()
	c, err := client.New(d.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	some := func(f job.Filter) func() bool {
		return func() bool { page, err := c.Jobs(ctx, f); return err == nil && len(page.Jobs) > 0 }
	}
	eventually(t, "a card that was refused", 2*time.Minute, some(job.Filter{Type: "payment.charge", States: []job.State{job.Discarded}}))
	eventually(t, "a payment that waits for another try", 2*time.Minute, some(job.Filter{Type: "payment.charge", States: []job.State{job.Retryable}}))
	eventually(t, "an e-mail that was sent", 2*time.Minute, some(job.Filter{Type: "email.send", States: []job.State{job.Completed}}))
	eventually(t, "a job with a backtrace", 2*time.Minute, func() bool {
		page, err := c.Jobs(ctx, job.Filter{Type: "recommend.compute", Limit: 1})
		return err == nil && len(page.Jobs) == 1 && strings.Contains(string(page.Jobs[0].Errors), "recommend")
	})
	eventually(t, "a workflow that has ended", 2*time.Minute, func() bool {
		page, err := c.Workflows(ctx, job.WorkflowFilter{State: job.WorkflowCompleted})
		return err == nil && len(page.Workflows) > 0
	})
	eventually(t, "progress", 2*time.Minute, func() bool {
		page, err := c.Jobs(ctx, job.Filter{Type: "report.render"})
		return err == nil && len(page.Jobs) > 0 && page.Jobs[0].Progress != nil
	})
	eventually(t, "three workers with labels", 2*time.Minute, func() bool {
		workers, err := c.Workers(ctx)
		return err == nil && len(workers) == 3 && len(workers[0].Labels) > 0
	})
	eventually(t, "a parked row", 2*time.Minute, func() bool {
		raw, err := c.Raw(ctx, "GET", "/outbox", nil)
		return err == nil && strings.Contains(string(raw), `"parked":1`)
	})
	if crons, err := c.Crons(ctx, job.CronFilter{}); err != nil || len(crons.Crons) != 4 {
		t.Errorf("schedules: %d, %v", len(crons.Crons), err)
	}
	if q, err := c.Queue(ctx, "newsletter"); err != nil || !q.Paused || q.Depth() == 0 {
		t.Errorf("the paused queue is %+v, %v", q, err)
	}
	if keys, err := c.HeldKeys(ctx, job.Filter{}); err != nil || len(keys.Keys) == 0 {
		t.Errorf("unique keys: %+v, %v", keys, err)
	}
	d.goesOn(ctx, t, c)
}

// goesOn wants orders that were placed from now on.
func (d *keptDemo) goesOn(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	since := time.Now()
	eventually(t, "new orders that are confirmed", 2*time.Minute, func() bool {
		page, err := c.Jobs(ctx, job.Filter{Type: "order.confirm", States: []job.State{job.Completed}, Since: since})
		return err == nil && len(page.Jobs) >= 2
	})
}

// TestDemoStays: a living shop behind the demo, another beside it, and nothing that is left.
func TestDemoStays(t *testing.T) {
	t.Parallel()
	if ln, err := net.Listen("tcp", "127.0.0.1:8080"); err == nil {
		defer ln.Close() // else it is somebody else's, which is all the same
	}
	first := keepDemo(t, "--orders", "4")
	if said := first.all(); strings.HasSuffix(first.url, ":8080") || !strings.Contains(said, "port 8080 is in use") {
		t.Errorf("it is at %s:\n%s", first.url, said)
	}
	if !strings.Contains(first.all(), "3 orders committed, 3 jobs completed, one to one") || !strings.Contains(first.all(), "top --url "+first.url) {
		t.Errorf("it begins as the demo does, and says what to type:\n%s", first.all())
	}
	second := keepDemo(t)
	first.livingShop(t)
	first.end(t, syscall.SIGINT, true)
	c, err := client.New(second.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	second.goesOn(t.Context(), t, c)
	second.end(t, syscall.SIGTERM, false)
}

// TestDemoIsLeft: however it ends, its processes do not stay, and it keeps its databases
// where it was told to.
func TestDemoIsLeft(t *testing.T) {
	t.Parallel()
	t.Run("the terminal is closed", func(t *testing.T) { keepDemo(t).end(t, syscall.SIGHUP, false) })
	t.Run("the server dies", func(t *testing.T) {
		d := keepDemo(t)
		if err := syscall.Kill(d.server, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		dead := d.server
		eventually(t, "another server", 2*time.Minute, func() bool { return strings.Count(d.all(), " serves "+d.url) == 2 })
		c, err := client.New(d.url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d.goesOn(t.Context(), t, c)
		d.end(t, syscall.SIGTERM, false)
		if d.server == dead {
			t.Error("the same server again")
		}
	})
	t.Run("its databases", func(t *testing.T) {
		d := keepDemo(t, "--keep-files")
		if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Wait(); err != nil {
			t.Error(err)
		}
		defer os.RemoveAll(d.dir)
		for _, name := range []string{"shop.db", "outrider.db"} {
			if _, err := os.Stat(filepath.Join(d.dir, name)); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(d.all(), "The databases are in "+d.dir) {
			t.Error(d.all())
		}
	})
}
