package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/internal/self"
)

// child is a server in a process of its own, so that its memory is its own.
type child struct {
	cmd *exec.Cmd
	url *url.URL
	out chan string // its first line, then closed
}

// locked lets several processes write to one writer.
type locked struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// Write writes to w, one caller at a time.
func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// startChild runs this program with args and waits until it says where it listens.
func (b *bench) startChild(ctx context.Context, args ...string) (*child, error) {
	cmd, err := self.Command(ctx, 10*time.Second, []string{"OUTRIDER_LOG_LEVEL=warn", "OUTRIDER_SHUTDOWN_GRACE=0s"}, args...)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = b.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	c := &child{cmd: cmd, out: make(chan string, 1)}
	go c.read(stdout)
	if c.url, err = c.ready(); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *child) read(stdout io.Reader) {
	defer close(c.out)
	r := bufio.NewReader(stdout)
	if line, err := r.ReadString('\n'); err == nil {
		c.out <- line
	}
	_, _ = io.Copy(io.Discard, r) // until it ends
}

// ready waits for the line that says where the server listens.
func (c *child) ready() (*url.URL, error) {
	select {
	case line, ok := <-c.out:
		_, where, found := strings.Cut(line, "listening on ")
		if !ok || !found {
			return nil, fmt.Errorf("the private server did not start; its output is above")
		}
		where, _, _ = strings.Cut(strings.TrimSpace(where), " ")
		return ParseTarget(where)
	case <-time.After(20 * time.Second):
		return nil, fmt.Errorf("the private server did not start within 20 s")
	}
}

// stop ends the server and waits for its end; no child needs no stop.
func (c *child) stop() {
	if c == nil {
		return
	}
	if c.cmd.Cancel() != nil { // where there is no SIGTERM
		_ = c.cmd.Process.Kill()
	}
	for range c.out { // Wait closes the pipe, so first read it to its end
	}
	_ = c.cmd.Wait() // measured is measured, however it ends
}

// memory is what a process holds, in bytes.
type Memory struct {
	RSS     int64 `json:"rss_bytes"`
	PeakRSS int64 `json:"peak_rss_bytes"`
}

// memory asks Linux what the server holds; elsewhere, and without a child, nobody knows.
func (c *child) memory() *Memory {
	if c == nil {
		return nil
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return nil
	}
	return &Memory{statusField(status, "VmRSS:"), statusField(status, "VmHWM:")}
}

// statusField is a size from /proc/PID/status, which counts in KiB.
func statusField(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	if f := bytes.Fields(rest); len(f) > 0 {
		kib, _ := strconv.ParseInt(string(f[0]), 10, 64) // what is no number is unknown, 0
		return kib << 10
	}
	return 0
}
