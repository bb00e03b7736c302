package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// filled makes a store of so many jobs through a sidecar, in all states.
func filled(t *testing.T, db string, many int) {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := sidecar.New(store, sidecar.Options{})
	words := []string{"plain", "Grüße", "日本語", "line\nbreak", "\u2028", "tab\t\"quoted\"", "🚲", `{"$text":1}`}
	for done := 0; done < many; {
		es := make([]job.Envelope, min(500, many-done))
		for k := range es {
			n := done + k
			es[k] = job.Envelope{Type: []string{"email.send", "report.make"}[n%2], Queue: fmt.Sprint("q", n%5), Args: fmt.Appendf(nil, "[ %d,%q , {\"$hex\": \"00\"}]", n, words[n%len(words)]),
				Meta: fmt.Appendf(nil, `{"tenant": "t%d", "w":%q}`, n%7, words[(n+1)%len(words)])}
			switch n % 11 {
			case 0:
				es[k].Delay = time.Hour
			case 1:
				es[k].Hold = true
			case 2:
				es[k].Unique = json.RawMessage(`{"keys":["args"]}`)
			case 3:
				es[k].Args = json.RawMessage("[\n1,\r\n 2.50 ]")
			}
		}
		if _, err := s.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		done += len(es)
		work(t, s, len(es)/2)
	}
	storetest.Audit(t, store)
}

// work fetches jobs and ends some of them in each way.
func work(t *testing.T, s *sidecar.Sidecar, many int) {
	t.Helper()
	for many > 0 {
		jobs, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{"q0", "q1", "q2"}, Count: 50, Visibility: time.Hour, Worker: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			return
		}
		many -= len(jobs)
		for n, j := range jobs {
			c := job.Claim{ID: j.ID, Token: j.Lease.Token}
			switch n % 6 {
			case 0:
				_, err = s.Fail(t.Context(), c, job.Failure{Type: "net.x", Message: "näh\nno", Backtrace: []string{"a", "b"}})
			case 1:
				_, err = s.Fail(t.Context(), c, job.Failure{Type: "net.x", Message: "no", Code: "DEAD_LETTER"})
			case 2:
				_, err = s.Cancel(t.Context(), j.ID, "somebody", "")
			case 3: // its worker keeps it
			case 4:
				_, err = s.Ack(t.Context(), c, json.RawMessage("null"))
			default:
				_, err = s.Ack(t.Context(), c, json.RawMessage("{\"sent\":\n true}"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// linesOf are the lines of an archive behind the first, which says when it was made and of which store.
func linesOf(t *testing.T, archive string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(b, []byte("\n"))[1:]
}

// exports the store of db, and fails unless that works.
func exportOf(t *testing.T, db, archive string, flags ...string) {
	t.Helper()
	if o := try(t, nil, append([]string{"export", archive, "--db", db}, flags...)...); o.code != exitOK {
		t.Fatalf("export: %+v", o)
	}
}

func sameArchives(t *testing.T, a, b string) {
	t.Helper()
	first, second := linesOf(t, a), linesOf(t, b)
	if len(first) != len(second) {
		t.Fatalf("%s has %d lines and %s %d", a, len(first), b, len(second))
	}
	for n := range first {
		if !bytes.Equal(first[n], second[n]) {
			t.Fatalf("line %d was\n%s\nand is\n%s", n+2, first[n], second[n])
		}
	}
}

// An import that is killed again and again stores each job, with its history, once: the store then exports what was imported.
// OUTRIDER_ARCHIVE says how many jobs there are.
func TestAnImportIsKilled(t *testing.T) {
	t.Parallel()
	many := fromEnv(t, "OUTRIDER_ARCHIVE", 5000)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
	archive, again := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "b.ndjson")
	filled(t, from, many)
	began := time.Now()
	exportOf(t, from, archive)
	t.Logf("%d jobs exported in %v", many, time.Since(began))
	if st, err := os.Stat(archive); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("an archive is %v, %v; want 0600", st.Mode(), err)
	}
	began = time.Now()
	for kills := 4; ; kills-- {
		p := startProcess(t, "import", archive, "--db", to)
		if kills > 0 {
			rest(t, 30*time.Millisecond+time.Duration(rand.IntN(30+many/40))*time.Millisecond)
			_ = p.Process.Kill()
		}
		said := p.stdout.ch
		code := p.end(t, 10*time.Minute)
		for line := range said {
			t.Log(line)
		}
		if code == exitOK {
			break
		}
		if kills == 0 {
			t.Fatalf("the last import ends with %d", code)
		}
	}
	t.Logf("imported, with kills, in %v", time.Since(began))
	if o := try(t, nil, "db", "verify", to); o.code != exitOK {
		t.Errorf("verify: %+v", o)
	}
	exportOf(t, to, again)
	sameArchives(t, archive, again)
	if o := try(t, nil, "import", archive, "--db", to); o.code != exitOK || !strings.Contains(o.stdout, "imported before") {
		t.Errorf("once more: %+v", o)
	}
}

// An export that was cut anywhere goes on behind its last whole line.
func TestAnExportIsCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, archive := filepath.Join(dir, "o.db"), filepath.Join(dir, "a.ndjson")
	filled(t, db, 600)
	exportOf(t, db, archive)
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if o := try(t, nil, "export", archive, "--db", db); o.code != exitConflict {
		t.Errorf("over an archive: %+v", o)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for range 25 {
		cut := filepath.Join(dir, fmt.Sprint(rand.Int64(), ".ndjson"))
		at := first + rand.IntN(len(whole)-first)
		if err := os.WriteFile(cut, whole[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		exportOf(t, db, cut, "--resume")
		if got, _ := os.ReadFile(cut); !bytes.Equal(got, whole) {
			t.Fatalf("cut at %d of %d, gone on with it is another archive", at, len(whole))
		}
		to := cut + ".db"
		if err := os.WriteFile(cut, whole[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		if o := try(t, nil, "import", cut, "--db", to); o.code != exitFailed || !strings.Contains(o.stderr, "cut off") {
			t.Fatalf("an archive that was cut: %+v", o)
		}
		if o := try(t, nil, "import", archive, "--db", to); o.code != exitOK {
			t.Fatalf("the whole of it then: %+v", o)
		}
		exportOf(t, to, cut, "--overwrite")
		sameArchives(t, archive, cut)
	}
}

// A bad line is named, with the reason, and changes nothing.
func TestABadLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, archive, bad := filepath.Join(dir, "o.db"), filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "bad.ndjson")
	filled(t, db, 40)
	exportOf(t, db, archive)
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(whole, []byte("\n"))
	at := 0
	for !bytes.HasPrefix(lines[at], []byte(`{"job"`)) {
		at++
	}
	change := func(old, with string) string { return strings.Replace(string(lines[at]), old, with, 1) }
	for name, tt := range map[string]struct{ line, says string }{
		"no JSON":        {`{"job":{"n":1,}}`, "it is not JSON"},
		"no kind":        {`[1]`, "none of an archive"},
		"another kind":   {`{"jobs":{}}`, `there is no "jobs"`},
		"another column": {change(`"n":`, `"colour":1,"n":`), `a job has no "colour"`},
		"no such state":  {change(`"state":"`, `"state":"un`), "is no state"},
		"no UUID":        {change(`"id":"`, `"id":"X`), "is no UUID"},
		"no queue":       {change(`"queue"`, `"lane"`), "it is no job"},
		"a wrong number": {change(`"priority":`, `"priority":"x","x":`), ""},
		"twice":          {change(`"n":`, `"n":1,"n":`), "given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			now := append([][]byte{}, lines...)
			now[at] = []byte(tt.line)
			if err := os.WriteFile(bad, bytes.Join(now, []byte("\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "to.db")
			o := try(t, nil, "import", bad, "--db", to)
			if o.code != exitFailed || !strings.Contains(o.stderr, fmt.Sprintf("line %d: ", at+1)) || !strings.Contains(o.stderr, tt.says) {
				t.Errorf("%+v, want line %d and %q", o, at+1, tt.says)
			}
			if got := len(inStore(t, to)); got != 0 {
				t.Errorf("%d jobs were stored", got)
			}
		})
	}
	for name, tt := range map[string]struct{ text, says string }{
		"empty":       {"", "no whole line"},
		"no archive":  {"{\"a\":1}\n", "not written by outrider export"},
		"a newer one": {strings.Replace(string(whole), `"outrider_export":1`, `"outrider_export":2`, 1), "newer outrider"},
		"a lost line": {string(bytes.Join(append(append([][]byte{}, lines[:at]...), lines[at+1:]...), []byte("\n"))), "lines are missing"},
		"more at end": {string(whole) + `{"queue":{}}` + "\n", "behind the end"},
	} {
		t.Run(name, func(t *testing.T) {
			if o := tryWith(t, tt.text, nil, "import", "--db", filepath.Join(t.TempDir(), "to.db")); o.code != exitFailed || !strings.Contains(o.stderr, tt.says) {
				t.Errorf("%+v, want %q", o, tt.says)
			}
		})
	}
}

// Into a store that holds jobs come those that it does not have; what is there stays, and both histories are whole.
func TestAnImportBesideOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, archive := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "a.ndjson")
	filled(t, a, 300)
	filled(t, b, 200)
	exportOf(t, a, archive)
	histories := historiesOf(t, a)
	before := historiesOf(t, b)
	o := try(t, nil, "import", archive, "--db", b)
	if o.code != exitOK && o.code != exitConflict {
		t.Fatalf("%+v", o)
	}
	got := historiesOf(t, b)
	refused := 0
	for id, was := range histories {
		switch got[id] {
		case was:
		case "":
			if refused++; !strings.Contains(o.stderr, "unique key") {
				t.Errorf("job %s is missing, and nothing was said: %+v", id, o)
			}
		default:
			t.Errorf("the history of %s was %s and is %s", id, was, got[id])
		}
	}
	for id, was := range before {
		if got[id] != was {
			t.Errorf("the history of %s, which was there, was %s and is %s", id, was, got[id])
		}
	}
	if o := try(t, nil, "db", "verify", b); o.code != exitOK {
		t.Errorf("verify: %+v", o)
	}
	// Another archive of the same jobs: all of them are there.
	again := filepath.Join(dir, "again.ndjson")
	exportOf(t, a, again)
	if o := try(t, nil, "import", again, "--db", b); !strings.Contains(o.stdout, fmt.Sprintf("their ids are there already: %d jobs", len(histories)-refused)) {
		t.Errorf("%+v, want %d that were there", o, len(histories)-refused)
	}
	if now := historiesOf(t, b); fmt.Sprint(now) != fmt.Sprint(got) {
		t.Error("an import of what is there has changed something")
	}
}

// historiesOf are the states and the events of all jobs of a store.
func historiesOf(t *testing.T, db string) map[job.ID]string {
	t.Helper()
	all := map[job.ID]string{}
	jobs := inStore(t, db)
	s, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.View(t.Context(), func(tx job.ReadTx) error {
		for id, j := range jobs {
			events, err := tx.History(id)
			if err != nil {
				return err
			}
			text := string(j.AppendJSON(nil, job.View{}))
			for _, e := range events {
				text += fmt.Sprintf(" %s %d %s", e.Type, e.Time.UnixMilli(), e.Data)
			}
			all[id] = text
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Filters choose jobs with their events and queues, and nothing else.
func TestExportOfSome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, to := filepath.Join(dir, "o.db"), filepath.Join(dir, "to.db")
	filled(t, db, 400)
	all := inStore(t, db)
	for name, tt := range map[string]struct {
		flags []string
		wants func(*job.Job) bool
	}{
		"state": {[]string{"--state", "completed,cancelled"}, func(j *job.Job) bool { return j.State == job.Completed || j.State == job.Cancelled }},
		"queue": {[]string{"--queue", "q1", "--queue", "q3"}, func(j *job.Job) bool { return j.Queue == "q1" || j.Queue == "q3" }},
		"type":  {[]string{"--type", "email.*", "--queue", "q2"}, func(j *job.Job) bool { return j.Type == "email.send" && j.Queue == "q2" }},
		"since": {[]string{"--since", "24h", "--state", "discarded"}, func(j *job.Job) bool { return j.State == job.Discarded }},
	} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(dir, name+".ndjson")
			exportOf(t, db, archive, tt.flags...)
			db := to + name
			if o := try(t, nil, "import", archive, "--db", db); o.code != exitOK {
				t.Fatalf("%+v", o)
			}
			want := map[job.ID]bool{}
			for id, j := range all {
				if tt.wants(j) {
					want[id] = true
				}
			}
			got := historiesOf(t, db)
			for id, text := range got {
				if !want[id] || !strings.Contains(text, "job.") {
					t.Errorf("%s is in it: %s", id, text)
				}
			}
			if len(got) != len(want) || len(want) == 0 {
				t.Errorf("%d jobs are in it, want %d", len(got), len(want))
			}
			if o := try(t, nil, "db", "verify", db); o.code != exitOK {
				t.Errorf("verify: %+v", o)
			}
		})
	}
}
