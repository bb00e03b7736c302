package sqlitestore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/job"
)

// DamageError refuses a store from which acknowledged jobs are lost, or that is no
// database. It wraps a [job.Error] of the kind Unavailable, which says what is
// damaged, where, and what to do. Nothing was changed.
type DamageError struct {
	Err        error
	Acceptable bool // Options.AcceptDamage would copy the files aside, and go on without what is lost
}

// Error describes the damage to the operator.
func (e *DamageError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the project's own kind.
func (e *DamageError) Unwrap() error { return e.Err }

func damagef(format string, args ...any) error {
	return &DamageError{Err: job.Errorf(job.Unavailable, format, args...)}
}

// asDamage makes a DamageError of what SQLite calls corrupt.
func asDamage(path string, err error) error {
	var already *DamageError
	if c := code(err); c != sqlite3.SQLITE_CORRUPT && c != sqlite3.SQLITE_NOTADB || errors.As(err, &already) {
		return err
	}
	return damagef("%w; the files are %s, and %s-wal and %s-shm where they are there", err, path, path, path)
}

// examine looks for damage to the files of a store before SQLite has them, while
// the caller holds the lock and nobody else has them open. Damage that is accepted
// is logged, and the files are copied aside.
func examine(path string, o Options) (survey, error) {
	page, whole, err := databasePage(path)
	if err != nil {
		return survey{}, unreadableFile(path, err)
	}
	found, err := surveyLog(path, page)
	if err != nil {
		return found, unreadableFile(found.path, err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return found, unreadableFile(path, err)
	}
	if found.committed == 0 && !found.damaged() && st.Size() < whole {
		found.why = fmt.Sprintf("it has %d bytes of %d, and the rest is not in its log", st.Size(), whole)
		found.path, found.at = path, st.Size()
	}
	if found.damaged() {
		return found, found.judge(path, o)
	}
	if o.AcceptDamage {
		o.Log.Warn("damage is accepted and none was found: accept no longer, or the next is passed over, too", "path", path)
	}
	if found.frames == 0 {
		return found, nil
	}
	// See the third proof of damage.
	if err := flush(found.path, os.O_RDWR); err != nil {
		return found, job.Errorf(job.Unavailable, "the log %s cannot be flushed to the disk; look at the disk, and start again: %w", found.path, err)
	}
	if found.index.known && found.index.moved > 0 {
		if err := forgetMoved(path + "-shm"); err != nil {
			return found, job.Errorf(job.Unavailable, "the index %s-shm of the log cannot be written; check the owner and the rights of the file: %w", path, err)
		}
	}
	return found, nil
}

func unreadableFile(path string, err error) error {
	return job.Errorf(job.Unavailable, "%s cannot be read; check its owner and rights, and the disk: %w", path, err)
}

// judge refuses a store that is damaged, or keeps copies of its files and goes on
// where the operator has accepted that.
func (s *survey) judge(path string, o Options) error {
	if !o.AcceptDamage {
		return &DamageError{Acceptable: true, Err: job.Errorf(job.Unavailable,
			"%s. Nothing was changed. Keep copies of %s, %s-wal and %s-shm; then put a backup in their place, or accept the damage, which copies them aside first and goes on without what is lost", s.message(), path, path, path)}
	}
	kept, err := keep(path, time.Now())
	if err != nil {
		return damagef("%s, and could not be copied aside, so it is not gone on with; make room beside %s, or copy its files elsewhere and restore a backup: %w", s.message(), path, err)
	}
	// SQLite makes the index anew. A log of which the file has more than what can be
	// taken from it would put old pages over new ones.
	gone := []string{path + "-shm"}
	if s.index.known && s.index.moved > 0 && s.index.moved >= s.committed {
		gone = append(gone, path+"-wal")
	}
	if err := removeAll(gone...); err != nil {
		return job.Errorf(job.Unavailable, "%v cannot be removed, which is damaged; check the rights of its folder: %w", gone, err)
	}
	o.Log.Warn(s.message()+". It was accepted, and the server goes on without", "kept", kept)
	return nil
}

// message says what is damaged, where, and how much is lost.
func (s *survey) message() string {
	if s.lost == 0 {
		return fmt.Sprintf("the database %s is damaged: %s", s.path, s.why)
	}
	return fmt.Sprintf("the log %s is damaged at byte %d of %d: %s; lost are %d pages of %d or more transactions that were acknowledged",
		s.path, s.at, s.size, s.why, s.lost, max(s.commits, 1))
}

// keep copies the files of a store aside, readable by their owner alone, and returns
// the name of the copy. They can be opened by that name like the store itself.
func keep(path string, now time.Time) (string, error) {
	to := path + ".damaged-" + now.UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := keepFile(path+suffix, to+suffix); err != nil {
			return "", err
		}
	}
	return to, nil
}

// keepFile copies one file and flushes the copy. One that is not there needs none.
func keepFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return cmp.Or(err, out.Close())
}
