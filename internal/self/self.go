// Package self starts this program once more, as a process of its own.
//
// It imports nothing of ours. It must never decide what the other process does:
// that is in the arguments which it is given.
package self

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Command is this program with args, to be started. Of the environment it has
// all but the settings, and those that are given here. The end of ctx asks it to
// stop, and ends it when it has not within the patience.
func Command(ctx context.Context, patience time.Duration, settings []string, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(WithoutSettings(os.Environ()), settings...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	return cmd, nil
}

// WithoutSettings leaves the settings of this program out of an environment.
func WithoutSettings(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "OUTRIDER_") {
			kept = append(kept, kv)
		}
	}
	return kept
}
