package schedule

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

const day = 24 * time.Hour

// cronKind is an expression, and how long the test lets it run at a time.
type cronKind struct {
	expr, zone string
	period     time.Duration
}

var cronKinds = []cronKind{
	{"* * * * * *", "", time.Second}, {"*/5 * * * * *", "", 5 * time.Second}, {"@every 7s", "", 7 * time.Second},
	{"* * * * *", "", time.Minute}, {"0 * * * *", "Europe/Berlin", time.Hour}, {"*/30 1-3 * * *", "America/New_York", 30 * time.Minute},
	{"30 2 * * *", "Europe/Berlin", day}, {"0 0 * * 1", "", 7 * day}, {"@every 36h", "", 36 * time.Hour},
}

// cronPlay plays a schedule in a timetable, and knows what has fired.
type cronPlay struct {
	r      *rapid.T
	c      *job.Cron
	spec   cronsched.Spec
	period time.Duration
	p      *timetable
	now    time.Time
	looked time.Time

	fired   map[int64]int       // how often each tick made a job
	spared  map[int64]time.Time // a tick may make a job again if it lies before this
	decided time.Time           // the latest instant that was ever decided
	jumped  bool                // the clock was ever set back
	news    []time.Time         // what has fired since anybody looked
}

func (x *cronPlay) anchor() time.Time { return x.c.AnchorAt }

// next is the first tick after t, also where t lies before the anchor.
func (x *cronPlay) next(t time.Time) time.Time {
	anchor := x.anchor()
	if every := x.spec.Every(); every > 0 && anchor.After(t) {
		anchor = anchor.Add(-(anchor.Sub(t)/every + 1) * every)
	}
	o, _ := x.spec.EveryNext(anchor, t)
	return o.At.UTC()
}

// restart reads the schedule from what is stored, as load does.
func (x *cronPlay) restart() {
	c := x.c.Clone()
	x.p = &timetable{byName: map[string]*entry{}}
	if c.On() {
		c.NextRunAt = cronsched.Following(c, x.spec, x.anchor(), c.SeenAt)
		if !c.NextRunAt.Equal(x.c.NextRunAt) {
			x.r.Fatalf("after a restart it runs at %s, and before it said %s", c.NextRunAt, x.c.NextRunAt)
		}
	}
	x.p.put(c.Name, entryOf(c, x.spec, job.CronTemplate{}, x.anchor()))
	x.p.rewound(x.now)
	x.looked = x.now
}

// look is one round of the loop of schedules.
func (x *cronPlay) look() {
	if x.now.Before(x.looked) {
		x.p.rewound(x.now)
	}
	x.looked = x.now
	x.p.spread(x.now)
	for range 10 {
		es := x.p.due(x.now, atOnce)
		if len(es) == 0 {
			x.check()
			return
		}
		for _, e := range es {
			x.decide(e)
			x.p.back(e)
		}
	}
	x.r.Fatalf("at %s there is no end of what is due: %+v", x.now, x.c)
}

// decide decides once, and holds what comes out against what the documents say.
func (x *cronPlay) decide(e *entry) {
	before := e.cron
	d := cronsched.Decide(before, e.spec, e.anchor, x.now)
	want, late := x.owed(before)
	switch {
	case d.Fire.IsZero():
		if late && !x.jumped {
			x.r.Fatalf("at %s nothing makes up for %s", x.now, want)
		}
	case d.Fire.After(x.now) || x.now.Sub(d.Fire) > cronsched.Missed:
		x.r.Fatalf("at %s the tick %s fires", x.now, d.Fire)
	default:
		if !late || !d.Fire.Equal(want) {
			x.r.Fatalf("at %s the tick %s fires, want %v %s", x.now, d.Fire, late, want)
		}
		at := d.Fire.UnixMilli()
		if x.fired[at]++; x.fired[at] > 1 && !d.Fire.Before(x.spared[at]) {
			x.r.Fatalf("at %s the tick %s fires again; before %+v, after %+v", x.now, d.Fire, before, d.After)
		}
		x.spared[at] = time.Time{}
		x.news = append(x.news, d.Fire)
	}
	x.told(d)
	x.c = d.After
	x.decided = latest(x.decided, x.c.SeenAt)
	e.became(d.After)
}

// told holds what is said to be missed: nothing that has made a job.
func (x *cronPlay) told(d cronsched.Decision) {
	for _, e := range d.Events {
		var missed struct{ From, To time.Time }
		if err := json.Unmarshal(e.Data, &missed); err != nil {
			x.r.Fatal(err)
		}
		for at := range x.fired {
			tick := time.UnixMilli(at)
			if e.Type == job.CronMissed && !tick.Before(missed.From) && !tick.After(missed.To) && !tick.Before(x.spared[at]) {
				x.r.Fatalf("at %s the tick %s is told as missed, and has fired; %s", x.now, tick.UTC(), e.Data)
			}
		}
	}
}

// owed is the latest tick that is not decided, if it is not too old.
func (x *cronPlay) owed(c *job.Cron) (last time.Time, ok bool) {
	from := latest(c.SeenAt, x.now.Add(-cronsched.Missed-time.Second))
	if x.period < time.Minute {
		from = latest(from, x.now.Add(-time.Minute))
	}
	for at := x.next(from); !at.After(x.now); at = x.next(at) {
		if x.now.Sub(at) <= cronsched.Missed {
			last, ok = at, true
		}
	}
	return last, ok
}

// check holds what is due next against the promise that nothing freezes.
func (x *cronPlay) check() {
	if !x.c.On() {
		return
	}
	e := x.p.byName[x.c.Name]
	if e == nil || e.place < 0 {
		x.r.Fatalf("at %s the schedule is not in line: %+v", x.now, x.c)
	}
	bound := x.now.Add(cronsched.Missed)
	if !x.c.AheadAt.IsZero() {
		bound = bound.Add(cronsched.Missed) // it was set back twice: a day that is decided, and the day that is spared
	}
	bound = x.next(x.next(bound)) // the day that is spared may begin at the next tick
	if e.wake.After(bound) || x.c.NextRunAt.After(bound) {
		x.r.Fatalf("at %s it is frozen until %s, %s: want %s at the latest; %+v", x.now, e.wake, x.c.NextRunAt, bound, x.c)
	}
}

// run lets time pass and looks when the timetable says so.
func (x *cronPlay) run(d time.Duration) {
	end := x.now.Add(d)
	for {
		next := x.p.soonest()
		if next.IsZero() || next.After(end) {
			break
		}
		said := x.c.NextRunAt
		x.now = latest(x.now, next)
		x.news = nil
		x.look()
		if len(x.news) > 0 && !x.news[0].Equal(said) && !x.now.After(said) {
			x.r.Fatalf("at %s the tick %s fires, and it was said to be %s", x.now, x.news[0], said)
		}
	}
	x.now = end
	x.look()
}

// set sets the clock, to no year that a Duration from the others cannot reach.
func (x *cronPlay) set(t time.Time) {
	if t.Year() < 1970 || t.Year() > 2150 {
		return
	}
	if t.Before(x.now) {
		x.jumped = true
		if x.decided.Sub(t) > cronsched.Missed {
			for at := range x.fired {
				x.spared[at] = x.decided.Add(-cronsched.Missed)
			}
		}
	}
	x.now = t
}

// describe changes what no tick depends on.
func (x *cronPlay) describe() {
	want := x.c.CronSpec
	want.Description += "."
	x.stored(want)
}

// stored is what keepCron does.
func (x *cronPlay) stored(want job.CronSpec) {
	var err error
	old := x.c
	s := &Schedules{}
	spec, err := cronsched.Parse(want.Expression, want.Timezone)
	if err != nil {
		x.r.Fatal(err)
	}
	x.spec = spec
	x.c = s.revise(old, want, spec, x.now)
	x.decided = latest(x.decided, x.c.SeenAt)
	if old == nil {
		return
	}
	if old.Expression != want.Expression {
		x.decided = x.now
		x.fired, x.spared = map[int64]int{}, map[int64]time.Time{} // they were ticks of another
	}
	x.p.put(x.c.Name, entryOf(x.c, spec, job.CronTemplate{}, x.anchor()))
}

// Whatever the clock does, no tick makes two jobs, but for the one exception
// that rewind names, and no schedule waits for more than a day.
func TestSchedulesAndTheirClock(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("set back ", back), func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) { playCron(r, back) })
		})
	}
}

func playCron(r *rapid.T, back bool) {
	k := rapid.SampledFrom(cronKinds).Draw(r, "kind")
	start := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 2*24*3600*10).Draw(r, "start")) * 100 * time.Millisecond)
	x := &cronPlay{r: r, now: start, period: k.period, decided: start, fired: map[int64]int{}, spared: map[int64]time.Time{}}
	on := true
	x.stored(job.CronSpec{Name: "c", Expression: k.expr, Timezone: k.zone, Enabled: &on, Overlap: job.OverlapSkip})
	x.restart()
	span := func(label string) time.Duration {
		unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, day, 365 * day}).Draw(r, label+" unit")
		return time.Duration(rapid.IntRange(1, 50).Draw(r, label)) * unit
	}
	wrong := time.Hour // how far the clock was set forward at last
	steps := map[string]func(*rapid.T){
		"run":  func(*rapid.T) { x.run(time.Duration(rapid.IntRange(1, 60).Draw(r, "run")) * k.period) },
		"wait": func(*rapid.T) { x.run(min(span("wait"), 300*k.period)) },
		"away": func(*rapid.T) {
			x.set(x.now.Add(span("away")))
			x.restart()
			x.look()
		},
		"forward": func(*rapid.T) {
			wrong = span("forward")
			x.set(x.now.Add(wrong))
			x.look()
		},
		"restart": func(*rapid.T) { x.restart() },
		"pause": func(*rapid.T) {
			want, off := x.c.CronSpec, !x.c.On()
			want.Enabled = &off
			x.stored(want)
			x.look()
		},
		"describe": func(*rapid.T) {
			x.describe()
			x.look()
		},
	}
	if back {
		backwards := func(*rapid.T) {
			d := wrong // it is corrected
			if rapid.Bool().Draw(r, "by something") {
				d = span("back")
			}
			x.set(x.now.Add(-d))
			if rapid.Bool().Draw(r, "and restarted") {
				x.restart()
			}
			if rapid.IntRange(0, 3).Draw(r, "and described") == 0 {
				x.describe()
			}
			x.look()
		}
		steps["back"], steps["and back"] = backwards, backwards
	}
	r.Repeat(steps)
}

// soonest is when something is due; zero for never.
func (p *timetable) soonest() time.Time {
	if len(p.line) == 0 {
		return time.Time{}
	}
	return p.line[0].wake
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
