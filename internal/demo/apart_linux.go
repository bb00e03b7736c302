package demo

import (
	"os/exec"
	"syscall"
)

// apart keeps the signals of the terminal from a process, so that Ctrl-C asks it to end once
// and not twice, and has it asked to end when this program is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
