//go:build unix

package handwork

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// shell is a command that runs a line of the shell.
func shell(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", line) }

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithThread(cmd.SysProcAttr)
}

// askToEnd sends SIGTERM to a group, also to who is stopped.
func askToEnd(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGTERM) // who has ended meanwhile needs none
	_ = syscall.Kill(-pid, syscall.SIGCONT)
}

func endGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // the same
}

// ended is the exit code of a command, or the name of the signal that ended it.
func ended(state any) (code int, signal string) {
	s, ok := state.(syscall.WaitStatus)
	switch {
	case !ok:
		return -1, ""
	case s.Signaled():
		return 0, unix.SignalName(s.Signal())
	}
	return s.ExitStatus(), ""
}

// apart keeps the signals of the terminal from a process.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
