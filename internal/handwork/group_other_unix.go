//go:build unix && !linux

package handwork

import "syscall"

// dieWithThread does nothing: only Linux can.
func dieWithThread(*syscall.SysProcAttr) {}

// awaitExit does not wait: the exit code is taken first here, and the group ended then.
func awaitExit(int) bool { return false }
