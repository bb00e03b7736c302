package handwork

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
)

// groups starts commands, each in a process group of its own: what is sent to the group
// reaches all that the command has started, and a Ctrl-C at the terminal reaches none.
type groups struct {
	starts chan func()
	guard  *guard // nil without one
}

func newGroups(g *guard) *groups {
	gs := &groups{starts: make(chan func()), guard: g}
	go gs.run()
	return gs
}

// run starts all commands from one thread, which lives as long as the worker: Linux
// ends a command when the thread that has started it ends (PR_SET_PDEATHSIG).
func (gs *groups) run() {
	runtime.LockOSThread()
	for start := range gs.starts {
		start()
	}
}

func (gs *groups) close() { close(gs.starts) }

// start starts a command. Whoever calls it calls await.
func (gs *groups) start(cmd *exec.Cmd) (*process, error) {
	ownGroup(cmd)
	started := make(chan error, 1)
	gs.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	gs.guard.watch(cmd.Process.Pid)
	return &process{cmd: cmd, guard: gs.guard}, nil
}

// process is a command that was started, and its group.
type process struct {
	cmd   *exec.Cmd
	guard *guard

	mu     sync.Mutex // guards exited
	exited bool       // the number of the group may soon be another's
}

// await returns when the command and its group have ended. When ctx ends first it asks
// them to end, and after a grace ends them; told reports that.
func (p *process) await(ctx context.Context) (told bool) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.reap()
	}()
	select {
	case <-gone:
		return false
	case <-ctx.Done():
	}
	grace := termTime
	if errors.Is(context.Cause(ctx), client.ErrStopped) {
		grace = stopTime
	}
	told = p.signal(askToEnd)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		p.signal(endGroup)
		<-gone
	}
	return told
}

// signal does something to the group, unless the command has ended.
func (p *process) signal(do func(pid int)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited {
		return false
	}
	do(p.cmd.Process.Pid)
	return true
}

// reap waits for the command, ends what is left of its group, and takes its exit code. As
// long as the code is not taken no other group can have the number.
func (p *process) reap() {
	pid := p.cmd.Process.Pid
	early := awaitExit(pid)
	if !early {
		_ = p.cmd.Wait() // its ProcessState says all
	}
	p.mu.Lock()
	p.exited = true
	p.mu.Unlock()
	endGroup(pid)
	p.guard.forget(pid)
	if early {
		_ = p.cmd.Wait()
	}
}
