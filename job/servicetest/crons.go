package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// crons are all cases of job.CronService.
func crons() []verdict {
	return slices.Concat(scheduling, triggering, ticking, overlapping, chaining, clocking, summertime, cronFlowing)
}

var scheduling = []verdict{
	{"a schedule is stored as it was asked for, and found again", cronStored},
	{"the next run of an expression, a macro and a zone is right", cronNext},
	{"@every counts from the creation", cronEvery},
	{"a schedule that is put again keeps what has become of it", cronUpsert},
	{"a schedule whose expression or zone changes has another next run", cronUpsertTime},
	{"a schedule put again without enabled stays paused", cronUpsertPaused},
	{"a bad schedule is refused with the name of the field, and not stored", cronBad},
	{"a fault in an expression is told with its place", cronBadPlace},
	{"a bad schedule leaves the one of its name as it is", cronBadUpsert},
	{"parts of a schedule are changed, and its template is merged", cronChange},
	{"a bad change changes nothing", cronBadChange},
	{"schedules are listed by name, by enabled and in pages", cronList},
	{"a schedule that is not there is not found", cronUnknown},
}

// cronTemplate is the template of a schedule with these options.
func cronTemplate(options string) json.RawMessage {
	return json.RawMessage(`{"type":"report.build","args":["ada"],"options":` + options + `}`)
}

// schedule is a valid schedule, each hour, in the queue of the tests; change may be nil.
func schedule(change func(*job.CronSpec)) job.CronSpec {
	s := job.CronSpec{Name: "nightly", Expression: "0 * * * *", Template: cronTemplate(`{"queue":"mail"}`)}
	if change != nil {
		change(&s)
	}
	return s
}

// minutely makes a schedule fire each minute.
func minutely(s *job.CronSpec) { s.Expression = "* * * * *" }

// put stores a schedule, new or not.
func (k *kit) put(change func(*job.CronSpec)) *job.Cron {
	k.t.Helper()
	c, _, err := k.s.PutCron(k.ctx(), schedule(change))
	if err != nil {
		k.t.Fatalf("put: %v", err)
	}
	return c
}

func (k *kit) change(name string, p job.CronPatch) *job.Cron {
	k.t.Helper()
	c, err := k.s.ChangeCron(k.ctx(), name, p)
	if err != nil {
		k.t.Fatalf("change %s: %v", name, err)
	}
	return c
}

func (k *kit) cron(name string) *job.Cron {
	k.t.Helper()
	c, err := k.s.Cron(k.ctx(), name)
	if err != nil {
		k.t.Fatalf("read %s: %v", name, err)
	}
	return c
}

// looks is all of a schedule that everybody sees.
func looks(c *job.Cron) string {
	return fmt.Sprintf("%s %q zone %q overlap %s on %v %q\n%s\ncreated %s, updated %s, next %s, last %s, %d runs", c.Name, c.Expression,
		c.Timezone, c.Overlap, c.On(), c.Description, c.Template, job.FormatTime(c.CreatedAt), job.FormatTime(c.UpdatedAt),
		job.FormatTime(c.NextRunAt), job.FormatTime(c.LastRunAt), c.RunCount)
}

// template is a member of the template of a schedule, or of its options.
func (k *kit) template(c *job.Cron, name string) string {
	k.t.Helper()
	if v := member(k.t, c.Template, name); v != "" {
		return v
	}
	return member(k.t, []byte(member(k.t, c.Template, "options")), name)
}

// next compares when a schedule runs next; the zero time is never.
func (k *kit) next(what string, c *job.Cron, want time.Time) {
	k.t.Helper()
	if !c.NextRunAt.Equal(want) {
		k.t.Errorf("%s: the next run of %q in %q is at %s, want %s", what, c.Expression, c.Timezone, c.NextRunAt, want)
	}
}

// list reads the names of the schedules that f lets through.
func (k *kit) list(f job.CronFilter) (names []string, total int64) {
	k.t.Helper()
	page, err := k.s.Crons(k.ctx(), f)
	if err != nil {
		k.t.Fatalf("list %+v: %v", f, err)
	}
	for _, c := range page.Crons {
		names = append(names, c.Name)
	}
	return names, page.Total
}

func cronStored(k *kit) {
	s := schedule(func(s *job.CronSpec) {
		s.Name, s.Expression, s.Timezone, s.Overlap = "a.b-9", " 5  9-17/2 ? * mon-FRI", "Europe/Berlin", job.OverlapAllow
		s.Description, s.Template = "the büro's report", cronTemplate(`{"queue":"mail","priority":7}`)
	})
	c, created, err := k.s.PutCron(k.ctx(), s)
	if err != nil || !created {
		k.t.Fatalf("put: created %v, %v", created, err)
	}
	if c.Name != s.Name || c.Expression != s.Expression || c.Timezone != s.Timezone || c.Overlap != s.Overlap || c.Description != s.Description || !c.On() {
		k.t.Errorf("it is stored as\n%s", looks(c))
	}
	if !c.CreatedAt.Equal(k.now()) || !c.UpdatedAt.Equal(k.now()) || !c.LastRunAt.IsZero() || c.RunCount != 0 {
		k.t.Errorf("at %s it is\n%s", k.now(), looks(c))
	}
	for name, want := range map[string]string{"type": `"report.build"`, "args": `["ada"]`, "queue": `"mail"`, "priority": "7"} {
		if got := k.template(c, name); got != want {
			k.t.Errorf("%s of the template: got %s, want %s", name, got, want)
		}
	}
	if got := looks(k.cron(s.Name)); got != looks(c) {
		k.t.Errorf("put\n%s\nread\n%s", looks(c), got)
	}
	again, created, err := k.s.PutCron(k.ctx(), s)
	if err != nil || created || looks(again) != looks(c) {
		k.t.Errorf("put again: created %v, %v\n%s\nbefore\n%s", created, err, looks(again), looks(c))
	}
	plain := k.put(nil)
	if plain.Overlap != job.OverlapSkip || plain.Timezone != "" && plain.Timezone != "UTC" {
		k.t.Errorf("with nothing chosen it is\n%s", looks(plain))
	}
	for _, name := range []string{"0", "a", "9.-", strings.Repeat("a.-0", 63) + "end"} { // the last has 255 characters
		k.put(func(s *job.CronSpec) { s.Name = name })
		if c := k.cron(name); c.Name != name {
			k.t.Errorf("%s is stored as %s", name, c.Name)
		}
	}
	if q := k.put(func(s *job.CronSpec) { s.Name, s.Overlap = "q", "queue" }); q.Overlap != job.OverlapEnqueue {
		k.t.Errorf("queue is stored as %q", q.Overlap)
	}
}

func cronNext(k *kit) {
	for _, tt := range []struct{ from, expression, zone, want string }{
		{"2027-01-04T00:30:00Z", "0 9 * * *", "", "2027-01-04T09:00:00Z"},
		{"2027-01-04T09:00:00Z", "0 9 * * *", "", "2027-01-05T09:00:00Z"},
		{"2027-01-04T00:30:00Z", "30 0 9 * * *", "UTC", "2027-01-04T09:00:30Z"},
		{"2027-01-04T00:30:00Z", "0 0 13 * 5", "", "2027-01-08T00:00:00Z"}, // either day
		{"2027-01-04T00:30:00Z", "0 12 L * *", "", "2027-01-31T12:00:00Z"},
		{"2027-01-04T00:30:00Z", "0 12 ? * 1#2", "", "2027-01-11T12:00:00Z"},
		{"2027-01-04T00:30:00Z", "@hourly", "", "2027-01-04T01:00:00Z"},
		{"2027-01-04T00:30:00Z", "@daily", "", "2027-01-05T00:00:00Z"},
		{"2027-01-04T00:30:00Z", "@weekly", "", "2027-01-10T00:00:00Z"},
		{"2027-01-04T00:30:00Z", "@monthly", "America/New_York", "2027-02-01T05:00:00Z"},
		{"2027-01-04T00:30:00Z", "CRON_TZ=Asia/Kolkata 0 9 * * *", "", "2027-01-04T03:30:00Z"},
		{"2027-03-27T07:00:00Z", "0 9 * * *", "Europe/Berlin", "2027-03-27T08:00:00Z"},
		{"2027-03-27T08:30:00Z", "0 9 * * *", "Europe/Berlin", "2027-03-28T07:00:00Z"},
		{"2027-10-30T08:00:00Z", "0 9 * * *", "Europe/Berlin", "2027-10-31T08:00:00Z"},
		{"2027-03-27T02:00:00Z", "30 2 * * *", "Europe/Berlin", "2027-03-29T00:30:00Z"}, // no such time on the 28th
		{"2027-10-31T00:40:00Z", "30 2 * * *", "Europe/Berlin", "2027-11-01T01:30:00Z"}, // the second 02:30 of the day does not count
		{"2027-10-31T00:40:00Z", "30 * * * *", "Europe/Berlin", "2027-10-31T01:30:00Z"}, // and here it does
	} {
		k.begin(instant(k, tt.from))
		name := fmt.Sprintf("n%d", k.now().UnixNano())
		c := k.put(func(s *job.CronSpec) { s.Name, s.Expression, s.Timezone = name, tt.expression, tt.zone })
		k.next("from "+tt.from, c, instant(k, tt.want))
		k.next("read", k.cron(name), instant(k, tt.want))
		if c.Expression != tt.expression {
			k.t.Errorf("%q is stored as %q", tt.expression, c.Expression)
		}
		k.drop(name)
	}
}

// instant reads a time.
func instant(k *kit, s string) time.Time {
	k.t.Helper()
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		k.t.Fatal(err)
	}
	return t
}

// drop removes a schedule.
func (k *kit) drop(name string) *job.Cron {
	k.t.Helper()
	c, err := k.s.DeleteCron(k.ctx(), name)
	if err != nil {
		k.t.Fatalf("delete %s: %v", name, err)
	}
	return c
}

func cronEvery(k *kit) {
	k.begin(at(0, 7))
	c := k.put(func(s *job.CronSpec) { s.Expression, s.Overlap = "@every 25m", job.OverlapAllow })
	k.next("at first", c, at(0, 32))
	k.reach(at(0, 58))
	k.next("after two runs", k.cron("nightly"), at(1, 22))
	k.ticked("two periods later", at(0, 32), at(0, 57))
	k.pass(10 * time.Minute)
	same := k.put(func(s *job.CronSpec) {
		s.Expression, s.Overlap, s.Description = "@every 25m", job.OverlapAllow, "put again"
	})
	k.next("put again", same, at(1, 22))
	k.begin(at(3, 0)) // away while 01:22, 01:47, 02:12 and 02:37 passed
	k.pass(time.Minute)
	k.next("after a while away", k.cron("nightly"), at(3, 2))
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.reach(at(3, 5))
	k.next("resumed", k.change("nightly", job.CronPatch{Enabled: ptr(true)}), at(3, 27))
	k.begin(at(3, 10))
	k.next("after a restart between two runs", k.cron("nightly"), at(3, 27))
	k.next("with another template", k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"args":[2]}`)}), at(3, 27))
	k.next("with another period", k.put(func(s *job.CronSpec) { s.Expression = "@every 1h" }), at(4, 10))
	k.next("back at the first", k.put(func(s *job.CronSpec) { s.Expression = "@every 25m" }), at(3, 35))
}

func cronUpsert(k *kit) {
	first := k.put(nil)
	k.reach(at(1, 10))
	ran := k.cron("nightly")
	next := k.put(func(s *job.CronSpec) {
		s.Overlap, s.Description, s.Template = job.OverlapAllow, "new", cronTemplate(`{"queue":"mail","priority":3}`)
	})
	if !next.CreatedAt.Equal(first.CreatedAt) || next.RunCount != 1 || !next.LastRunAt.Equal(ran.LastRunAt) || !next.NextRunAt.Equal(at(2, 0)) {
		k.t.Errorf("before\n%s\nput again\n%s", looks(ran), looks(next))
	}
	if !next.UpdatedAt.Equal(k.now()) || next.Description != "new" || next.Overlap != job.OverlapAllow {
		k.t.Errorf("at %s it is\n%s", k.now(), looks(next))
	}
	k.reach(at(2, 1))
	if jobs := k.ticked("the old template and the new", at(1, 0), at(2, 0)); len(jobs) == 2 && (jobs[0].Priority != 0 || jobs[1].Priority != 3) {
		k.t.Errorf("priorities %d and %d", jobs[0].Priority, jobs[1].Priority)
	}
	if h := k.runs("nightly", 0); len(h) != 2 {
		k.t.Errorf("%d runs are remembered, want both", len(h))
	}
}

func cronUpsertTime(k *kit) {
	first := k.put(func(s *job.CronSpec) { s.Expression = "0 9 * * *" })
	k.next("at first", first, at(9, 0))
	k.pass(time.Minute)
	zoned := k.put(func(s *job.CronSpec) { s.Expression, s.Timezone = "0 9 * * *", "Europe/Berlin" })
	k.next("in Berlin", zoned, at(8, 0))
	moved := k.put(func(s *job.CronSpec) { s.Expression, s.Timezone = "0 5 * * *", "Europe/Berlin" })
	k.next("at five", moved, at(4, 0))
	if !moved.CreatedAt.Equal(first.CreatedAt) {
		k.t.Errorf("created at %s, and put again at %s", first.CreatedAt, moved.CreatedAt)
	}
	k.reach(at(8, 30))
	k.ticked("only the last counts", at(4, 0))
}

func cronUpsertPaused(k *kit) {
	off := k.put(func(s *job.CronSpec) { s.Enabled = ptr(false) })
	if off.On() || !off.NextRunAt.IsZero() {
		k.t.Errorf("put paused it is\n%s", looks(off))
	}
	off = k.put(func(s *job.CronSpec) { s.Description = "still" })
	if off.On() || !off.NextRunAt.IsZero() || off.Description != "still" {
		k.t.Errorf("put again it is\n%s", looks(off))
	}
	k.reach(at(3, 30))
	k.ticked("while it is paused")
	on := k.put(func(s *job.CronSpec) { s.Enabled = ptr(true) })
	if !on.On() {
		k.t.Errorf("enabled it is\n%s", looks(on))
	}
	k.next("enabled", on, at(4, 0))
	k.reach(at(4, 10))
	k.ticked("what passed is not made up for", at(4, 0))
	if on = k.put(nil); !on.On() {
		k.t.Errorf("put again it is\n%s", looks(on))
	}
}
