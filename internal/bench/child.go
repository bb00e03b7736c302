package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/self"
)

// child is a server in a process of its own, so that its memory and its processor
// time are its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser // its end asks the server to stop
	url   *url.URL
	*process
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

// ServerCommand and BaselineCommand are the commands of this program that a run
// starts as private servers. Both serve under [Attended].
const (
	ServerCommand   = "bench-server" // serve, with its flags
	BaselineCommand = "bench-baseline"
)

// startChild starts a private server with these flags.
func (b *bench) startChild(ctx context.Context, flags ...string) (*child, error) {
	return b.start(ctx, append([]string{ServerCommand, "--listen", "127.0.0.1:0"}, flags...)...)
}

// start runs this program with args and waits until it says where it listens.
func (b *bench) start(ctx context.Context, args ...string) (*child, error) {
	cmd, err := self.Command(ctx, 10*time.Second, []string{"OUTRIDER_LOG_LEVEL=error", "OUTRIDER_SHUTDOWN_GRACE=0s"}, args...)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = b.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, process: processOf(cmd.Process.Pid), out: make(chan string, 1)}
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
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("the private server did not start within a minute")
	}
}

// client speaks to the server.
func (c *child) client() (*client.Client, error) {
	return client.New(c.url.String(), client.Options{})
}

// stop ends the server and waits for its end; no child needs no stop.
func (c *child) stop() {
	if c == nil {
		return
	}
	_ = c.stdin.Close() // where it is closed already, the server has ended
	for range c.out {   // Wait closes the pipe, so first read it to its end
	}
	_ = c.cmd.Wait() // measured is measured, however it ends
}

// Attended serves until stdin ends, or ctx. A line on stdin is the name of a file,
// into which a CPU profile is written from then on.
func Attended(ctx context.Context, stdin io.Reader, stderr io.Writer, serve func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer cancel()
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			stop, err := profile(lines.Text())
			if err != nil {
				fmt.Fprintln(stderr, "error:", err)
				continue
			}
			defer func() {
				if err := stop(); err != nil {
					fmt.Fprintln(stderr, "error:", err)
				}
			}()
		}
	}()
	err := serve(ctx)
	<-over // who started this server closes stdin, or is gone
	return err
}
