//go:build !linux

package sqlitestore

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// isHeld reports whether a server has the database at path. It asks for the lock file for an
// instant: there is no other way here.
func isHeld(path string) (held bool, by string, err error) {
	if _, err := os.Stat(path); err != nil {
		return false, "", err
	}
	name := path + ".lock"
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return false, "", nil
	}
	l := flock.New(name, flock.SetFlag(os.O_RDWR|noSurprise))
	ok, err := l.TryRLock()
	if err != nil || ok {
		_ = l.Unlock()
		return false, "", nil
	}
	return true, writtenIn(name), nil
}

// gently does nothing here: a thread has no priority of its own.
func gently() {}

// writeOut flushes a file, so that no more of it is waiting when somebody else does.
func writeOut(f *os.File, _, _ int64) error { return f.Sync() }
