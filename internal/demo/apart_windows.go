package demo

import (
	"os/exec"
	"syscall"
)

// apart keeps a Ctrl-C at the terminal from a process.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
