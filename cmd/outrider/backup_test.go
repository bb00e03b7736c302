//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// answered is what a server had answered at an instant.
type answered struct {
	pushed  map[job.ID]job.Envelope
	ended   map[job.ID]*job.Job
	batches [][]job.Envelope
}

func (l *ledger) now() answered {
	l.mu.Lock()
	defer l.mu.Unlock()
	return answered{maps.Clone(l.pushed), maps.Clone(l.ended), l.batches}
}

// underLoad starts a server that four callers push to and three work for until stop.
func underLoad(t *testing.T, db string) (l *ledger, stop func()) {
	t.Helper()
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
	go p.stderr.rest() // a log that nobody reads stops the test at its end
	s, err := client.New(readyURL(t, p.stdout), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l = newLedger(1 << 30)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() { l.produce(ctx, s, n) })
	}
	for range 3 {
		wg.Go(func() { l.work(ctx, s) })
	}
	return l, sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		_ = p.Process.Signal(syscall.SIGTERM)
		if code := p.end(t, 20*time.Second); code != exitOK {
			t.Errorf("the server that was backed up ends with %d", code)
		}
	})
}

// inStore reads the jobs of a store, and audits it.
func inStore(t *testing.T, path string) map[job.ID]*job.Job {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Audit(t, s)
	all := map[job.ID]*job.Job{}
	f := job.Filter{Limit: 1000}
	for more := true; more; {
		if err := s.View(t.Context(), func(tx job.ReadTx) error {
			page, err := tx.Jobs(f)
			for _, j := range page.Jobs {
				all[j.ID] = j
			}
			f.Cursor, more = page.Next, page.Next != ""
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// holds checks a store against what was answered before it was copied.
func (a answered) holds(t *testing.T, copied map[job.ID]*job.Job, batches [][]job.Envelope) {
	t.Helper()
	for id := range a.pushed {
		if copied[id] == nil {
			t.Errorf("job %s was acknowledged before the backup began and is not in it", id)
		}
	}
	for id, as := range a.ended {
		if j := copied[id]; j != nil && j.State != as.State {
			t.Errorf("job %s was %s before the backup began and is %s in it", id, as.State, j.State)
		}
	}
	for _, batch := range batches {
		n := 0
		for _, e := range batch {
			if copied[e.ID] != nil {
				n++
			}
		}
		if n != 0 && n != len(batch) {
			t.Errorf("of the %d jobs of one request the backup holds %d", len(batch), n)
		}
	}
}

// Backups that are taken beside a server at work hold what it had answered, whole requests alone, and can be restored; the
// server works on as if nothing were. OUTRIDER_BACKUPS says how many.
func TestBackupsUnderLoad(t *testing.T) {
	t.Parallel()
	many := fromEnv(t, "OUTRIDER_BACKUPS", 3)
	dir := t.TempDir()
	db := filepath.Join(dir, "o.db")
	l, stop := underLoad(t, db)
	defer stop()
	type taken struct {
		path   string
		before answered
	}
	var all []taken
	for n := range many {
		rest(t, 150*time.Millisecond)
		b := taken{filepath.Join(dir, "b", strings.Repeat("x", n+1)+".db"), l.now()}
		if err := os.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, "db", "backup", b.path, "--db", db)
		said := p.stdout.until(t, "backup: ")
		if code := p.end(t, time.Minute); code != exitOK || !strings.Contains(said, "integrity ok: "+b.path) {
			t.Fatalf("backup %d: exit %d, %q", n, code, said)
		}
		if st, err := os.Stat(b.path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("backup %d is %v, %v; want 0600", n, st.Mode(), err)
		}
		all = append(all, b)
		if len(all) == 10 || n == many-1 { // so that many do not fill the disk
			batches := l.now().batches
			for _, b := range all {
				to := b.path + ".restored"
				if o := try(t, nil, "db", "restore", b.path, "--db", to); o.code != exitOK {
					t.Fatalf("restore: %+v", o)
				}
				b.before.holds(t, inStore(t, to), batches)
				_ = os.Remove(to)
				_ = os.Remove(b.path)
			}
			all = nil
		}
	}
	stop()
	if o := try(t, nil, "db", "verify", db); o.code != exitOK {
		t.Errorf("the store that was backed up: %+v", o)
	}
	end := l.now()
	end.holds(t, inStore(t, db), end.batches)
	if len(end.pushed) < 50 {
		t.Errorf("there were %d jobs alone", len(end.pushed))
	}
}

// rest waits: the load goes on meanwhile.
func rest(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// A backup that is killed leaves nothing under its name; the next one takes away what it left under another.
func TestABackupIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, copied := filepath.Join(dir, "o.db"), filepath.Join(dir, "copy.db")
	enqueueInto(t, db, 100, 30_000)
	l, stop := underLoad(t, db)
	defer stop()
	for range 4 {
		_ = os.Remove(copied + ".part") // of the one before: what the last one leaves is for the next backup
		p := startProcess(t, "db", "backup", copied, "--db", db, "--rate", "200KB")
		for end := time.Now().Add(20 * time.Second); ; {
			if st, err := os.Stat(copied + ".part"); err == nil && st.Size() > 0 || time.Now().After(end) {
				break
			}
			rest(t, time.Millisecond)
		}
		rest(t, time.Duration(rand.IntN(40))*time.Millisecond)
		if o := try(t, nil, "db", "backup", copied, "--db", db); o.code != exitConflict || !strings.Contains(o.stderr, "another process is writing") {
			t.Errorf("a second one meanwhile: %+v", o)
		}
		_ = p.Process.Kill()
		p.end(t, 10*time.Second)
		if _, err := os.Stat(copied); err == nil {
			t.Fatal("a backup that was killed stands under its name")
		}
	}
	before := l.now()
	if o := try(t, nil, "db", "backup", copied, "--db", db); o.code != exitOK {
		t.Fatalf("the next one: %+v", o)
	}
	before.holds(t, inStore(t, copied), nil)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part*")); len(left) > 0 {
		t.Errorf("%v were left", left)
	}
}

// A restore that is killed at any moment leaves the store as it was, or as the backup is, and what was there.
func TestARestoreIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	was, backup := filepath.Join(dir, "was.db"), filepath.Join(dir, "backup.db")
	enqueueInto(t, was, 3, 10)
	if o := try(t, nil, "db", "backup", was, "--db", was); o.code != exitConflict {
		t.Fatalf("%+v", o)
	}
	if o := try(t, nil, "db", "backup", backup, "--db", was); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	enqueueInto(t, was, 2, 10)
	for n := range fromEnv(t, "OUTRIDER_RESTORES", 8) {
		db := filepath.Join(dir, "o", strings.Repeat("x", n+1)+".db")
		if n == 0 && try(t, nil, "db", "restore", was, "--db", db).code == exitOK {
			t.Fatal("a restore makes a folder")
		}
		if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
			t.Fatal(err)
		}
		if o := try(t, nil, "db", "restore", was, "--db", db); o.code != exitOK {
			t.Fatalf("%+v", o)
		}
		p := startProcess(t, "db", "restore", backup, "--db", db, "--replace")
		rest(t, time.Duration(rand.IntN(60))*time.Millisecond)
		_ = p.Process.Kill()
		killed := p.end(t, 10*time.Second) != exitOK
		got := len(inStore(t, db))
		kept, _ := filepath.Glob(db + ".replaced-*Z")
		switch {
		case got == 5 && killed && len(kept) == 0:
		case got == 3 && len(kept) == 1 && len(inStore(t, kept[0])) == 5:
		default:
			t.Errorf("killed is %v: the store holds %d jobs, and %v was kept", killed, got, kept)
		}
	}
}

// enqueueInto stores jobs of so many bytes without a server.
func enqueueInto(t *testing.T, db string, jobs, size int) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range jobs {
		if err := s.Update(t.Context(), func(tx job.Tx) error {
			return tx.InsertJob(storetest.New(t, "q", func(j *job.Job) { j.Args = fmt.Appendf(nil, "[%q]", strings.Repeat("x", size)) }))
		}); err != nil {
			t.Fatal(err)
		}
	}
}
