//go:build unix

package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// many3 makes a file of schema 3 with many jobs that have ended, waited or run, each
// with an event, and some that hold keys; its size is that of one which a server has left.
func many3(t *testing.T, jobs int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "many.db")
	conn := connected(t, path)
	defer conn.Close()
	run(t, conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	run(t, conn, fmt.Sprintf("BEGIN; %s; PRAGMA application_id = %d; PRAGMA user_version = 3", schema3, applicationID))
	run(t, conn, fmt.Sprintf(`
INSERT INTO jobs (id, type, queue, args, meta, priority, retry, max_attempts, uniq, custom_id, created_at, state, attempt, releases, seq, due_at,
  enqueued_at, started_at, finished_at, lease_token, lease_worker, lease_ms, lease_until, dead, result, error, told, fingerprint, holds)
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d), of3 AS (SELECT i, i %% 5 AS k FROM n)
SELECT printf('0197f6a0-%%04x-7000-8000-%%012x', i * 7919 & 65535, i), 'email.send', 'q' || i %% 3, '["' || hex(zeroblob(40 + i %% 160)) || '"]', iif(i %% 2, '{"a":1}', NULL), i %% 7, NULL, 3,
  iif(k = 4, '{"keys":["args"]}', NULL), iif(i %% 50 = 0, 'c' || i, NULL), 1800000000000 + i,
  CASE k WHEN 0 THEN 'completed' WHEN 1 THEN 'active' WHEN 2 THEN 'discarded' ELSE 'available' END,
  k IN (0, 1, 2), 0, i, CASE k WHEN 1 THEN 1800000060000 + i WHEN 0 THEN 1800000000000 + i END,
  1800000000000 + i, iif(k IN (0, 1, 2), 1800000001000 + i, NULL), iif(k IN (0, 2), 1800000002000 + i, NULL),
  CASE k WHEN 1 THEN iif(i %% 2, lower(hex(randomblob(16))), 'T' || i) END, iif(k = 1, 'w', NULL), iif(k = 1, 60000, NULL), iif(k = 1, 1800000060000 + i, NULL),
  k = 2, iif(k = 0, '{"ok":true}', NULL), iif(k = 2, '{"type":"E","message":"m"}', NULL), i, iif(k = 4, randomblob(32), NULL), iif(k = 4, 2, NULL)
FROM of3;
INSERT INTO events (first, at, lines) SELECT seq, created_at, printf('{"s":%%d,"t":"job.enqueued","at":%%d,"j":"%%s","jt":"email.send","q":"%%s"}', seq, created_at, id, queue) || char(10) FROM jobs;
INSERT INTO queues (name, paused, created_at, scheduled, available, pending, active, retryable, completed, cancelled, discarded, dead)
SELECT queue, 0, 1800000000000, 0, sum(state = 'available'), 0, sum(state = 'active'), 0, sum(state = 'completed'), 0, sum(state = 'discarded'), sum(dead) FROM jobs GROUP BY 1;
INSERT INTO marks VALUES ('seq', %[1]d), ('events', %[1]d);
`, jobs)+giveIdentity+"; COMMIT")
	run(t, conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	return path
}

// gist is what all jobs and events of a file come to, whichever schema they have; the
// first word is its schema.
func gist(t *testing.T, path string) string {
	t.Helper()
	conn := connected(t, path)
	defer conn.Close()
	v, err := number(conn, "PRAGMA user_version")
	if err != nil {
		t.Fatal(err)
	}
	lines := "packed"
	if v < 4 {
		lines = "lines"
	}
	if ok := strings1(t, conn, "PRAGMA quick_check"); len(ok) != 1 || ok[0] != "ok" {
		t.Errorf("%s: %v", path, ok)
	}
	all := strings1(t, conn, `SELECT printf('%d %d %d %d %d %d %d %d', count(*), sum(seq), sum(length(args) * seq), sum(priority * seq), total(due_at % 1000003 * (seq % 1009)), total(finished_at % 1000003 * (seq % 1009)),
  sum(iif(lease_token IS NULL, 0, seq)), sum(iif(fingerprint IS NULL, 0, length(fingerprint) * holds * seq))) || ' ' || state || max(id) || min(id) || coalesce(max(custom_id), '') || coalesce(max(iif(typeof(lease_token) = 'blob', lower(hex(lease_token)), lease_token)), '') FROM jobs GROUP BY state ORDER BY state`)
	all = append(all, strings1(t, conn, "SELECT printf('%d %d %d', count(*), sum(first), sum(length("+lines+") * (first % 1009))) FROM events")...)
	all = append(all, strings1(t, conn, "SELECT printf('%s %d %d %d %d', name, available, active, completed, dead) FROM queues ORDER BY name")...)
	return fmt.Sprint(v, "\n", strings.Join(all, "\n"))
}

// sameGist reports whether a file holds all of another, and which schema it has.
func sameGist(t *testing.T, what, path, want string) (schema string) {
	t.Helper()
	got := gist(t, path)
	schema, rest, _ := strings.Cut(got, "\n")
	if _, wanted, _ := strings.Cut(want, "\n"); rest != wanted {
		t.Errorf("%s: schema %s, got\n%s\nwant\n%s", what, schema, rest, wanted)
	}
	return schema
}

// copyTo copies a database and what of its log there is.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// takesOver is a process that takes a file over.
func takesOver(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTakeOverIsCutShort$", "-test.count", "1")
	cmd.Env = append(os.Environ(), "OUTRIDER_TAKE_OVER="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A takeover that is killed, or cut off by a loss of power, leaves a file that is
// wholly of the one schema or wholly of the other, and the next start goes on.
// OUTRIDER_TAKEOVERS says how many times, with 120,000 jobs each; 2 with 25,000 by itself.
func TestTakeOverIsCutShort(t *testing.T) {
	if path := os.Getenv("OUTRIDER_TAKE_OVER"); path != "" {
		s, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		return
	}
	times, cuts, jobs := askedFor(t, "OUTRIDER_TAKEOVERS", 2), 1, 25_000
	if os.Getenv("OUTRIDER_TAKEOVERS") != "" {
		cuts, jobs = 3, 120_000
	}
	old := many3(t, jobs)
	want := gist(t, old)
	before := contents(t, old)

	calm := filepath.Join(t.TempDir(), "o.db")
	copyTo(t, old, calm)
	began := time.Now()
	cmd := takesOver(t, calm)
	largest := func() (sum int64) {
		for _, suffix := range []string{"", "-wal"} {
			if st, err := os.Stat(calm + suffix); err == nil {
				sum += st.Size()
			}
		}
		return sum
	}
	ended, peak := make(chan error, 1), int64(0)
	go func() { ended <- cmd.Wait() }()
	for over := false; !over; {
		select {
		case err := <-ended:
			if over = true; err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Millisecond):
			peak = max(peak, largest())
		}
	}
	whole := time.Since(began)
	if sameGist(t, "undisturbed", calm, want) != "6" {
		t.Error("it was not taken over")
	}
	if more := peak - int64(len(before)); more > 2*int64(len(before)) {
		t.Errorf("it took %d bytes more than the %d that were there: roomFor asks for twice as many", more, len(before))
	}
	t.Logf("%d jobs, %d bytes, taken over in %v; at most %d bytes more on the way", jobs, len(before), whole, peak-int64(len(before)))

	found := map[string]int{}
	for n := range times {
		path := filepath.Join(t.TempDir(), "o.db")
		copyTo(t, old, path)
		cmd := takesOver(t, path)
		at := rand.N(whole)
		if n%2 == 1 { // where it is committed and moved into the file
			at = rand.N(whole / 5)
			for began := time.Now(); time.Since(began) < 10*whole && bytes.Equal(frontOf(t, path), before[:100]); {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(at)
		_ = cmd.Process.Signal(syscall.SIGSTOP) // so that the files are of one moment
		for k := range cuts {
			lost := filepath.Join(t.TempDir(), "lost.db")
			how := losePower(t, path, lost, before)
			found["power cut, "+goesOn(t, fmt.Sprintf("cut %d of power after %v, %s", k, at, how), lost, want)]++
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		found["kill, "+goesOn(t, fmt.Sprintf("killed after %v", at), path, want)]++
	}
	t.Logf("what was left: %v", found)
}

// frontOf is the header of a database, which is the first page that is moved.
func frontOf(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 100)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// losePower copies the files as they may be on a disk that has lost its power: of what
// was not flushed, any part may be missing. Until something of the log is in the
// database that is the log, and from then on it is the database.
func losePower(t *testing.T, from, to string, before []byte) string {
	t.Helper()
	copyTo(t, from, to)
	db, log := contents(t, to), []byte{}
	if b, err := os.ReadFile(to + "-wal"); err == nil {
		log = b
	}
	write := func(path string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const page = 4096
	switch {
	case len(log) == 0:
		return "with nothing in the log"
	case !bytes.Equal(db, before) && len(log) < 1<<20: // all was moved and flushed, and the log begun anew
		cut := rand.IntN(len(log) + 1)
		write(to+"-wal", log[:cut])
		return fmt.Sprintf("the new log cut to %d bytes", cut)
	case bytes.Equal(db, before):
		cut := rand.IntN(len(log) + 1)
		log = log[:cut]
		holes := rand.IntN(3)
		for range holes { // pages that never were written are zeros, and in a log that was used before, old ones
			if at := rand.IntN(len(log)/page+1) * page; at < len(log) {
				clear(log[at:min(len(log), at+page)])
			}
		}
		write(to+"-wal", log)
		return fmt.Sprintf("the log cut to %d bytes with %d holes", cut, holes)
	}
	lost := 0
	for at := 0; at < len(db); at += page {
		if rand.IntN(2) == 0 {
			continue
		}
		end := min(at+page, len(db))
		if old := before[min(at, len(before)):min(end, len(before))]; len(old) < end-at {
			clear(db[at:end])
		} else {
			copy(db[at:end], old)
		}
		lost++
	}
	write(to, db)
	return fmt.Sprintf("%d pages of the database not written", lost)
}

// goesOn checks that a file is whole, and that the next start makes it one of this
// schema; it says what it was.
func goesOn(t *testing.T, what, path, want string) string {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "looked at.db") // to look writes
	copyTo(t, path, aside)
	was := sameGist(t, what, aside, want)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Errorf("%s: the next start: %v", what, err)
		return "no start"
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if sameGist(t, what+", and started again", path, want) != "6" {
		t.Errorf("%s: the next start has not taken it over", what)
	}
	for _, p := range []string{aside, path} {
		_ = os.Remove(p)
	}
	return "schema " + was
}

// Too little room is told before anything is changed, and found out on the way changes
// nothing either.
func TestTakeOverNeedsRoom(t *testing.T) {
	path := many3(t, 3000)
	want, before := gist(t, path), contents(t, path)
	spaceFor = func(string) (uint64, uint64, error) { return uint64(len(before)), 1 << 40, nil }
	defer func() { spaceFor = space }()
	var told bytes.Buffer
	_, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&told, nil))})
	for _, part := range []string{path, "to schema 6 takes", "MB are free: free some and start again. Nothing was changed"} {
		if err == nil || job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q", err, part)
		}
	}
	if !bytes.Equal(contents(t, path), before) || told.Len() > 0 {
		t.Errorf("the file was changed, or it was told %q", told.String())
	}
	spaceFor = func(string) (uint64, uint64, error) { return 0, 0, errors.New("not known") } // what does not fit undoes all
	for _, more := range []int{1, 10, 100, 300} {
		conn := connected(t, path)
		pages, err := number(conn, "PRAGMA page_count")
		if err != nil {
			t.Fatal(err)
		}
		run(t, conn, fmt.Sprintf("PRAGMA max_page_count = %d", int(pages)+more))
		err = upgrade(conn, path, 3, slog.New(slog.DiscardHandler))
		if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "so it was left as it was; free space on its disk if that is full") {
			t.Errorf("%d pages more: %v", more, err)
		}
		_ = conn.Close()
		if sameGist(t, "on a full disk", path, want) != "3" {
			t.Error("it has another schema")
		}
	}
	if goesOn(t, "with room", path, want) != "schema 3" {
		t.Error("it was not left as it was")
	}
}

// What cannot be the job of a store is named, and all of the file is left.
func TestTakeOverOfADamagedFile(t *testing.T) {
	for name, tt := range map[string]struct {
		harm string
		want []string
	}{
		"one place twice":    {"UPDATE jobs SET seq = 7 WHERE seq = 2900", []string{"have both the place 7", "0197f6a0-d889-7000-8000-000000000007"}},
		"an id that is none": {"UPDATE jobs SET id = 'x' || substr(id, 2) WHERE seq = 2900", []string{"the id of the job", "x197f6a0-"}},
		"an id cut short":    {"UPDATE jobs SET id = substr(id, 1, 20) WHERE seq = 2900", []string{"the id of the job"}},
		"two ids of one":     {"UPDATE jobs SET id = (SELECT replace(id, '-', '') FROM jobs WHERE seq = 7) WHERE seq = 2900", []string{"the id of the job"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := many3(t, 3000)
			conn := connected(t, path)
			run(t, conn, tt.harm+"; PRAGMA wal_checkpoint(TRUNCATE)")
			_ = conn.Close()
			want := gist(t, path)
			_, err := Open(t.Context(), path, Options{})
			for _, part := range append(tt.want, "so it was left as it was", "damaged", path) {
				if err == nil || job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q", err, part)
				}
			}
			if sameGist(t, "left", path, want) != "3" {
				t.Error("it has another schema")
			}
		})
	}
}

// A mark that is behind the jobs, of a file that was damaged once, gives no job the
// number of another.
func TestTakeOverOfAMarkThatIsBehind(t *testing.T) {
	path := many3(t, 300)
	conn := connected(t, path)
	run(t, conn, "UPDATE marks SET value = 250 WHERE name = 'seq'; PRAGMA wal_checkpoint(TRUNCATE)")
	_ = conn.Close()
	s, err := Open(t.Context(), path, Options{alone: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 60 {
		j := storetest.New(t, "q", nil)
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
	}
	if n, err := number(s.w.conn, "SELECT count(*) FROM job_bodies"); n != 360 || err != nil {
		t.Errorf("%d jobs, %v", n, err)
	}
}
