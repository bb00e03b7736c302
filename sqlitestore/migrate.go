package sqlitestore

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
	sqlite3 "modernc.org/sqlite/lib"
)

// Whose a file is, and of which age, stands in its header.
const (
	applicationID = 0x4f555452 // "OUTR"
	version       = 6          // of schema.sql
)

// migrate checks whose the file is, and brings the schema of an older one up to date.
func migrate(conn driver.Conn, path string, log *slog.Logger) error {
	app, err := number(conn, "PRAGMA application_id")
	if err != nil {
		return err
	}
	v, err := number(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if err := judge(path, app, v); err != nil || v == version {
		return err
	}
	if err := upgrade(conn, path, v, log); err != nil {
		return err
	}
	log.Info("the database was migrated to this version's schema; an older version cannot open it any more", "path", path, "from", v, "to", version)
	return nil
}

// judge refuses a file whose header is not that of a store this program can use.
func judge(path string, app, v int64) error {
	switch {
	case app != applicationID:
		return job.Errorf(job.Unavailable, "%s is a SQLite database of another program (application_id %#x); choose another file, this one was not changed", path, app)
	case v > version:
		return job.Errorf(job.Unavailable, "%s has schema %d, this outrider knows %d; start a newer outrider or restore the backup from before the upgrade, the file was not changed", path, v, version)
	case v < oldest:
		return job.Errorf(job.Unavailable, "%s has schema %d, so it was written by a build of outrider from before the first release, this one reads schema %d to %d; start with a new file, this one was not changed", path, v, oldest, version)
	}
	return nil
}

// number is the one number that a statement answers.
func number(conn driver.Conn, query string) (int64, error) {
	v, err := one(conn, query)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}

// giveIdentity names the file, once: a number that no other store has.
const giveIdentity = `INSERT OR IGNORE INTO marks (name, value) VALUES ('identity', abs(random() % 9223372036854775807))`

// name reads the identity of this store, and gives it one if it has none.
func (s *Store) name() error {
	had, err := number(s.w.conn, `SELECT count(*) FROM marks WHERE name = 'identity'`)
	if err != nil {
		return err
	}
	s.fresh = had == 0
	if s.fresh {
		if err := script(s.w.conn, giveIdentity); err != nil {
			return fmt.Errorf("name the store: %w", err)
		}
	}
	s.identity, err = number(s.w.conn, `SELECT value FROM marks WHERE name = 'identity'`)
	return err
}

// The epochs are marks: "epoch", a number that rises, and what is random; the
// value is the Seq of the last event before.
const (
	epochMarks = `FROM marks WHERE name > 'epoch ' AND name < 'epoch!'`
	epochList  = `SELECT name, value ` + epochMarks + ` ORDER BY name`
	putEpoch   = `BEGIN IMMEDIATE;
INSERT INTO marks (name, value) SELECT printf('epoch %%012d %s', coalesce(max(CAST(substr(name, 7, 12) AS INTEGER)), 0) + 1), %d ` + epochMarks + `;
DELETE FROM marks WHERE name IN (SELECT name ` + epochMarks + ` ORDER BY name DESC LIMIT -1 OFFSET %d);
COMMIT`
)

// date begins a new epoch, on disk before anything is stored in it. Where the
// disk is full it is not stored, and later counts as an epoch that is not known: that
// errs on the safe side.
func (s *Store) date(log *slog.Logger) error {
	after, err := number(s.w.conn, lastEvent)
	if err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	now := job.Epoch{ID: hex.EncodeToString(id[:]), After: after}
	werr := script(s.w.conn, fmt.Sprintf(putEpoch, now.ID, now.After, job.MaxEpochs))
	if werr != nil {
		if code(werr) != sqlite3.SQLITE_FULL {
			return fmt.Errorf("note the opening of the store: %w", werr)
		}
		_ = script(s.w.conn, "ROLLBACK") // SQLite has done so by itself
		log.Warn("the disk is full and the database cannot be opened for writing; free some space and start again", "path", s.path)
	}
	if err := s.w.tx.each(epochList, func(v *row[any]) {
		name, after := v.str(), v.int()
		s.lineage = append(s.lineage, job.Epoch{ID: name[strings.LastIndexByte(name, ' ')+1:], After: after})
	}); err != nil {
		return fmt.Errorf("read the epochs: %w", err)
	}
	if werr != nil {
		s.lineage = append(s.lineage, now)
	}
	return nil
}

// Identity names this store and no other, from its making on. A copy of the file
// has the same; a file that is made anew has another.
func (s *Store) Identity() string { return fmt.Sprintf("%016x", s.identity) }

// Fresh reports whether this Open has made the store.
func (s *Store) Fresh() bool { return s.fresh }

// Lineage is how this file has come to be what it is: its openings, the newest
// 1000 of them, the last one is this. [job.Lineage.Holds] reports what an
// older copy does not have.
func (s *Store) Lineage() job.Lineage { return slices.Clone(s.lineage) }
