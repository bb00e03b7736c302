package sidecar

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// Jobs and events are stored by the methods of turn, and the store is written to by
// update: what must happen with each of them, and after it, has one place.
func TestOneWayToStoreAJob(t *testing.T) {
	t.Parallel()
	banned := []string{"Update", "InsertJob", "InsertJobs", "InsertFirst", "UpdateJob", "RewriteJob", "DeleteJob", "AddEvent"}
	found := map[string]int{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(banned, s.Sel.Name) {
				if found[s.Sel.Name]++; name != "save.go" {
					t.Errorf("%s calls %s: store jobs and events by way of turn, in save.go", name, s.Sel.Name)
				}
			}
			return true
		})
	}
	for _, name := range banned {
		if found[name] != 1 {
			t.Errorf("%s is called in %d places, want one", name, found[name])
		}
	}
}

// Jobs that wait for one another in a circle, as a file of an older schema may hold
// them, are let go when one of them ends, and nothing goes round for ever.
func TestJobsThatWaitInACircle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	change := func(do func(*job.Job) error, ids ...job.ID) {
		t.Helper()
		if err := w.update(t.Context(), func(t *turn) (err error) {
			for _, id := range ids {
				j, rerr := t.Job(id)
				if err = errors.Join(err, rerr); err == nil {
					err = errors.Join(do(j), t.rewrite(j))
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	stand := func(id, behind job.ID) { change(func(j *job.Job) error { j.After = behind; return nil }, id) }
	cancel := func(ids ...job.ID) { change(func(j *job.Job) error { return j.Cancel(w.time(), "", "") }, ids...) }
	circle := func(n int) []job.ID {
		ids := make([]job.ID, n)
		for i := range ids {
			ids[i] = w.push(func(e *job.Envelope) { e.Hold = true }).ID
		}
		for i, id := range ids {
			stand(id, ids[(i+1)%n])
		}
		return ids
	}
	two := circle(2)
	cancel(two[0])
	w.is("the other of two", two[1], job.Available)
	three := circle(3)
	cancel(three[0], three[1])
	w.is("the third", three[2], job.Available)
	cancel(circle(1)...)
	ends, outside := circle(2), w.push(func(e *job.Envelope) { e.Hold = true }).ID
	stand(outside, ends[0])
	cancel(ends...)
	w.is("one behind a circle", outside, job.Available)
	behind := circle(4)
	first, err := w.Cancel(t.Context(), behind[1], "", "")
	if err != nil || first.State != job.Cancelled {
		t.Fatal(first, err)
	}
	w.is("one of four", behind[0], job.Pending)
	cancel(behind[2], behind[3])
	w.is("the last of four", behind[0], job.Available)
}
