//go:build linux || darwin || freebsd

package sqlitestore

import (
	"os"
	"syscall"
)

// space is how many bytes this process may still write to the file system of a
// folder, and how many that has in all. What is set apart for root counts for
// root; ext4 keeps back the 50th part, 16 MB at most, from everybody.
func space(dir string) (free, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	block := uint64(st.Bsize)
	free, total = uint64(max(st.Bavail, 0))*block, st.Blocks*block
	if os.Geteuid() == 0 {
		all, kept := st.Bfree*block, min(total/50, 16<<20)
		free = max(free, all-min(all, kept))
	}
	return free, total, nil
}
