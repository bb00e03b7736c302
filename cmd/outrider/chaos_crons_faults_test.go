//go:build unix

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// sharedFaults are what is wrong between servers that share their ticks.
type sharedFaults struct {
	all  []string
	made []int // by server, ticks whose jobs it made
}

func (f *sharedFaults) add(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// jobs joins the jobs of all servers, and those that wait in the outbox, with the
// ticks: each tick has one, and each has a tick. It counts those on two disks:
// their server died before it could say that it had them.
func (f *sharedFaults) jobs(books []*cronBook, ticks map[cronTick]job.ID, rows map[job.ID]cronTick) (doubles int) {
	copies := map[job.ID]int{}
	found := func(id job.ID, c cronTick, where string) {
		if ticks[c] != id {
			f.add("%s has the job %s of %s, whose job is %q", where, id, c, ticks[c])
		}
	}
	for i, b := range books {
		for id, j := range b.byID {
			m := cronMetaIn(j.Meta)
			found(id, cronTick{m.Name, m.At.UnixMilli()}, fmt.Sprintf("server %d", i+1))
			if copies[id]++; copies[id] == 2 {
				doubles++
			}
		}
	}
	for id, c := range rows {
		found(id, c, "the outbox")
		if copies[id] == 0 {
			copies[id] = 1
		}
	}
	for c, id := range ticks {
		if copies[id] == 0 {
			f.add("the job %s of %s is nowhere", id, c)
		}
	}
	return doubles
}

// seconds looks for seconds without a job, from the first that a server had to
// decide to the last that one has decided. There is none, unless every server
// says that it missed it, and no two of them lived and were not slow.
func (f *sharedFaults) seconds(books []*cronBook, ticks map[cronTick]job.ID, stopped time.Time, due func(time.Time) bool) (gaps, owed int) {
	missed := make([]map[cronTick]bool, len(books))
	for i, b := range books {
		missed[i] = b.missed()
	}
	for _, first := range books[0].crons {
		from, to := span(books, first.Name)
		for at := from.Truncate(time.Second).Add(time.Second); !at.After(to); at = at.Add(time.Second) {
			c, must := cronTick{first.Name, at.UnixMilli()}, due(at)
			if _, ok := ticks[c]; ok {
				if must {
					owed++
				}
				continue
			}
			gaps++
			if must {
				f.add("nobody made the job of %s, though two servers lived and were not slow", c)
			}
			for i, b := range books {
				if cron := b.cron(first.Name); cron.CreatedAt.Before(at) && !cron.SeenAt.Before(at) && !missed[i][c] {
					f.add("server %d has not missed %s, and nobody made its job", i+1, c)
				}
			}
		}
		for c := range ticks {
			if at := time.UnixMilli(c.at); c.name == first.Name && (!at.After(from) || at.After(stopped) || at.Nanosecond() > 0) {
				f.add("%s was decided, and is no tick from %s to %s", c, job.FormatTime(from), job.FormatTime(stopped))
			}
		}
	}
	return gaps, owed
}

// counts holds what each server has counted to what it has told.
func (f *sharedFaults) counts(books []*cronBook) {
	for i, b := range books {
		made := 0
		for _, c := range b.crons {
			n, ticks := 0, map[int64]bool{}
			for _, e := range b.told[c.Name] {
				if e.kind != job.CronTriggered {
					continue
				}
				if n++; ticks[e.first.UnixMilli()] {
					f.add("server %d tells twice of the job of %s at %s", i+1, c.Name, job.FormatTime(e.first))
				}
				ticks[e.first.UnixMilli()] = true
			}
			if made += n; c.RunCount != int64(n) {
				f.add("server %d counts %d runs of %s, and tells of %d", i+1, c.RunCount, c.Name, n)
			}
		}
		f.made = append(f.made, made)
	}
}

func (f *sharedFaults) report(t *testing.T, want int, books []*cronBook) {
	t.Helper()
	for i, b := range books {
		if len(b.crons) != want {
			t.Errorf("server %d has %d schedules, want %d", i+1, len(b.crons), want)
		}
	}
	for _, fault := range f.all[:min(20, len(f.all))] {
		t.Error(fault)
	}
	if len(f.all) > 20 {
		t.Errorf("and %d faults more", len(f.all)-20)
	}
}

// missed are all ticks that a server says it missed.
func (b *cronBook) missed() map[cronTick]bool {
	all := map[cronTick]bool{}
	for name, told := range b.told {
		for _, e := range told {
			for at := e.first; e.kind == job.CronMissed && !at.After(e.last); at = at.Add(time.Second) {
				all[cronTick{name, at.UnixMilli()}] = true
			}
		}
	}
	return all
}

func (b *cronBook) cron(name string) *job.Cron {
	for _, c := range b.crons {
		if c.Name == name {
			return c
		}
	}
	return &job.Cron{}
}

// span is from when the first server had a schedule until the last has decided it.
func span(books []*cronBook, name string) (from, to time.Time) {
	for i, b := range books {
		c := b.cron(name)
		if i == 0 || c.CreatedAt.Before(from) {
			from = c.CreatedAt
		}
		if c.SeenAt.After(to) {
			to = c.SeenAt
		}
	}
	return from, to
}

// TestTheAuditorsOfTicksHaveTeeth: what is lost, doubled or told wrongly is seen.
func TestTheAuditorsOfTicksHaveTeeth(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	trial := cronTrial{outages: []outage{{at(3), at(7)}}, owed: func(tick time.Time) bool { return tick.Before(at(3)) || tick.After(at(7)) }}
	good := func() (*cronBook, *job.Cron) {
		c := &job.Cron{CronSpec: job.CronSpec{Name: "a", Expression: "* * * * * *"}, CreatedAt: noon, SeenAt: at(9)}
		b := &cronBook{crons: []*job.Cron{c}, jobs: map[string][]*job.Job{}, told: map[string][]cronEvent{}, byID: map[job.ID]*job.Job{}}
		for _, s := range []int{1, 2, 7, 8, 9} { // from 3 to 6 it is dead
			if s == 7 {
				b.told["a"] = append(b.told["a"], cronEvent{job.CronMissed, at(3), at(6), at(7), ""})
			}
			run, err := c.Instance(job.Checked{}, job.ID(fmt.Sprint("job ", s)), at(s), at(s))
			if err != nil {
				t.Fatal(err)
			}
			j := &job.Job{Envelope: run.Envelope()}
			b.jobs["a"], b.byID[j.ID] = append(b.jobs["a"], j), j
			b.told["a"] = append(b.told["a"], cronEvent{job.CronTriggered, at(s), at(s), at(s), j.ID})
			c.Note(job.CronRun{At: at(s), JobID: j.ID})
			c.LastJob, c.LastRunAt = j.ID, at(s)
			c.RunCount++
		}
		return b, c
	}
	for name, spoil := range map[string]func(b *cronBook, c *job.Cron){
		"a lost job":           func(b *cronBook, c *job.Cron) { b.jobs["a"] = b.jobs["a"][1:] },
		"two jobs of one tick": func(b *cronBook, c *job.Cron) { b.jobs["a"] = append(b.jobs["a"], b.jobs["a"][0]) },
		"a tick told twice":    func(b *cronBook, c *job.Cron) { b.told["a"] = append(b.told["a"][:1], b.told["a"]...) },
		"a tick told of by nobody": func(b *cronBook, c *job.Cron) {
			b.told["a"] = b.told["a"][1:]
			b.jobs["a"] = b.jobs["a"][1:]
			c.RunCount--
		},
		"a count too high":             func(b *cronBook, c *job.Cron) { c.RunCount++ },
		"another last job":             func(b *cronBook, c *job.Cron) { c.LastJob = "job 8" },
		"a run that is not noted":      func(b *cronBook, c *job.Cron) { c.Runs = c.Runs[1:] },
		"an old tick made up for":      func(b *cronBook, c *job.Cron) { b.told["a"][2].at = at(9) },
		"no run after what was missed": func(b *cronBook, c *job.Cron) { b.told["a"] = b.told["a"][:3]; c.SeenAt = at(6) },
		"a tick missed while alive":    func(b *cronBook, c *job.Cron) { b.told["a"][1].kind = job.CronMissed },
		"an end that was not told":     func(b *cronBook, c *job.Cron) { c.SeenAt = at(10) },
	} {
		b, c := good()
		if faults := b.audit(c, trial); len(faults) > 0 {
			t.Fatalf("nothing is wrong, and it says %q", faults)
		}
		if spoil(b, c); len(b.audit(c, trial)) == 0 {
			t.Errorf("%s is not seen", name)
		}
	}
	ticks := map[cronTick]job.ID{}
	for _, s := range []int{1, 2, 7, 8, 9} {
		ticks[cronTick{"a", at(s).UnixMilli()}] = job.ID(fmt.Sprint("job ", s))
	}
	for name, spoil := range map[string]func(b *cronBook){
		"":                          func(*cronBook) {},
		"a second nobody missed":    func(b *cronBook) { b.told["a"][2].last = at(5) },
		"a job of no tick":          func(b *cronBook) { b.byID["job 0"] = b.byID["job 1"] },
		"a tick whose job is gone":  func(b *cronBook) { delete(b.byID, "job 1") },
		"a job that is told twice":  func(b *cronBook) { b.told["a"] = append(b.told["a"], b.told["a"][0]) },
		"a job that is not counted": func(b *cronBook) { b.crons[0].RunCount-- },
		"a tick that was never due": func(b *cronBook) { b.crons[0].CreatedAt = at(1) },
	} {
		b, _ := good()
		spoil(b)
		f := &sharedFaults{}
		f.jobs([]*cronBook{b}, ticks, nil)
		f.seconds([]*cronBook{b}, ticks, at(9), trial.owed)
		f.counts([]*cronBook{b})
		if (len(f.all) == 0) != (name == "") {
			t.Errorf("%q is told as %q", name, f.all)
		}
	}
}
