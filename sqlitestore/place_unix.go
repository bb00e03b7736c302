//go:build unix

package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// looksAreCheap: a look takes about a microsecond, beside a flush of hundreds.
const looksAreCheap = true

// fileID is which file something is, whatever its name.
type fileID struct{ device, inode uint64 }

func (a fileID) is(b fileID) bool { return a == b }

// lookByStat says which file has a name, and its length in bytes. It opens nothing.
func lookByStat(path string) (fileID, int64, error) {
	var st syscall.Stat_t
	for {
		switch err := syscall.Stat(path, &st); err {
		case nil:
			return fileID{uint64(st.Dev), uint64(st.Ino)}, st.Size, nil
		case syscall.EINTR:
		default:
			return fileID{}, 0, err
		}
	}
}

// links is how many names a file has.
func links(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 1
}

// noSurprise makes open fail at a symbolic link, and not wait at a pipe.
const noSurprise = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// warnExposed logs who else may read or write the database, or put files beside
// it. It changes nothing: somebody may have given those rights on purpose.
// SQLite gives the log and its index the rights of the database.
func warnExposed(path string, log *slog.Logger) {
	if st, err := os.Stat(path); err == nil {
		may := map[fs.FileMode]string{0o004: "read", 0o002: "write", 0o006: "read and write"}[st.Mode()&0o006]
		if may != "" {
			log.Warn("every user of this machine may "+may+" the database, with all that is in its jobs; unless that is meant, take the right away with the command",
				"path", path, "mode", octal(st.Mode()), "command", fmt.Sprintf("chmod o-rwx %[1]s %[1]s-wal %[1]s-shm", path))
		}
	}
	dir := folder(path)
	if st, err := os.Stat(dir); err == nil && st.Mode()&0o002 != 0 {
		log.Warn("every user of this machine may put files into the folder of the database, and what lies there as its log or its lock is taken for it; keep the database in a folder of its own",
			"path", dir, "mode", octal(st.Mode()))
	}
}

// octal writes rights as chmod(1) takes them.
func octal(m fs.FileMode) string {
	bits := uint32(m.Perm())
	for mode, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&mode != 0 {
			bits |= bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// ownerBefore is the owner and the group of the store at path, or of its folder where there is none, if they are
// another's than root, who is asking: root makes files for the user whose server is to open them. Else ok is false.
func ownerBefore(path string) (uid, gid int, ok bool) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		st, err = os.Stat(folder(path))
	}
	if err != nil || os.Geteuid() != 0 {
		return 0, 0, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Uid == 0 {
		return 0, 0, false
	}
	return int(sys.Uid), int(sys.Gid), true
}

// giveLock gives a lock file that root has made to somebody, if nobody has put another file in its place.
func giveLock(l *flock.Flock, uid, gid int) error {
	f, err := os.OpenFile(l.Path(), os.O_RDWR|noSurprise, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || links(st) != 1 || !ours(l, l.Path()) {
		return err
	}
	return f.Chown(uid, gid)
}
