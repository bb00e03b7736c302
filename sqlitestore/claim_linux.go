package sqlitestore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockAt is a byte of the database that is locked: far behind any that is
// written, and those that SQLite locks, which lie at 1 GB.
const lockAt = 0x7fff_0000_0000

// lockDatabase locks a database for this open file, and reports whether nobody
// else has. The lock goes with the open file, not with the process, so neither
// does SQLite in this process take it away, nor it SQLite's locks. flock(2) would
// do here as well, but SQLite's own locks would meet it on FreeBSD and macOS.
func lockDatabase(f *os.File) (ok bool, err error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockAt, Len: 1}
	for {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return false, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return true, nil // a kernel before 3.15, or a file system without them: the lock file is left
	}
	return false, err
}

// lockedBy is the number of the process that has locked a database, empty where
// that cannot be seen, as in another container.
func lockedBy(st fs.FileInfo) string {
	infos, _ := filepath.Glob("/proc/[0-9]*/fdinfo/[0-9]*")
	for _, info := range infos {
		open, err := os.Stat(strings.Replace(info, "/fdinfo/", "/fd/", 1))
		if err != nil || !os.SameFile(open, st) {
			continue
		}
		if b, err := os.ReadFile(info); err == nil && bytes.Contains(b, []byte("OFDLCK")) {
			return strings.Split(info, "/")[2]
		}
	}
	return ""
}
