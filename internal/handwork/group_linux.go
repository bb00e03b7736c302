package handwork

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithThread ends the command with this program, however that ends. What the command
// has started is the guard's to end.
func dieWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitExit returns when the command has ended, and leaves its exit code to be taken.
func awaitExit(pid int) bool {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}
