package sqlitestore

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// isHeld reports whether a server has the database at path, and by which process where that
// can be seen. It asks for the lock without taking it, so that a server which starts
// meanwhile finds it free.
func isHeld(path string) (held bool, by string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, "", err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: lockAt, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return false, "", nil // a kernel without such locks: it is not known
	}
	if st, err := f.Stat(); err == nil {
		by = lockedBy(st)
	}
	return true, by, nil
}

// gently has the thread of the caller, which must be locked to it, run when the processors have nothing else to
// do: what is only a check must not slow down who serves. (To be nice is not enough: a call that is
// answered in half a millisecond waited for the end of a nice thread's turn, and a third of them were lost.)
func gently() {
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) // else it is as quick as others
	}
}

// writeOut has the system begin to write a part of a file, so that no more of it is waiting when
// somebody else flushes. It waits for nothing itself, and promises nothing: a flush comes at the end.
func writeOut(f *os.File, from, n int64) error {
	err := unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil // a file system that cannot
}
