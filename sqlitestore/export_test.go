package sqlitestore

import "time"

// Patient gives a heavy read a minute. An audit asks thousands of questions of one
// snapshot, and the race detector makes each ten times as slow.
func (s *Store) Patient() *Store {
	s.scans.most = time.Minute
	return s
}
