package sqlitestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is how many lines hold all of the words.
func (l *lines) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// checked opens a store and waits for the end of its check.
func checked(t *testing.T, path string) (*Store, string) {
	t.Helper()
	var told lines
	s, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.check != nil {
		<-s.check.ended
	}
	return s, told.String()
}

// A store that was not closed in order is checked beside the work; one that was, not.
func TestACheckAfterAnUncleanStop(t *testing.T) {
	path := killed(t, 5).put(t)
	s, told := checked(t, path)
	if s.Checked() != CheckPassed || s.Trouble() != nil || !strings.Contains(told, "was not closed cleanly") || !strings.Contains(told, "is intact") {
		t.Errorf("the check is %q, trouble %v, told was %s", s.Checked(), s.Trouble(), told)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, told = checked(t, path); s.Checked() != "" || told != "" {
		t.Errorf("after a clean stop the check is %q, told was %s", s.Checked(), told)
	}
}

// What the check finds is told once, and is the store's trouble.
func TestACheckThatFindsDamage(t *testing.T) {
	s := opened(t)
	for range 300 {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 300)) }); err != nil {
			t.Fatal(err)
		}
	}
	moveLog(t, s)
	// The log begins anew, so that the pages are in the file alone.
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.AddEvent(job.WorkerEvent(job.WorkerStarted, "w", time.Now())) }); err != nil {
		t.Fatal(err)
	}
	var root int
	if err := s.readers.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'jobs_claim'").Scan(&root); err != nil {
		t.Fatal(err)
	}
	f := readFiles(t, s.path)
	page := f[""][(root-1)*4096:][:4096]
	binary.BigEndian.PutUint32(page[8:], 1<<24) // the last child of an inner page, or the first cells of a leaf
	again, told := checked(t, f.put(t))
	if again.Checked() != CheckFailed || again.Trouble() == nil || !strings.Contains(again.Trouble().Error(), "restore a backup") {
		t.Errorf("the check is %q, trouble %v", again.Checked(), again.Trouble())
	}
	if strings.Count(told, "level=ERROR") != 1 || !strings.Contains(told, "table job_states") || !strings.Contains(told, "REINDEX") {
		t.Errorf("told was %s", told)
	}
}

// The check of a store that has failed ends at once: as long as it reads, what is
// only in the log cannot all be moved from there.
func TestACheckEndsWithItsStore(t *testing.T) {
	s := opened(t)
	if err := script(s.w.conn, "CREATE TABLE big AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 200000) SELECT i, hex(randomblob(50)) FROM n"); err != nil {
		t.Fatal(err)
	}
	var told troubles
	told.log = slog.New(slog.DiscardHandler)
	failed := make(chan struct{})
	c, err := startCheck(t.Context(), s.path, &told, failed)
	if err != nil {
		t.Fatal(err)
	}
	close(failed)
	<-c.ended
	if state := c.state.Load(); state != CheckRunning {
		t.Errorf("it went on to the end: %v", state)
	}
	if err := c.conn.Close(); err != nil {
		t.Error(err)
	}
}

// A store that is closed does not wait for its check.
func TestACheckIsInterrupted(t *testing.T) {
	s := opened(t)
	var told troubles
	told.log = slog.New(slog.DiscardHandler)
	c, err := startCheck(t.Context(), s.path, &told, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	from, err := newConnector(s.path, true)
	if err != nil {
		t.Fatal(err)
	}
	if c.conn, err = from.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	if _, err := c.column(ctx, "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"); err == nil || time.Since(began) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
