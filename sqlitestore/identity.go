package sqlitestore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/job"
)

// giveIdentity names the file, once: a number that no other store has.
const giveIdentity = `INSERT OR IGNORE INTO marks (name, value) VALUES ('identity', abs(random() % 9223372036854775807))`

// name reads who this store is, and whether it was not anybody before.
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
// disk is full it is remembered by nobody, which counts later as a store of
// another age: that errs on the safe side.
func (s *Store) date(log *slog.Logger) error {
	after, err := number(s.w.conn, `SELECT coalesce(max(value), 0) FROM marks WHERE name = 'events'`)
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
	var marks []struct {
		Name  string
		Value int64
	}
	if err := s.w.unprepared.Select(&marks, epochList); err != nil {
		return fmt.Errorf("read the epochs: %w", err)
	}
	for _, m := range marks {
		s.lineage = append(s.lineage, job.Epoch{ID: m.Name[strings.LastIndexByte(m.Name, ' ')+1:], After: m.Value})
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
// 1000 of them, the last one is this. What a store of an older copy does not
// have is told by [job.Lineage.Holds].
func (s *Store) Lineage() job.Lineage { return slices.Clone(s.lineage) }
