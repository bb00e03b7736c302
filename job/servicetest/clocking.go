package servicetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var clocking = []verdict{
	{"after three days away one tick is made up for, then the series goes on", awayDays},
	{"after 30 hours away a daily schedule makes up for its newest tick", awayDaily},
	{"a tick older than a day is not made up for", awayWeekly},
	{"a tick is made up for until it is a day old", awayADay},
	{"a tick that was made up for says how late it is", awayLate},
	{"a schedule that missed nothing makes up for nothing", awayNothing},
	{"a server that was stopped makes up for one tick, as one that was away", awaySuspended},
	{"many schedules make up for one tick each", awayMany},
	{"a tick that was made up for is not made up for again", awayTwice},
	{"a clock set back by an hour fires nothing twice", backHour},
	{"a clock set forward by an hour and back fires nothing twice", forwardHour},
	{"a clock set back to 1970 freezes nothing", backEpoch},
	{"a schedule of each second makes up for ten years at once", forwardSeconds},
	{"a clock set back by an hour over a restart fires nothing twice", backHourRestart},
	{"a clock set back by ten years freezes nothing, and fires nothing twice when it returns", backYears},
	{"a schedule that is paused and resumed while the clock is set back fires nothing twice", backPaused},
	{"a clock set forward by ten years and back freezes nothing", forwardYears},
}

// missedTold makes sure that cron.missed was told once, of these ticks.
func (k *kit) missedTold(from, to time.Time) {
	k.t.Helper()
	n := 0
	for _, e := range k.cronTold() {
		if e.Type != job.CronMissed {
			continue
		}
		n++
		k.expect(e.Data, "cron_name", `"nightly"`)
		k.expect(e.Data, "from", `"`+job.FormatTime(from)+`"`)
		k.expect(e.Data, "to", `"`+job.FormatTime(to)+`"`)
	}
	if n != 1 {
		k.t.Errorf("cron.missed is told %d times, want once", n)
	}
}

const days = 24 * time.Hour

func awayDays(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	k.begin(at(1, 10).Add(3 * days))
	k.pass(2 * time.Second)
	now := at(1, 0).Add(3 * days)
	jobs := k.ticked("back", at(1, 0), now)
	k.missedTold(at(2, 0), now.Add(-time.Hour))
	c := k.cron("nightly")
	k.next("back", c, now.Add(time.Hour))
	if c.RunCount != 2 {
		k.t.Errorf("back it is\n%s", looks(c))
	}
	if len(jobs) == 2 && !jobs[1].CreatedAt.After(now.Add(10*time.Minute).Add(-time.Second)) {
		k.t.Errorf("made up for at %s", jobs[1].CreatedAt)
	}
	k.reach(now.Add(2*time.Hour + time.Minute))
	k.ticked("the series goes on", at(1, 0), now, now.Add(time.Hour), now.Add(2*time.Hour))
	k.says("in all", "triggered", "missed", "triggered", "triggered", "triggered")
}

func awayDaily(k *kit) {
	k.put(func(s *job.CronSpec) { s.Expression = "0 3 * * *" })
	k.begin(at(0, 30).Add(30 * time.Hour)) // the day after at 06:30: 03:00 passed twice
	k.pass(2 * time.Second)
	k.ticked("back", at(27, 0))
	k.missedTold(at(3, 0), at(3, 0))
	k.next("back", k.cron("nightly"), at(51, 0))
}

func awayWeekly(k *kit) {
	k.put(func(s *job.CronSpec) { s.Expression = "0 1 * * 1" })
	k.begin(at(0, 30).Add(30 * time.Hour))
	k.pass(2 * time.Second)
	k.ticked("back")
	k.missedTold(at(1, 0), at(1, 0))
	k.says("back", "missed")
	c := k.cron("nightly")
	k.next("back", c, at(1, 0).Add(7*days))
	if c.RunCount != 0 || !c.LastRunAt.IsZero() {
		k.t.Errorf("back it is\n%s", looks(c))
	}
}

func awayADay(k *kit) {
	for name, tt := range map[string]struct {
		away time.Duration
		want string
	}{
		"younger": {days - time.Minute, job.CronTriggered}, "just": {days, job.CronTriggered}, "older": {days + time.Minute, job.CronMissed},
	} {
		tick := k.put(func(s *job.CronSpec) { s.Name, s.Expression = name, "0 1 * * 1" }).NextRunAt
		k.begin(tick.Add(tt.away))
		k.pass(2 * time.Second)
		var told []string
		for _, e := range k.cronTold() {
			if member(k.t, e.Data, "cron_name") == `"`+name+`"` {
				told = append(told, e.Type)
			}
		}
		if !slices.Equal(told, []string{tt.want}) {
			k.t.Errorf("%s after its tick: told is %q, want %s", tt.away, told, tt.want)
		}
		made := 0
		for _, j := range k.all() {
			if member(k.t, j.Meta, "cron_name") == `"`+name+`"` {
				made++
			}
		}
		if want := map[string]int{job.CronTriggered: 1}[tt.want]; made != want || k.cron(name).RunCount != int64(want) {
			k.t.Errorf("%s after its tick there are %d jobs, want %d", tt.away, made, want)
		}
		k.drop(name)
	}
}

func awayLate(k *kit) {
	k.put(allowing)
	k.reach(at(1, 1))
	k.begin(at(4, 20))
	k.pass(2 * time.Second)
	for _, e := range k.cronTold() {
		if e.Type == job.CronTriggered {
			want := ""
			if e.Time.After(at(2, 0)) {
				want = fmt.Sprint(e.Time.Sub(at(4, 0)).Milliseconds())
			}
			k.expect(e.Data, "late_ms", want)
		}
	}
	k.says("in all", "triggered", "missed", "triggered")
}

func awayNothing(k *kit) {
	k.put(nil)
	k.begin(at(0, 59))
	k.pass(30 * time.Second)
	k.ticked("a restart before its tick")
	k.reach(at(1, 1))
	k.ticked("its tick", at(1, 0))
	k.complete()
	k.begin(at(1, 30))
	k.pass(2 * time.Second)
	k.ticked("a restart after its tick", at(1, 0))
	k.says("nothing was missed", "triggered")
}

func awaySuspended(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	k.set(at(1, 10).Add(3 * days))
	now := at(1, 0).Add(3 * days)
	k.ticked("awake", at(1, 0), now)
	k.missedTold(at(2, 0), now.Add(-time.Hour))
	k.reach(now.Add(time.Hour + time.Minute))
	k.ticked("the series goes on", at(1, 0), now, now.Add(time.Hour))
}

func awayMany(k *kit) {
	const many = 150
	for i := range many {
		k.put(several(allowing, func(s *job.CronSpec) { s.Name = fmt.Sprintf("s%03d", i) }))
	}
	k.begin(at(0, 30).Add(3 * days))
	k.pass(5 * time.Minute)
	names := map[string]int{}
	for _, j := range k.all() {
		names[member(k.t, j.Meta, "cron_name")]++
		k.expect(j.Meta, "cron_scheduled_at", `"`+job.FormatTime(at(0, 0).Add(3*days))+`"`)
	}
	if n := k.total(); len(names) != many || n != many {
		k.t.Errorf("%d jobs of %d schedules, want one of each of %d", n, len(names), many)
	}
}

func awayTwice(k *kit) {
	k.put(allowing)
	for i := range 5 {
		k.begin(at(5, 10+i))
		k.pass(2 * time.Second)
	}
	k.ticked("five restarts", at(5, 0))
	k.missedTold(at(1, 0), at(4, 0))
}

func backHour(k *kit) {
	k.put(several(minutely, allowing, func(s *job.CronSpec) { s.Expression = "*/10 * * * *" }))
	k.reach(at(1, 35))
	want := []time.Time{at(0, 40), at(0, 50), at(1, 0), at(1, 10), at(1, 20), at(1, 30)}
	k.ticked("before", want...)
	k.set(at(0, 35))
	k.reach(at(1, 39))
	k.ticked("an hour again", want...)
	k.reach(at(1, 51))
	k.ticked("then the series goes on", append(want, at(1, 40), at(1, 50))...)
	k.next("at last", k.cron("nightly"), at(2, 0))
}

func forwardHour(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	k.set(at(2, 10))
	k.ticked("an hour ahead", at(1, 0), at(2, 0))
	k.set(at(1, 12))
	k.reach(at(2, 30))
	k.ticked("returned", at(1, 0), at(2, 0))
	k.reach(at(3, 1))
	k.ticked("the series goes on", at(1, 0), at(2, 0), at(3, 0))
}

func backEpoch(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	k.set(time.Unix(1800, 0))
	k.reach(time.Unix(3600+60, 0))
	k.ticked("in 1970", at(1, 0), time.Unix(3600, 0))
	k.set(at(1, 20))
	k.reach(at(2, 1))
	k.ticked("returned", at(1, 0), time.Unix(3600, 0), at(2, 0))
}

func forwardSeconds(k *kit) {
	for _, expression := range []string{"* * * * * *", "@every 1s"} {
		k.put(func(s *job.CronSpec) { s.Expression = expression }) // which skips while its first job is there
		k.pass(2 * time.Second)
		k.set(k.now().AddDate(10, 0, 0))
		k.set(k.now().AddDate(-10, 0, 0))
		c := k.cron("nightly")
		if c.RunCount != 1 || c.NextRunAt.Sub(k.now()) > 10*time.Second {
			k.t.Errorf("at %s it is\n%s", k.now(), looks(c))
		}
		k.clear(k.latest())
		k.pass(10 * time.Second)
		if n := k.cron("nightly").RunCount; n != 2 {
			k.t.Errorf("%s: %d runs, want another", expression, n)
		}
		k.clear(k.latest())
		k.drop("nightly")
	}
}

// backPaused is backYears with the marks of the schedule in the way of a change.
func backPaused(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	past := time.Date(2017, 1, 4, 5, 20, 0, 0, time.UTC)
	k.set(past)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.reach(past.Add(time.Hour))
	six := past.Add(40 * time.Minute)
	k.ticked("ten years back", at(1, 0), six)
	k.set(at(1, 20))
	k.reach(at(2, 1))
	k.ticked("returned", at(1, 0), six, at(2, 0))
}

func backHourRestart(k *kit) {
	k.put(allowing)
	k.reach(at(2, 10))
	k.begin(at(1, 10))
	k.reach(at(2, 30))
	k.ticked("an hour again", at(1, 0), at(2, 0))
	k.reach(at(3, 1))
	k.ticked("then the series goes on", at(1, 0), at(2, 0), at(3, 0))
}

func backYears(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	past := time.Date(2017, 1, 4, 5, 20, 0, 0, time.UTC)
	k.set(past)
	k.next("ten years back", k.cron("nightly"), past.Add(40*time.Minute))
	k.reach(past.Add(2 * time.Hour))
	six := past.Add(40 * time.Minute)
	k.ticked("ten years back", at(1, 0), six, six.Add(time.Hour))
	k.set(at(1, 20))
	k.pass(time.Minute)
	k.ticked("returned", at(1, 0), six, six.Add(time.Hour))
	k.reach(at(2, 1))
	k.ticked("the series goes on", at(1, 0), six, six.Add(time.Hour), at(2, 0))
	k.next("at last", k.cron("nightly"), at(3, 0))
}

func forwardYears(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	future := time.Date(2037, 1, 4, 5, 20, 0, 0, time.UTC)
	five := future.Add(-20 * time.Minute)
	k.set(future)
	k.ticked("ten years ahead", at(1, 0), five)
	k.reach(future.Add(time.Hour))
	k.ticked("ten years ahead it goes on", at(1, 0), five, five.Add(time.Hour))
	k.set(at(1, 20))
	k.next("returned", k.cron("nightly"), at(2, 0))
	k.reach(at(3, 1))
	k.ticked("returned", at(1, 0), five, five.Add(time.Hour), at(2, 0), at(3, 0))
}
