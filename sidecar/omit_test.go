package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

const secret = "SECRETFRAME"

// traced is a failure with a backtrace in every place where SDKs put one.
func traced() job.Failure {
	return job.Failure{Type: "E", Message: "no", Backtrace: []string{secret + " one", "two " + secret},
		Extra:   json.RawMessage(`{"cause":[{"stackTrace":"` + secret + `"}]}`),
		Details: json.RawMessage(`{"kept":1,"stacktrace":"` + secret + `","st\u0061ck":["` + secret + `"],"details":{"backtrace":"` + secret + `"},"a\"b":2}`)}
}

// fileHolds reports whether the database, or its log, has the secret in it.
func fileHolds(t *testing.T, path string) bool {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	found := false
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(raw, []byte(secret))
	}
	return found
}

func omitter(t *testing.T, path string, b Backtraces) *Sidecar {
	t.Helper()
	store, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	now := genesis
	return New(store, Options{Backtraces: b, Now: func() time.Time { now = now.Add(time.Second); return now }})
}

// lives fails one job in each way that records errors, and returns its last answers.
func lives(t *testing.T, s *Sidecar) (answers []*job.Job) {
	t.Helper()
	take := func(visibility time.Duration) *job.Job {
		jobs, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Visibility: visibility})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0]
	}
	rs, err := s.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`),
		Retry: json.RawMessage(`{"max_attempts":3,"initial_interval_ms":1,"max_interval_ms":1,"on_exhaustion":"dead_letter"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		j := take(0)
		failed, err := s.Fail(t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, traced())
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, j, failed)
		s.Recover(t.Context())
	}
	read, err := s.Job(t.Context(), rs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Jobs(t.Context(), job.Filter{Dead: true})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	return append(answers, read, page.Jobs[0])
}

// ojs-core.md §14.2: no byte of a backtrace is on disk or in an answer.
func TestBacktracesAreOmitted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	for _, j := range lives(t, omitter(t, path, OmitBacktraces)) {
		if text := j.AppendJSON(nil, job.View{ToHolder: true}); bytes.Contains(text, []byte(secret)) {
			t.Errorf("an answer: %s", text)
		}
	}
	if fileHolds(t, path) {
		t.Error("a backtrace is in the file")
	}
}

// By default they are kept; a server that omits does not show those stored before.
func TestBacktracesAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	s := omitter(t, path, "")
	as := lives(t, s)
	last := as[len(as)-1]
	if n := bytes.Count(last.Errors, []byte(secret)); n != 18 || !fileHolds(t, path) {
		t.Errorf("%d of 18 in %s", n, last.Errors)
	}
	s.o.Backtraces = OmitBacktraces
	page, err := s.Jobs(t.Context(), job.Filter{Dead: true})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	one, err := s.Job(t.Context(), last.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range []*job.Job{page.Jobs[0], one} {
		want := `"details":{"kept":1,"details":{},"a\"b":2}`
		if bytes.Contains(j.AppendJSON(nil, job.View{}), []byte(secret)) || bytes.Count(j.Errors, []byte(want)) != 3 || !bytes.Contains(j.Error, []byte(want)) {
			t.Errorf("%s\n%s", j.Error, j.Errors)
		}
	}
}
