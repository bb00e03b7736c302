package sqlitestore

import (
	"errors"
	"io/fs"

	"github.com/outrider-jobs/outrider/job"
)

// place is the three files of a running store as they were opened. SQLite keeps
// using the files it has open whatever becomes of their names, and what is written to a
// file without a name is lost with this process.
//
// They are only looked at, never opened: closing a descriptor of the database or
// of the -shm would take away the locks that SQLite holds on them for this process.
type place struct {
	db, log, index held
}

// held is a file that the store has open.
type held struct {
	path string
	id   fileID
}

// hold notes the files of the store at path; they are all there once its first
// connection has read.
func hold(path string) (p place, err error) {
	for suffix, h := range map[string]*held{"": &p.db, "-wal": &p.log, "-shm": &p.index} {
		h.path = path + suffix
		if h.id, _, err = lookAt(h.path); err != nil {
			return p, err
		}
	}
	return p, nil
}

// state is what has become of a file.
type state int

const (
	there    state = iota
	removed        // nothing has its name
	replaced       // another file has its name
)

// look compares what has the file's name now with what was opened, and returns
// its length. If the folder cannot be read, nothing is known to be wrong.
func (h held) look() (state, int64) {
	id, size, err := lookAt(h.path)
	switch {
	case err == nil && id.is(h.id):
		return there, size
	case err == nil:
		return replaced, size
	case errors.Is(err, fs.ErrNotExist):
		return removed, 0
	}
	return there, -1
}

// loss is what has become of the place of a store, as far as it matters for what
// can still be saved.
type loss struct {
	db, log, index state
	cut            bool // the log is shorter than what it held
}

// lost looks at all three files. length is that of the log, negative when unknown.
func (p place) lost() (l loss, length int64, any bool) {
	l.db, _ = p.db.look()
	l.log, length = p.log.look()
	l.index, _ = p.index.look()
	return l, length, l != loss{}
}

// lossError is the error of a loss, for the operator and the callers.
func (p place) lossError(l loss) error {
	const end = "was removed or replaced while it was in use; nothing more is written or acknowledged and the server ends"
	switch {
	case l.db == replaced:
		return job.Errorf(job.Unavailable, "%s %s; what its log still held is moved into the file that was there before, so that it is never applied to the new one: start the server to work on with the file that is there now, or put the old one back first", p.db.path, end)
	case l.db == removed:
		return job.Errorf(job.Unavailable, "%s %s; put the file back beside its log %s, which belongs to it and is left as it is, or restore a backup and move that log away", p.db.path, end, p.log.path)
	case l.cut:
		return job.Errorf(job.Unavailable, "%s was cut while it was in use; nothing more is written or acknowledged and the server ends; jobs that were only in it are lost, so keep a copy of the files and restore a backup if there is one, or start again with what %s holds", p.log.path, p.db.path)
	case l.log != there:
		return job.Errorf(job.Unavailable, "%s %s; what it held is moved into %s first, so start the server again when that has been told, and see to it that nothing removes the file of a running server", p.log.path, end, p.db.path)
	}
	return job.Errorf(job.Unavailable, "%s %s; nothing is lost, as the log holds all: start the server again, and see to it that nothing removes the files of a running server", p.index.path, end)
}
