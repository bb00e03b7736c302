package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockAt is a byte of the database that is locked: far behind any that is
// written, and those that SQLite locks, which lie at 1 GB.
const lockAt = 0x7fff_0000_0000

// lockDatabase locks a database for this open file, and reports whether nobody
// else has. The lock goes with the open file, not with the process, so neither
// does SQLite in this process take it away, nor it SQLite's locks. flock(2) would
// do here as well, but on FreeBSD and macOS it would conflict with SQLite's own locks.
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

// The bytes of the -shm file that SQLite locks (its wal.c): one for whoever writes,
// five for those who read, each a mark up to which the log is in use.
const (
	shmWriter    = 120
	shmReader    = 123
	shmLastRead  = 127
	locksOfLinux = "/proc/locks"
)

// whoHolds names the other programs that hold the lock of the writer, or with
// reading that keep the log in use. It is empty where the system does not show it.
func whoHolds(path string, reading bool) string {
	locks, err := os.ReadFile(locksOfLinux)
	if err != nil {
		return ""
	}
	var names []string
	seen := map[int]bool{os.Getpid(): true}
	for line := range strings.Lines(string(locks)) {
		l, ok := parseLock(line)
		if !ok || seen[l.pid] || !l.concerns(path, reading) {
			continue
		}
		seen[l.pid] = true
		names = append(names, fmt.Sprintf("process %d%s", l.pid, program(l.pid)))
	}
	return strings.Join(names, ", ")
}

// heldLock is a line of /proc/locks.
type heldLock struct {
	pid         int
	write       bool
	inode       uint64
	first, last int64
}

// parseLock reads a line as "3: POSIX  ADVISORY  READ 123 08:01:456 123 127". One
// that only waits, or whose process the system does not show, does not count.
func parseLock(line string) (l heldLock, ok bool) {
	f := strings.Fields(line)
	if len(f) != 8 || f[1] != "POSIX" {
		return l, false
	}
	pid, perr := strconv.Atoi(f[4])
	inode, ierr := strconv.ParseUint(f[5][strings.LastIndexByte(f[5], ':')+1:], 10, 64)
	first, ferr := strconv.ParseInt(f[6], 10, 64)
	last, lerr := strconv.ParseInt(f[7], 10, 64)
	if f[7] == "EOF" {
		last, lerr = 1<<62, nil
	}
	return heldLock{pid, f[3] == "WRITE", inode, first, last},
		perr == nil && ierr == nil && ferr == nil && lerr == nil && pid > 0
}

// concerns reports whether a lock keeps a writer out of the database at path, or
// with reading the log in use.
func (l heldLock) concerns(path string, reading bool) bool {
	shm := l.inode == inodeOf(path+"-shm")
	if reading {
		return shm && l.first <= shmLastRead && l.last >= shmReader
	}
	return shm && l.write && l.first <= shmWriter && l.last >= shmWriter || l.write && l.inode == inodeOf(path)
}

func inodeOf(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// program is the name of a process in brackets, empty if it is not known.
func program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}
