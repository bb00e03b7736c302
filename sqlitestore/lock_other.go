//go:build !linux

package sqlitestore

import (
	"io/fs"
	"os"
)

// lockDatabase does nothing here: there are no locks that go with an open file,
// and those of flock(2) or LockFileEx would conflict with SQLite's own. The lock file is
// left, and is made again when it is removed.
func lockDatabase(*os.File) (ok bool, err error) { return true, nil }

func lockedBy(fs.FileInfo) string { return "" }

// whoHolds names the other programs that hold the lock of the writer, or with
// reading that keep the log in use. This system does not show them.
func whoHolds(string, bool) string { return "" }
