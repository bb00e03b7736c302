package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// variedArchive are the lines of an archive with workflows, a limit, a schedule and jobs in all states.
func variedArchive(t *testing.T, dir string) []string {
	t.Helper()
	db, archive := filepath.Join(dir, "o.db"), filepath.Join(dir, "a.ndjson")
	filled(t, db, 60)
	store, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := sidecar.New(store, sidecar.Options{})
	e := job.Envelope{Type: "r.l", Args: json.RawMessage("[]"), RateLimit: json.RawMessage(`{"key":"k","concurrency":1}`)}
	if _, err := s.Enqueue(t.Context(), e, e); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.StartWorkflow(t.Context(), job.Chain("w", job.Do("a", e), job.Do("b", e))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.PutCron(t.Context(), job.CronSpec{Name: "c", Expression: "* * * * *", Template: json.RawMessage(`{"type":"a.b","args":[]}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w2"}}); err != nil {
		t.Fatal(err)
	}
	exportOf(t, db, archive)
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// An archive that was changed by hand makes no store that is damaged, or that a server cannot read: its line is refused.
func TestAChangedArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := variedArchive(t, dir)
	const huge = "9223372036854775807"
	for n, tt := range []struct{ line, with, member, value, says string }{
		{"outrider_export", "", "last_job", huge, "last_job and last_event"},
		{"outrider_export", "", "last_event", huge, "last_job and last_event"},
		{"outrider_export", "", "last_event", "-1", "last_job and last_event"},
		{"job", `"state":"available"`, "n", huge, "at most"},
		{"job", `"state":"available"`, "seq", huge, "at most"},
		{"job", "", "told", huge, "at most"},
		{"job", "", "told", "-1", "it is no job"},
		{"job", "", "told", "5000", ""}, // what is missing may have been removed long ago
		{"job", "", "behind", "7", "behind must be"},
		{"job", "", "args", `{"$text":"{"}`, "is no JSON"},
		{"job", `"state":"active"`, "state", `"available"`, "lease_token"},
		{"job", `"state":"completed"`, "state", `"active"`, "lease_token"},
		{"limit", "", "active", "-1", "it is no limit"},
		{"limit", "", "pace", `"x"`, "it is no limit"},
		{"worker", "", "info", "[]", "it is no worker"},
		{"workflow", "", "nodes", "7", "its steps"},
		{"workflow", "", "nodes", "2", "its steps"},
		{"step", `"idx":1`, "idx", "9", ""},
		{"step", `"idx":1`, "flow", `"01900000-0000-7000-8000-000000000001"`, "its steps"},
		{"step", `"idx":0`, "size", "90000000000", "it is no step"},
		{"events", "", "seq", huge, "event 1 of it"},
	} {
		name := fmt.Sprint(tt.line, " ", tt.member, " ", tt.value)
		t.Run(name, func(t *testing.T) {
			now := bytes.Buffer{}
			changed := false
			for _, line := range lines {
				if !changed && strings.HasPrefix(line, `{"`+tt.line+`"`) && strings.Contains(line, tt.with) {
					at := strings.Index(line, `"`+tt.member+`":`)
					if at < 0 {
						continue
					}
					var old json.RawMessage
					at += len(tt.member) + 3
					if err := json.NewDecoder(strings.NewReader(line[at:])).Decode(&old); err != nil {
						t.Fatal(err)
					}
					line, changed = line[:at]+tt.value+line[at+len(old):], true
				}
				now.WriteString(line + "\n")
			}
			if !changed {
				t.Fatalf("no %s with %s has a %s", tt.line, tt.with, tt.member)
			}
			to := filepath.Join(dir, fmt.Sprint(n, ".db"))
			o := tryWith(t, now.String(), nil, "import", "--db", to)
			if (o.code == exitOK) != (tt.says == "") || !strings.Contains(o.stderr, tt.says) {
				t.Errorf("%+v, want %q", o, tt.says)
			}
			if _, err := os.Stat(to); err != nil {
				return
			}
			if o := try(t, nil, "db", "verify", to); o.code != exitOK {
				t.Errorf("verify: %+v", o)
			}
		})
	}
}

// Two jobs that wait do not get one place, whichever of them comes first.
func TestAPlaceIsGivenOnce(t *testing.T) {
	t.Parallel()
	job := func(n, seq int) string {
		return fmt.Sprintf(`{"job":{"n":%d,"state":"available","queue":"q","priority":0,"seq":%d,"attempt":0,"releases":0,"told":0,"dead":0,"created_at":1,"behind":0,"id":"01900000-0000-7000-8000-%012d","type":"a","max_attempts":1,"args":[]}}`+"\n", n, seq, n)
	}
	for name, tt := range map[string]struct {
		jobs string
		good bool
	}{
		"their own": {job(1, 1) + job(2, 2), true},
		"back":      {job(1, 3) + job(2, 4), true},
		"ahead":     {job(1, 2) + job(2, 2), false},
		"behind":    {job(1, 1) + job(2, 1), false},
		"both back": {job(1, 5) + job(2, 5), false},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "to.db")
			o := tryWith(t, `{"outrider_export":1,"schema":6,"store":"x","jobs":2,"last_job":9,"last_event":0}`+"\n"+tt.jobs+`{"end":{"jobs":2,"events":0}}`+"\n", nil, "import", "--db", to)
			if (o.code == exitOK) != tt.good || !tt.good && !strings.Contains(o.stderr, "has its place") {
				t.Errorf("%+v", o)
			}
			if o := try(t, nil, "db", "verify", to); o.code != exitOK {
				t.Errorf("verify: %+v", o)
			}
		})
	}
}

// An import that has failed at its first lines goes on when the archive is mended, also where a server has stored jobs meanwhile.
func TestAServerWorksBetweenTwoImports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := variedArchive(t, dir)
	to := filepath.Join(dir, "to.db")
	bad := strings.Join(lines[:3], "\n") + "\nno line\n"
	if o := tryWith(t, bad, nil, "import", "--db", to); o.code != exitFailed {
		t.Fatalf("a bad line: %+v", o)
	}
	filled(t, to, 50)
	before := len(inStore(t, to))
	o := tryWith(t, strings.Join(lines, "\n")+"\n", nil, "import", "--db", to)
	if o.code != exitOK && o.code != exitConflict {
		t.Fatalf("the mended archive: %+v", o)
	}
	if got := len(inStore(t, to)); got < before+50 {
		t.Errorf("%d jobs, and there were %d", got, before)
	}
	if o := try(t, nil, "db", "verify", to); o.code != exitOK {
		t.Errorf("verify: %+v", o)
	}
}
