package sqlitestore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The bytes of the -shm file that SQLite locks (its wal.c): one for whoever writes,
// five for those who read, each a mark up to which the log is in use.
const (
	shmWriter    = 120
	shmReader    = 123
	shmLastRead  = 127
	locksOfLinux = "/proc/locks"
)

// whoHolds names the other programs that hold the lock of the writer, or with
// reading that keep the log in use. It is empty where the system does not tell.
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
// that only waits, or whose program the system does not tell, is none.
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

// program is the name of a process in brackets, empty if nobody tells.
func program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}
