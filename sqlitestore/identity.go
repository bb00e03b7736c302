package sqlitestore

import "fmt"

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

// Identity names this store and no other, from its making on. A copy of the file
// has the same; a file that is made anew has another.
func (s *Store) Identity() string { return fmt.Sprintf("%016x", s.identity) }

// Fresh reports whether this Open has made the store.
func (s *Store) Fresh() bool { return s.fresh }
