package sqlitestore

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// The numbers of the reasons are in files, and those of a later outrider are read as something.
func TestRunsAreReadFromAnyVersion(t *testing.T) {
	at, id := storetest.Now, storetest.New(t, "q", nil).ID
	for kind, reason := range map[byte]string{0: "", 1: "overlap", 2: "dst_skip", 3: "duplicate", 4: "rejected", 5: "clock", 6: "elsewhere", 7: "", 8: "other", 200: "other", 255: "other"} {
		b, _ := runsAs([]job.CronRun{{At: at, JobID: id}, {At: at.Add(time.Second)}}).([]byte)
		if len(b) != 2*runSize {
			t.Fatalf("%d bytes", len(b))
		}
		b[0] = kind
		want := []job.CronRun{{At: at, JobID: id, Skipped: reason}, {At: at.Add(time.Second)}}
		if kind == 7 { // a workflow
			want[0].JobID, want[0].FlowID = "", id
		}
		for range 2 { // also after it was written again
			got := runsFrom(append(b, 1, 2, 3))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("kind %d: %v, want %v", kind, got, want)
			}
			b, _ = runsAs(got).([]byte)
		}
	}
	if got := runsFrom([]byte{0}); got != nil {
		t.Errorf("less than a run: %v", got)
	}
}

// A restart finds every schedule as it was.
func TestSchedulesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	off := false
	c := storetest.NewCron("c", func(c *job.Cron) {
		c.Enabled, c.AheadAt, c.LastRunAt, c.LastJob = &off, storetest.Now, storetest.Now, storetest.New(t, "q", nil).ID
		for range job.MaxCronRuns + 1 {
			c.Note(job.CronRun{At: storetest.Now, Skipped: job.SkippedDST})
		}
	})
	for n := range 3 {
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx job.Tx) error {
			if n == 0 {
				return tx.PutCron(c)
			}
			got, err := tx.Cron("c")
			if err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("opened for the %d. time: %+v, %v; want %+v", n+1, got, err, c)
			}
			was := c.SeenAt
			c = c.Clone()
			c.SeenAt = c.SeenAt.Add(time.Minute)
			if ok, err := tx.StepCron(c, was); !ok {
				t.Errorf("step: %v", err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A schedule keeps its row when it is stored again, and a step does not write
// the pages of a long template.
func TestAStepWritesLittle(t *testing.T) {
	s := opened(t)
	c := storetest.NewCron("long", func(c *job.Cron) {
		c.Template = json.RawMessage(`{"type":"a","args":["` + strings.Repeat("x", 200_000) + `"]}`)
		c.LastRunAt, c.LastJob = storetest.Now, storetest.New(t, "q", nil).ID
		for range job.MaxCronRuns {
			c.Note(job.CronRun{At: storetest.Now, JobID: c.LastJob})
		}
	})
	for _, d := range []*job.Cron{storetest.NewCron("first", nil), c, storetest.NewCron("first", nil), c} {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.PutCron(d) }); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := number(s.w.conn, "SELECT n FROM crons WHERE name = 'long'"); n != 2 || err != nil {
		t.Errorf("row %d, %v", n, err)
	}
	if err := script(s.w.conn, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	was := c.SeenAt
	c.SeenAt, c.NextRunAt = was.Add(time.Minute), c.NextRunAt.Add(time.Minute)
	c.Note(job.CronRun{At: c.SeenAt, Skipped: job.SkippedOverlap})
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		if ok, err := tx.StepCron(c, was); !ok || err != nil {
			t.Errorf("step: %v, %v", ok, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(s.path + "-wal"); err != nil || st.Size() > 4*4200 {
		t.Errorf("a step wrote %d bytes, %v", st.Size(), err)
	}
}

// A claim of a call that fails is undone with it, before the next call of the group looks.
func TestAClaimIsUndoneInItsGroup(t *testing.T) {
	s := opened(t)
	c := storetest.NewCron("c", nil)
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.PutCron(c) }); err != nil {
		t.Fatal(err)
	}
	claims, calls := map[string]bool{}, []*call{}
	for i, name := range []string{"failing", "behind", "last"} {
		calls = append(calls, &call{ctx: t.Context(), done: make(chan error, 1), fn: func(tx job.Tx) (err error) {
			d := c.Clone()
			d.SeenAt, d.RunCount = c.NextRunAt, int64(i)
			if claims[name], err = tx.StepCron(d, c.SeenAt); name == "failing" {
				return job.Errorf(job.Conflict, "it does not work out")
			}
			return err
		}})
	}
	if n, err := inOneGroup(s.w, calls); n != 3 || err != nil || job.KindOf(calls[0].err) != job.Conflict {
		t.Fatalf("commit: %d, %v, %v", n, err, calls[0].err)
	}
	if !claims["failing"] || !claims["behind"] || claims["last"] {
		t.Errorf("claims %v", claims)
	}
	if n, err := number(s.w.conn, "SELECT run_count FROM crons"); n != 1 || err != nil {
		t.Errorf("stored that of call %d, %v", n, err)
	}
}

// A schedule that cannot be read hides no other: the list holds them beside an
// Unavailable that names it.
func TestUnreadableScheduleHidesNoOther(t *testing.T) {
	s := opened(t)
	if err := s.Update(t.Context(), func(tx job.Tx) (err error) {
		for _, name := range []string{"a", "b", "c", "d"} {
			err = errors.Join(err, tx.PutCron(storetest.NewCron(name, nil)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	run(t, s.w.conn, "UPDATE crons SET template = '{' WHERE name IN ('b', 'd')")
	var names []string
	err := s.View(t.Context(), func(tx job.ReadTx) error {
		all, err := tx.Crons()
		for _, c := range all {
			names = append(names, c.Name)
		}
		return err
	})
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), `"d"`) {
		t.Errorf("got %v, want an Unavailable that names b and d", err)
	}
	if !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("read %q, want a and c", names)
	}
	run(t, s.w.conn, "UPDATE crons SET template = '{'")
	if err := s.View(t.Context(), func(tx job.ReadTx) error {
		all, err := tx.Crons()
		if all == nil || len(all) != 0 {
			t.Errorf("where none can be read: %v, want none, and not nil", all)
		}
		return err
	}); err == nil {
		t.Error("and no error")
	}
}
