package servicetest

import (
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var summertime = []verdict{
	{"a wall time that does not exist is skipped, and told", dstGap},
	{"a repeated hour fires once for fixed hours, and twice for all hours", dstRepeat},
	{"a skipped wall time is told once, also when the server was away", dstGapAway},
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
