package sqlitestore

import (
	"errors"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/job"
)

// translate makes a *job.Error of an error of SQLite, by its result code and
// never by its text. Errors that are the project's own pass as they are.
func translate(doing string, err error) error {
	return translateEnd(doing, "nothing was changed, free some and the server goes on by itself", err)
}

// translateEnd is translate for what ends with the error: an open that fails, or a
// close. then is what to do where the disk is full.
func translateEnd(doing, then string, err error) error {
	var mine *job.Error
	if err == nil || errors.As(err, &mine) {
		return err
	}
	if extended(err) == sqlite3.SQLITE_IOERR_SHMSIZE { // the first file that a full disk refuses
		return outOfSpace(doing, "free some and start again", err)
	}
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return outOfSpace(doing, then, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return job.Errorf(job.Unavailable, "%s: another program holds the database; end it, nothing but outrider may write to this file: %w", doing, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return job.Errorf(job.Unavailable, "%s: the database cannot be written; check the owner and the rights of the file and its folder: %w", doing, err)
	case sqlite3.SQLITE_IOERR:
		return job.Errorf(job.Unavailable, "%s: the disk failed; nothing of this call was acknowledged: %w", doing, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return job.Errorf(job.Unavailable, "%s: the database is damaged; stop the server, keep a copy of the file and restore a backup: %w", doing, err)
	}
	return job.Errorf(job.Internal, "%s: %w", doing, err)
}

func outOfSpace(doing, then string, err error) error {
	return job.Errorf(job.Unavailable, "%s: there is no space left for the database; %s: %w", doing, then, err)
}

// outward takes the paths of the store out of what callers of other processes see of
// an error. The operator still sees them.
func (s *Store) outward(err error) error {
	var mine *job.Error
	if !errors.As(err, &mine) || !strings.Contains(mine.Message, s.path) {
		return err
	}
	public := *mine
	public.Public = s.unnamed(mine.Outside())
	return &public
}

// unnamed is text with what the files of the store are instead of their names.
func (s *Store) unnamed(text string) string {
	var pairs []string
	for _, f := range [...]struct{ end, is string }{{"-wal", "its log"}, {"-shm", "the index of its log"}, {".lock", "its lock"}, {"", "the database"}} {
		for _, before := range [...]string{f.is + " ", strings.TrimPrefix(f.is, "its ") + " ", "the lock file ", ""} {
			pairs = append(pairs, before+s.path+f.end, f.is)
		}
	}
	if dir := filepath.Dir(s.path); len(dir) > 1 { // not "." and not "/"
		pairs = append(pairs, dir, "its folder")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// extended is SQLite's whole result code, 0 for an error of another origin.
func extended(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// code is SQLite's primary result code, 0 for an error of another origin.
func code(err error) int {
	return extended(err) & 0xff
}

// rolledBack reports whether SQLite ends the whole transaction by itself on such an error.
func rolledBack(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_FULL || c == sqlite3.SQLITE_NOMEM
}

// fatal reports whether after err no write can be trusted any more: after a failed
// flush the system's cache and the disk may differ, and
// trying again would only seem to work.
func fatal(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_IOERR || c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB
}
