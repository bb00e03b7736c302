package sqlitestore

import (
	"os"

	"github.com/outrider-jobs/outrider/job"
)

// forReading follows a path to a store, and says how to open it for reading: a file that nobody has, and
// without a log, as one that does not change, so that none is made beside it. SQLite then takes no locks. Whoever has
// read it asks still whether that was true: what was read while a server began to work may be of two states.
func forReading(path string) (to, params string, still func() error, err error) {
	if path, err = follow(path); err != nil {
		return "", "", nil, err
	}
	if err := checkSource(path); err != nil {
		return "", "", nil, err
	}
	before, err := os.Stat(path)
	if err != nil {
		return "", "", nil, unreadableFile(path, err)
	}
	held, _, _ := isHeld(path)
	if log, err := os.Stat(path + "-wal"); held || err == nil && log.Size() > 0 {
		return path, whileWritten, func() error { return nil }, nil
	}
	return path, atRest, func() error {
		now, err := os.Stat(path)
		if err != nil || !os.SameFile(before, now) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) {
			return job.Errorf(job.Conflict, "%s was changed while it was read: a server has begun to work on it. What was read may be of two states; do it again from the beginning", path)
		}
		return nil
	}, nil
}
