package handwork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// exitDataErr is EX_DATAERR of sysexits.h: no other attempt can do better. Its EX_TEMPFAIL,
// 75, is like every other code: another attempt may.
const exitDataErr = 65

// How long processes are waited for.
const (
	termTime = 5 * time.Second // from SIGTERM to SIGKILL
	stopTime = 2 * time.Second // the same where the worker stops, which has little time left
	pipeTime = 500 * time.Millisecond
)

// command runs the command of a mapping for one attempt of a job.
func (w *worker) command(ctx context.Context, m *Mapping, j *job.Job) (any, error) {
	input := oneLine(j.Args, "[]")
	if w.o.WholeJob {
		raw, err := j.MarshalJSON() // without the token of its reservation
		if err != nil {
			return nil, err
		}
		input = oneLine(raw, "{}")
	}
	out, errs := &head{limit: maxResult}, &tail{}
	cmd := shell(m.Command)
	cmd.Env = environ(ctx, w.o.Environ, w.o.Access, j)
	cmd.Stdin = bytes.NewReader(append(input, '\n'))
	cmd.Stdout = out
	cmd.Stderr = errs
	if w.o.Stderr != nil {
		cmd.Stderr = &both{errs, w.o.lines(j.ID)}
	}
	cmd.WaitDelay = pipeTime // a process that has left its group may hold a pipe open
	p, err := w.groups.start(cmd)
	if err != nil {
		return nil, &failed{kind: "not_started", what: "not started", message: "the command could not be started: " + bare(err)}
	}
	told := p.await(ctx)
	if l, ok := cmd.Stderr.(*both); ok {
		l.flush()
	}
	return verdict(ctx, told, cmd.ProcessState.Sys(), out, errs)
}

// verdict is what came of a command that has ended. One that was told to stop has not
// ended well, whatever its exit code: many programs exit with 0 when they are stopped.
func verdict(ctx context.Context, told bool, state any, out *head, errs *tail) (any, error) {
	f := &failed{details: map[string]any{}}
	text := errs.text()
	if text != "" {
		f.details["stderr"] = text
		f.details["stderr_bytes"] = errs.size
	}
	if out.size > 0 {
		f.details["stdout_bytes"] = out.size
	}
	code, signal := ended(state)
	if signal == "" {
		f.details["exit_code"] = code
	} else {
		f.details["signal"] = signal
	}
	switch {
	case told && errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.kind, f.what, f.err = "timeout", "time limit", context.DeadlineExceeded
		f.message = because("the command ran longer than the job's time limit and was stopped", lastLine(text))
	case told:
		f.kind, f.what, f.message = "stopped", "stopped", fmt.Sprintf("the command was stopped: %v", context.Cause(ctx))
	case signal != "":
		f.kind, f.what = "signal_"+strings.ToLower(strings.TrimPrefix(signal, "SIG")), signal
		f.message = because("the command was ended by "+signal, lastLine(text))
	case code == 0:
		if raw := out.result(); raw != nil {
			return raw, nil
		}
		return nil, nil
	default:
		f.kind, f.what = fmt.Sprintf("exit_%d", code), fmt.Sprintf("exit %d", code)
		f.message = because(fmt.Sprintf("the command ended with exit code %d", code), lastLine(text))
	}
	if !told && signal == "" && code == exitDataErr {
		return nil, client.NonRetryable(f)
	}
	return nil, f
}

// bare is an error of the operating system without the name of the program in front: the
// command is a line of the shell, and may hold a secret.
func bare(err error) string {
	var e *exec.Error
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return no.Error()
	case errors.As(err, &e):
		return e.Err.Error()
	}
	return err.Error()
}
