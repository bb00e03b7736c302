//go:build unix

package sqlitestore

import (
	"io/fs"
	"syscall"
)

// links is how many names a file has.
func links(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 1
}
