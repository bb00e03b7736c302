//go:build !race

package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Another program reads the database for a long time, so the write-ahead log cannot
// be moved into it and grows: the server says so, and who it is, before the disk is full.
func TestALogThatGrowsIsTold(t *testing.T) {
	t.Parallel()
	s := watchedAt(t, tempDB(t))
	if got := s.push(t, 10); got != 201 {
		t.Fatalf("push: %d", got)
	}
	conn := foreign(t, s.db)
	run1(t, conn, "BEGIN")
	var n int
	if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM jobs").Scan(&n); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if got := s.push(t, 1_000_000); got != 201 {
			t.Fatalf("push: %d", got)
		}
	}
	s.becomes(t, 503)
	run1(t, conn, "ROLLBACK")
	for deadline := time.Now().Add(30 * time.Second); s.get(t, "/ojs/v1/health") != 200 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got := s.push(t, 10); got != 201 {
			t.Fatalf("push: %d", got)
		}
	}
	s.told(t, fmt.Sprintf("process %d (outrider.test)", os.Getpid()), "the log of the database is small again")
}
