package handwork

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"

	"github.com/outrider-jobs/outrider/internal/self"
)

// guard is a process that outlives the worker for a moment, when that is killed: it ends
// the process groups that are left. It knows them from a pipe, whose end is the word that
// the worker is gone. A nil guard guards nothing.
type guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex // guards what is written to pipe
	pipe io.WriteCloser
}

// startGuard starts this program with args, which lets it call [Guard].
func startGuard(args []string) (*guard, error) {
	if len(args) == 0 {
		return nil, nil
	}
	cmd, err := self.Command(context.Background(), 0, nil, args...)
	if err != nil {
		return nil, err
	}
	apart(cmd)
	g := &guard{cmd: cmd}
	if g.pipe, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of the commands: %w", err)
	}
	return g, nil
}

func (g *guard) watch(pid int)  { g.tell('+', pid) }
func (g *guard) forget(pid int) { g.tell('-', pid) }

func (g *guard) tell(what byte, pid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.pipe, "%c%d\n", what, pid) // a guard that was killed guards nothing; the work goes on
}

// close lets the guard end, and waits for it.
func (g *guard) close() {
	if g == nil {
		return
	}
	_ = g.pipe.Close()
	_ = g.cmd.Wait() // it has nothing to say
}

// Guard is the other side: it reads of process groups that begin and end, and at the end
// of r ends those that are left.
func Guard(r io.Reader) error {
	left := map[int]bool{}
	defer func() {
		for pid := range left {
			endGroup(pid)
		}
	}()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		pid, err := strconv.Atoi(line[min(1, len(line)):])
		switch {
		case err != nil || pid < 2: // 0 and 1 mean more than one group
			return fmt.Errorf("a guard of process groups was told %q", line)
		case line[0] == '+':
			left[pid] = true
		default:
			delete(left, pid)
		}
	}
	return lines.Err()
}
