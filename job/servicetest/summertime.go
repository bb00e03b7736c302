package servicetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var summertime = []verdict{
	{"a wall time that does not exist is skipped, and told", dstGap},
	{"a repeated hour fires once for fixed hours, and twice for all hours", dstRepeat},
	{"a skipped wall time is told once, also when the server was away", dstGapAway},
	{"each wall time that a clock is set over is told, whatever the zone and the step", dstZones},
}

// berlin begins at an instant with a schedule in Berlin.
func (k *kit) berlin(from, expression string) {
	k.t.Helper()
	k.begin(instant(k, from))
	k.put(several(allowing, func(s *job.CronSpec) { s.Expression, s.Timezone = expression, "Europe/Berlin" }))
}

func dstGap(k *kit) {
	k.berlin("2027-03-28T00:50:00Z", "30 2,4 * * *")
	four := instant(k, "2027-03-28T02:30:00Z")
	k.next("before the gap", k.cron("nightly"), four)
	k.reach(instant(k, "2027-03-28T01:00:05Z"))
	k.says("the clock was set forward", "skipped dst_skip")
	k.reach(four.Add(time.Minute))
	k.ticked("half past two did not exist", four)
	k.says("half past two did not exist", "skipped dst_skip", "triggered")
	for _, e := range k.cronTold() {
		k.expect(e.Data, "cron_name", `"nightly"`)
	}
	if h := k.runs("nightly", 0); len(h) != 2 || h[1].Skipped != job.SkippedDST || h[1].Job != nil || h[0].Job == nil {
		k.t.Errorf("it remembers %+v", h)
	}
	if c := k.cron("nightly"); c.RunCount != 1 {
		k.t.Errorf("it is\n%s", looks(c))
	}
}

func dstRepeat(k *kit) {
	k.berlin("2027-10-31T00:10:00Z", "30 2 * * *")
	k.put(several(allowing, func(s *job.CronSpec) { s.Name, s.Expression, s.Timezone = "hourly", "30 * * * *", "Europe/Berlin" }))
	first, second := instant(k, "2027-10-31T00:30:00Z"), instant(k, "2027-10-31T01:30:00Z")
	k.reach(second.Add(time.Minute))
	ticks := map[string][]string{}
	for _, j := range k.all() {
		name := member(k.t, j.Meta, "cron_name")
		ticks[name] = append(ticks[name], member(k.t, j.Meta, "cron_scheduled_at"))
	}
	one, two := `"`+job.FormatTime(first)+`"`, `"`+job.FormatTime(second)+`"`
	if want := map[string][]string{`"nightly"`: {one}, `"hourly"`: {one, two}}; fmt.Sprint(ticks) != fmt.Sprint(want) {
		k.t.Errorf("there are jobs of %v, want %v", ticks, want)
	}
	k.next("after the repeated hour", k.cron("nightly"), instant(k, "2027-11-01T01:30:00Z"))
	k.says("nothing was skipped", "triggered", "triggered", "triggered")
}

func dstGapAway(k *kit) {
	k.berlin("2027-03-27T23:00:00Z", "30 2 * * *")
	k.begin(instant(k, "2027-03-28T09:00:00Z"))
	k.pass(2 * time.Second)
	k.ticked("back")
	k.begin(instant(k, "2027-03-28T10:00:00Z"))
	k.pass(2 * time.Second)
	k.says("back", "skipped dst_skip")
	k.next("back", k.cron("nightly"), instant(k, "2027-03-29T00:30:00Z"))
}

// dstZones are steps of half an hour, of a whole day and of two hours, at midnight
// and west of Greenwich.
func dstZones(k *kit) {
	for _, tt := range []struct {
		zone, expression, from, set string
		skipped                     int
		fired                       []string
	}{
		{"Europe/Berlin", "*/20 2 * * *", "2027-03-27T22:00:00Z", "2027-03-28T01:00:00Z", 3, []string{"2027-03-29T00:00:00Z"}},
		{"America/New_York", "15,45 2 * * *", "2027-03-14T05:00:00Z", "2027-03-14T07:00:00Z", 2, []string{"2027-03-15T06:15:00Z"}},
		{"Australia/Lord_Howe", "0,15,30 2 * * *", "2027-10-02T12:00:00Z", "2027-10-02T15:30:00Z", 2, []string{"2027-10-02T15:30:00Z", "2027-10-03T15:00:00Z"}},
		{"Pacific/Apia", "0 9,17 * * *", "2011-12-30T04:30:00Z", "2011-12-30T10:00:00Z", 2, []string{"2011-12-30T19:00:00Z"}},
		{"America/Santiago", "0 0 * * *", "2027-09-05T03:30:00Z", "2027-09-05T04:00:00Z", 1, []string{"2027-09-06T03:00:00Z"}},
		{"Antarctica/Troll", "0 1,2 * * *", "2027-03-28T00:30:00Z", "2027-03-28T01:00:00Z", 2, []string{"2027-03-28T23:00:00Z"}},
	} {
		k.begin(instant(k, tt.from))
		told := len(k.cronTold())
		k.put(several(allowing, func(s *job.CronSpec) { s.Expression, s.Timezone = tt.expression, tt.zone }))
		k.next(tt.zone, k.cron("nightly"), instant(k, tt.fired[0]))
		k.reach(instant(k, tt.fired[len(tt.fired)-1]))
		var skips, fires []string
		for _, e := range k.cronTold()[told:] {
			when := member(k.t, e.Data, "scheduled_at")
			if e.Type == job.CronTriggered {
				fires = append(fires, when)
				continue
			}
			k.expect(e.Data, "reason", `"dst_skip"`)
			if skips = append(skips, when); when != `"`+job.FormatTime(instant(k, tt.set))+`"` || e.Time.Sub(instant(k, tt.set)) > time.Second {
				k.t.Errorf("%s: a skip of %s is told at %s, want %s", tt.zone, when, e.Time, tt.set)
			}
		}
		var want []string
		for _, s := range tt.fired {
			want = append(want, `"`+job.FormatTime(instant(k, s))+`"`)
		}
		if len(skips) != tt.skipped || !slices.Equal(fires, want) {
			k.t.Errorf("%s, %q: %d are skipped and fired is %q, want %d and %q", tt.zone, tt.expression, len(skips), fires, tt.skipped, want)
		}
		k.drop("nightly")
	}
}
