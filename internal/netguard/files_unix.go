//go:build unix

package netguard

import (
	"syscall"
)

// filesAllowed is how many files this process may have open; 0 is not known.
func filesAllowed() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<30)) // signed on some systems
}
