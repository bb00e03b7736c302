package sqlitestore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/gofrs/flock"

	"github.com/outrider-jobs/outrider/job"
)

// fileLock keeps every other outrider from a database file, by two locks. That of
// path.lock is there before the file is, and every version takes it. That of the
// database itself, where the system has such locks, holds whatever way leads to
// the file, and whatever became of path.lock. The kernel frees both when the
// process ends, however it ends.
type fileLock struct {
	path string // of the database
	lock *flock.Flock
	file *os.File // the database; nil until hold
	log  *slog.Logger
	lost bool // another had the lock file when it was last looked at
}

// take takes path for this process, if what lies there is a store or none yet. The
// lock comes first where it may be held: see lookedAt.
func take(path string, log *slog.Logger) (*fileLock, error) {
	if _, err := lookedAt(path); err != nil {
		return nil, err
	}
	c := &fileLock{path: path, log: log}
	_, locked := os.Lstat(path + ".lock")
	_, pending := os.Lstat(path + restoreSuffix)
	if locked == nil || pending == nil {
		var err error
		if c.lock, err = takeLock(path); err != nil {
			return nil, err
		}
	}
	err := c.finish()
	if err == nil {
		_, err = inspect(path)
	}
	if err == nil && c.lock == nil {
		c.lock, err = takeLock(path)
	}
	if err != nil {
		_ = c.free() // err is why we are here
		return nil, err
	}
	return c, nil
}

// finish finishes a restore that was cut off.
func (c *fileLock) finish() error {
	if c.lock == nil {
		return nil
	}
	kept, err := finishRestore(c.path)
	if kept != "" {
		c.log.Warn("a restore of the database was cut off and has been finished; what was there before was moved aside", "path", c.path, "kept", kept)
	}
	return err
}

// takeLock takes path.lock. The file stays for ever: removing it would let two
// processes lock two files of one name.
func takeLock(path string) (*flock.Flock, error) {
	name := path + ".lock"
	for range 100 { // somebody may remove it between its opening and its locking
		l := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR|noSurprise), flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		if err != nil {
			return nil, job.Errorf(job.Unavailable, "the lock file %s cannot be used; check its owner and rights: %w", name, err)
		}
		if !ok {
			return nil, inUse(path, writtenIn(name))
		}
		if err := planted(path); err != nil {
			_ = l.Unlock()
			return nil, err
		}
		if ours(l, name) {
			return l, nil
		}
		_ = l.Unlock() // it is nobody's
	}
	return nil, job.Errorf(job.Unavailable, "the lock file %s vanishes as often as it is made; find out who removes it", name)
}

// errHeld is the cause when another process has a lock.
var errHeld = errors.New("stop that one first, or give this one another file")

func inUse(path, holder string) error {
	if holder != "" {
		holder = " (process " + holder + ")"
	}
	return job.Errorf(job.Conflict, "%s is in use by another outrider%s; %w", path, holder, errHeld)
}

// ours reports whether the file of that name is still the one that was locked.
func ours(l *flock.Flock, name string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(there, locked)
}

// writtenIn is the process number that stands in the lock file.
func writtenIn(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|noSurprise, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 20)
	n, _ := f.Read(b)
	return strings.TrimSpace(string(b[:n]))
}

// hold locks the database itself, which must be there by now, and writes the
// number of this process where a second one finds it. SQLite must not have the
// file open yet, nor any more when the lock is freed: closing a descriptor of
// the file takes this process's own locks of SQLite away.
func (c *fileLock) hold() error {
	f, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("lock the database: %w", err)
	}
	c.file = f // which free closes
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock the database: %w", err)
	}
	switch ok, err := lockDatabase(f); {
	case err != nil:
		return job.Errorf(job.Unavailable, "the database %s cannot be locked; keep it on a local disk: %w", c.path, err)
	case !ok:
		return inUse(c.path, lockedBy(st))
	}
	if there, err := os.Stat(c.path); err != nil || !os.SameFile(there, st) {
		return job.Errorf(job.Unavailable, "%s was removed or replaced while it was opened; find out who does that, and start again", c.path)
	}
	c.sign()
	return nil
}

// sign writes the number of this process into the lock file. It is for people
// only; a lock without it holds just as well.
func (c *fileLock) sign() {
	f, err := os.OpenFile(c.path+".lock", os.O_WRONLY|noSurprise, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || links(st) > 1 {
		return
	}
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
}

// check looks whether path.lock is still what was locked, and creates it again
// where somebody has removed it: a server of an older version, or of a system on
// which the database cannot be locked, is kept out by nothing else. It fails only
// if another process has the lock file now and had it at the look before: a server that
// is refused the lock of the database holds it for a moment.
func (c *fileLock) check() error {
	name := c.path + ".lock"
	before := c.lost
	if c.lost = false; ours(c.lock, name) {
		return nil
	}
	next, err := takeLock(c.path)
	if errors.Is(err, errHeld) {
		if c.lost = true; !before {
			return nil
		}
		return job.Errorf(job.Unavailable, "the lock file %s was removed or replaced while this server ran, and another has it now: %w", name, err)
	}
	if err != nil {
		c.log.Debug("the lock file is gone and could not be created again", "path", name, "error", err) // it is tried every second
		return nil
	}
	_ = c.lock.Unlock() // it has no name any more
	c.lock = next
	c.sign()
	c.log.Warn("the lock file was removed while the server was running, and was created again; leave it in place, it keeps a second server from the database", "path", name)
	return nil
}

// free releases both locks. It comes last.
func (c *fileLock) free() error {
	var err error
	if c.file != nil {
		err = c.file.Close()
	}
	if c.lock != nil {
		err = errors.Join(err, c.lock.Unlock())
	}
	return err
}
