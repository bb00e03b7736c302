package sqlitestore

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

//go:embed testdata/schema2.sql
var schema2 string

// runsOf2 fills a store with runs of a schedule as schema 2 had them: what they
// wait for is in their meta. By name: two that run, and who waits for what.
func runsOf2(t *testing.T, s *Store) map[string]job.ID {
	t.Helper()
	ids := map[string]job.ID{}
	add := func(name, after string, at time.Time, ask, then func(*job.Job)) {
		j := storetest.New(t, "q", func(j *job.Job) {
			j.Meta = json.RawMessage(`{"n":1}`)
			if after != "" {
				j.Hold, j.Meta = true, after2(ids[after], at)
			}
			if ask != nil {
				ask(j)
			}
		})
		if then != nil {
			then(j)
		}
		if j.State == job.Pending && after != "" && j.DueAt.IsZero() {
			j.DueAt = job.Forever
		}
		ids[name] = j.ID
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
			t.Fatal(err)
		}
	}
	cancel := func(j *job.Job) {
		if err := j.Cancel(storetest.Now, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	done := func(j *job.Job) {
		if err := lives[job.Completed](j); err != nil {
			t.Fatal(err)
		}
	}
	now := storetest.Now
	expires := func(j *job.Job) { j.ExpiresAt = now.Add(time.Hour); j.DueAt = j.ExpiresAt }
	add("runs", "", now, nil, nil)
	add("ended", "", now, nil, done)
	add("waits", "runs", now, nil, nil)
	add("stopped", "waits", now, nil, cancel)
	add("behind the stopped", "stopped", now, nil, nil)
	add("expires", "runs", now, nil, expires)
	add("free", "ended", now, nil, nil)
	add("delayed", "ended", now, func(j *job.Job) { j.Delay = time.Hour }, nil)
	add("expires before its time", "ended", now, func(j *job.Job) { j.Delay = 2 * time.Hour }, expires)
	for name, states := range map[string]string{"keyed while pending": `"pending"`, "keyed while scheduled": `"pending","scheduled"`} {
		add(name, "ended", now, func(j *job.Job) {
			j.Type, j.Delay = "keyed", 3*time.Hour
			j.Unique = json.RawMessage(`{"keys":["type","args"],"states":[` + states + `]}`)
			j.Args = json.RawMessage(`["` + name + `"]`)
		}, nil)
	}
	add("of a client", "runs", now.Add(time.Second), nil, nil)
	// Meta that somebody wrote by hand: jobs that wait for themselves, or in a circle.
	var later job.ID
	add("itself", "runs", now, nil, func(j *job.Job) { expires(j); j.Meta = after2(j.ID, now) })
	add("stopped first", "runs", now, nil, func(j *job.Job) { later = storetest.New(t, "q", nil).ID; j.Meta = after2(later, now); cancel(j) })
	add("stopped second", "stopped first", now, nil, func(j *job.Job) { j.ID = later; cancel(j) })
	add("behind a circle", "stopped second", now, nil, nil)
	return ids
}

// after2 is the meta of a run of schema 2 that was made at an instant and had to wait.
func after2(other job.ID, at time.Time) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"cron_after":%q,"cron_triggered_at":%q,"n":1}`, other, job.FormatTime(at)))
}

// A file of schema 2 is taken over: its runs that wait are behind those that they
// wait for, and one whose predecessor had ended already goes on.
func TestUpgradeOfRunsThatWait(t *testing.T) {
	s := opened(t)
	ids := runsOf2(t, s)
	path := ofAge(t, s, schema2, 2, "jobs", "queues", "workers", "events", "marks", "crons")
	old, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got, want := shape(t, old.w.conn), shape(t, s.w.conn); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	now := storetest.Now
	for name, want := range map[string]struct {
		state job.State
		after string
		due   time.Time
	}{
		"waits": {job.Pending, "runs", time.Time{}}, "behind the stopped": {job.Pending, "waits", time.Time{}},
		"expires": {job.Pending, "runs", now.Add(time.Hour)}, "stopped": {job.Cancelled, "", now},
		"free": {job.Scheduled, "", now}, "delayed": {job.Scheduled, "", now.Add(time.Hour)},
		"expires before its time": {job.Scheduled, "", now.Add(time.Hour)}, "itself": {job.Pending, "", now.Add(time.Hour)},
		"keyed while pending": {job.Scheduled, "", now.Add(3 * time.Hour)}, "keyed while scheduled": {job.Scheduled, "", now.Add(3 * time.Hour)},
		"behind a circle": {job.Scheduled, "", now},
	} {
		if err := old.Update(t.Context(), func(tx job.Tx) error {
			j, err := tx.Job(ids[name])
			if held := name == "keyed while scheduled"; err == nil && held != (j.Holds != 0) {
				t.Errorf("%q holds its key in %v", name, j.Holds.List())
			}
			if err == nil && (j.State != want.state || j.After != ids[want.after] || !j.DueAt.Equal(want.due)) {
				t.Errorf("%q is %s after %s, due at %s; want %+v", name, j.State, j.After, j.DueAt, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Update(t.Context(), func(tx job.Tx) error {
		waiting, err := tx.Waiting(ids["runs"])
		if len(waiting) != 2 {
			t.Errorf("%d wait for the one that runs, want 2", len(waiting))
		}
		free, derr := tx.Due(job.Scheduled, now, 9)
		if err != nil || derr != nil || len(free) != 2 || free[0].ID != ids["free"] {
			t.Fatalf("%v is due, %v, %v", free, err, derr)
		}
		if err := free[0].Ready(now); err != nil {
			return err
		}
		return tx.UpdateJob(free[0])
	}); err != nil {
		t.Fatal(err)
	}
	if err := old.Update(t.Context(), func(tx job.Tx) error { // its due_at is that of the older store
		return tx.DeleteJob(ids["of a client"])
	}); err != nil {
		t.Fatal(err)
	}
	storetest.Audit(t, old)
}
