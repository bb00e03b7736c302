//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// apart keeps the signals of the terminal from a process, so that Ctrl-C asks it to end once
// and not twice.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
