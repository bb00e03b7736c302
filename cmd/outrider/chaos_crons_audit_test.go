//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// cronBook is what the file of a server that has stopped tells of its schedules.
type cronBook struct {
	crons []*job.Cron
	jobs  map[string][]*job.Job  // made by ticks, by schedule
	told  map[string][]cronEvent // by schedule, in the order of their ticks
	byID  map[job.ID]*job.Job    // those of ticks
}

// cronEvent is an event of a schedule. One of cron.missed is of all ticks from
// first to last, the others are of one.
type cronEvent struct {
	kind        string
	first, last time.Time
	at          time.Time // when it was decided
	id          job.ID
}

// cronMeta is what a run has in its meta.
type cronMeta struct {
	Name  string    `json:"cron_name"`
	At    time.Time `json:"cron_scheduled_at"`
	After job.ID    `json:"cron_after"`
}

// cronMetaIn is the meta of a run; zero for a job that no schedule made.
func cronMetaIn(meta json.RawMessage) (m cronMeta) {
	_ = json.Unmarshal(meta, &m) // it may be anybody's
	return m
}

// bookOf reads the file, and holds all that is in it to the rules of stores.
func bookOf(t *testing.T, path string) *cronBook {
	t.Helper()
	s, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Audit(t, s)
	b := &cronBook{jobs: map[string][]*job.Job{}, told: map[string][]cronEvent{}, byID: map[job.ID]*job.Job{}}
	err = s.View(context.Background(), func(tx job.ReadTx) (err error) {
		if b.crons, err = tx.Crons(); err == nil {
			err = b.readJobs(tx)
		}
		if err == nil {
			err = b.readEvents(t, tx)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wholeFile(t, path)
	return b
}

func wholeFile(t *testing.T, path string) {
	t.Helper()
	var whole string
	if err := testdb.Open(t, "sqlite", "file:"+path+"?mode=ro").QueryRow(`PRAGMA integrity_check`).Scan(&whole); err != nil || whole != "ok" {
		t.Errorf("the server's file: %s, %v", whole, err)
	}
}

func (b *cronBook) readJobs(tx job.ReadTx) error {
	for f := (job.Filter{Limit: 1000}); ; {
		page, err := tx.Jobs(f)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if m := cronMetaIn(j.Meta); m.Name != "" {
				b.jobs[m.Name] = append(b.jobs[m.Name], j)
				b.byID[j.ID] = j
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

func (b *cronBook) readEvents(t *testing.T, tx job.ReadTx) error {
	for f := (job.EventFilter{Types: []string{"cron.*"}, Limit: 1000}); ; {
		events, err := tx.Events(f)
		if err != nil {
			return err
		}
		for _, e := range events {
			var d struct {
				Name string    `json:"cron_name"`
				At   time.Time `json:"scheduled_at"`
				From time.Time
				To   time.Time
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatalf("event %s: %v", e.Data, err)
			}
			told := cronEvent{e.Type, d.At, d.At, e.Time, e.JobID}
			if e.Type == job.CronMissed {
				told.first, told.last = d.From, d.To
			}
			b.told[d.Name] = append(b.told[d.Name], told)
			f.After = e.Seq
		}
		if len(events) < f.Limit {
			break
		}
	}
	for _, told := range b.told {
		slices.SortStableFunc(told, func(a, b cronEvent) int { return a.first.Compare(b.first) })
	}
	return nil
}

// outage is a time in which a server did nothing: it was dead, or stood still.
type outage struct{ from, to time.Time }

// cronTrial is what is known of a server from outside.
type cronTrial struct {
	outages []outage
	owed    func(tick time.Time) bool // the server lived and was not slow: it may not miss the tick
}

// audit holds a schedule of each second, whose ticks one server decides alone, to
// its rules: each tick from its beginning to the last that was decided has made
// one job, or was skipped, or was missed, and is told as such. What is missed ends
// right before a tick that was not, which was the newest then.
func (b *cronBook) audit(c *job.Cron, trial cronTrial) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, c.Name+": "+fmt.Sprintf(format, args...)) }
	want := firstTick(c)
	var before cronEvent
	var runs []job.CronRun
	for _, e := range b.told[c.Name] {
		switch {
		case !e.first.Equal(want):
			fault("%s tells of %s, and the next that nothing was told of is %s", e.kind, job.FormatTime(e.first), job.FormatTime(want))
		case e.at.Before(before.at):
			fault("the tick %s was decided before the one before", job.FormatTime(e.first))
		case before.kind == job.CronMissed && e.kind == job.CronMissed:
			fault("what was missed until %s has no run that makes up for it", job.FormatTime(before.last))
		}
		want = e.last.Add(time.Second)
		if e.kind == job.CronMissed {
			for at := e.first; !at.After(e.last); at = at.Add(time.Second) {
				if trial.owed(at) {
					fault("the tick %s was missed by a server that lived and was not slow", job.FormatTime(at))
				}
			}
		} else {
			decided := e.at
			if before.kind == job.CronMissed {
				decided = before.at // of a catch-up that was put off, as there were others
			}
			if late := decided.Sub(e.first); late < 0 || late >= time.Second {
				fault("the tick %s was decided %v after it, when it was not the newest", job.FormatTime(e.first), late)
			}
			runs = append(runs, job.CronRun{At: e.first, JobID: e.id})
		}
		before = e
	}
	if last := want.Add(-time.Second); last.After(c.SeenAt) || !want.After(c.SeenAt) {
		fault("told until %s, decided until %s", job.FormatTime(last), job.FormatTime(c.SeenAt))
	}
	return append(faults, b.auditRuns(c, runs, trial)...)
}

// auditRuns compares what was told of a schedule with its jobs and its record.
func (b *cronBook) auditRuns(c *job.Cron, runs []job.CronRun, trial cronTrial) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, c.Name+": "+fmt.Sprintf(format, args...)) }
	var last job.CronRun
	made := map[int64]job.ID{}
	for _, r := range runs {
		if r.JobID != "" {
			made[r.At.UnixMilli()], last = r.JobID, r
		}
	}
	within := map[outage]int{}
	seen := map[int64]bool{}
	for _, j := range b.jobs[c.Name] {
		m := cronMetaIn(j.Meta)
		at := m.At.UnixMilli()
		if seen[at] || made[at] != j.ID {
			fault("the tick %s has the job %s, told was %q, another is there: %v", job.FormatTime(m.At), j.ID, made[at], seen[at])
		}
		seen[at] = true
		for _, o := range trial.outages {
			if m.At.After(o.from) && !m.At.After(o.to) {
				if within[o]++; within[o] == 2 {
					fault("the outage from %s to %s is made up for twice", job.FormatTime(o.from), job.FormatTime(o.to))
				}
			}
		}
	}
	if len(seen) != len(made) || c.RunCount != int64(len(seen)) {
		fault("%d ticks have jobs, %d were told, %d counted", len(seen), len(made), c.RunCount)
	}
	if c.LastJob != last.JobID || !c.LastRunAt.Equal(last.At) {
		fault("its last job is %s of %v, want %s of %v", c.LastJob, c.LastRunAt, last.JobID, last.At)
	}
	newest := runs[max(0, len(runs)-job.MaxCronRuns):]
	if !slices.EqualFunc(c.Runs, newest, func(a, b job.CronRun) bool { return a.At.Equal(b.At) && a.JobID == b.JobID }) {
		fault("its runs are %v, want %v", c.Runs, newest)
	}
	return faults
}

// firstTick is the first of a schedule of each second after it was made.
func firstTick(c *job.Cron) time.Time {
	if strings.HasPrefix(c.Expression, "@every") {
		return c.AnchorAt.Add(time.Second)
	}
	return c.CreatedAt.Truncate(time.Second).Add(time.Second)
}

// pulse is when something has answered a write. Where its beats are never apart,
// it lived, and neither it nor the machine was slow.
type pulse struct {
	mu    sync.Mutex
	beats []time.Time // guarded by mu
}

// apart is how long the beats of something that is slow are apart.
const apart = 160 * time.Millisecond

// feel writes again and again until the test ends or stop is called.
func feel(t *testing.T, write func(context.Context) error) (p *pulse, stop func()) {
	p = &pulse{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := write(ctx); err == nil {
				p.mu.Lock()
				p.beats = append(p.beats, time.Now())
				p.mu.Unlock()
			}
			slept := time.Now()
			time.Sleep(80 * time.Millisecond) // what waits for a moment without writes has it
			if time.Since(slept) > 95*time.Millisecond {
				time.Sleep(apart) // a machine that is too busy for this is no witness
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return p, stop
}

// feelServer feels the pulse of a server, which has to store jobs that nobody does.
func feelServer(t *testing.T, url string) (*pulse, func()) {
	t.Helper()
	c, err := client.New(url, client.Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return feel(t, func(ctx context.Context) error {
		_, err := c.Enqueue(ctx, job.Envelope{Type: "pulse.beat", Queue: "pulse", Args: json.RawMessage(`[]`)})
		return err
	})
}

// steady reports whether there were beats from a tick to a second after it.
func (p *pulse) steady(tick time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.beats, tick, time.Time.Compare)
	if i == 0 {
		return false
	}
	for ; i < len(p.beats); i++ {
		if p.beats[i].Sub(p.beats[i-1]) > apart {
			return false
		}
		if p.beats[i].Sub(tick) >= time.Second {
			return true
		}
	}
	return false
}

// judged fails a large test in which the machine was too busy to tell what may
// not be missed. A small one may be run beside anything.
func judged(t *testing.T, owed int) {
	t.Helper()
	if owed == 0 && os.Getenv("OUTRIDER_CHAOS_ROWS") != "" {
		t.Error("of no tick can be said that it had to be made: the machine was too busy throughout")
	}
}
