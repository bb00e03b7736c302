package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// badCron is a schedule that must be refused.
type badCron struct {
	what, field string
	kind        job.Kind
	change      func(*job.CronSpec)
}

// badCrons are the faults of contract §3.15, each in an otherwise good schedule.
func badCrons() (bad []badCron) {
	add := func(what, field string, kind job.Kind, change func(*job.CronSpec)) {
		bad = append(bad, badCron{what, field, kind, change})
	}
	for _, name := range []string{"", "Nightly", "-x", ".x", "a b", "a_b", "a/b", "ü", "a\n", strings.Repeat("a", 256)} {
		add(fmt.Sprintf("name %.20q", name), "name", job.Invalid, func(s *job.CronSpec) { s.Name = name })
	}
	for _, text := range []string{"", "   ", "* * * *", "0 0 0 0 0 0 0", "61 * * * *", "*/0 * * * *", "5-1 * * * *", "1,,2 * * * *", "0 0 31 2 *",
		"@reboot", "@every 500ms", "@every", "@sometimes", "x * * * *", "* * * * * # daily", strings.Repeat("1,", 200) + "1 * * * *"} {
		add(fmt.Sprintf("expression %.20q", text), "expression", job.Invalid, func(s *job.CronSpec) { s.Expression = text })
	}
	for _, zone := range []string{"Mars/Phobos", "Local", "+02:00", "UTC+2", "CEST", "PST", "europe/berlin", "../etc/passwd", " "} {
		add(fmt.Sprintf("zone %q", zone), "timezone", job.Invalid, func(s *job.CronSpec) { s.Timezone = zone })
	}
	add("zone in the expression", "expression", job.Invalid, func(s *job.CronSpec) { s.Expression = "TZ=Local 0 9 * * *" })
	add("overlap", "overlap_policy", job.Invalid, func(s *job.CronSpec) { s.Overlap = "drop" })
	add("description", "description", job.Invalid, func(s *job.CronSpec) { s.Description = strings.Repeat("ü", 1001) })
	for _, tt := range []struct{ field, template string }{
		{"type", `{"args":[]}`}, {"type", `{"type":"No","args":[]}`}, {"args", `{"type":"a.b","args":{}}`},
		{"priority", `{"type":"a.b","args":[],"options":{"priority":101}}`}, {"queue", `{"type":"a.b","args":[],"options":{"queue":"No Queue"}}`},
		{"unique.keys", `{"type":"a.b","args":[],"options":{"unique":{"keys":["colour"]}}}`}, {"options", `{"type":"a.b","args":[],"options":[]}`},
		{"meta", `{"type":"a.b","args":[],"meta":1}`}, {"id", `{"id":"01970000-0000-7000-8000-00000000beef","type":"a.b","args":[]}`},
		{"id", `{"type":"a.b","args":[],"options":{"job_id":"mine"}}`},
		{"scheduled_at", `{"type":"a.b","args":[],"options":{"scheduled_at":"2027-02-01T00:00:00Z"}}`},
		{"expires_at", `{"type":"a.b","args":[],"options":{"expires_at":"2027-02-01T00:00:00Z"}}`},
	} {
		add("template "+tt.template, tt.field, job.Invalid, func(s *job.CronSpec) { s.Template = json.RawMessage(tt.template) })
	}
	for _, retry := range []string{`{"max_attempts":-1}`, `{"backoff_coefficient":0.5}`, `{"initial_interval":"soon"}`} {
		field := strings.Split(retry, `"`)[1]
		add("retry "+retry, field, job.BadRetry, func(s *job.CronSpec) { s.Template = cronTemplate(`{"retry":` + retry + `}`) })
	}
	return bad
}

// refused makes sure that an error is of a kind, and names the field in its details and for a person.
func (k *kit) refused(what string, err error, kind job.Kind, field string) {
	k.t.Helper()
	e := k.is(what, err, kind)
	got, _ := e.Details["field"].(string)
	if got != field && !strings.HasSuffix(got, "."+field) {
		k.t.Errorf("%s: details %v, want the field %s (%s)", what, e.Details, field, e.Message)
	}
	if last := field[strings.LastIndexByte(field, '.')+1:]; !strings.Contains(e.Message, strings.TrimSuffix(last, "_policy")) {
		k.t.Errorf("%s: the message does not name %s: %s", what, field, e.Message)
	}
}

func cronBad(k *kit) {
	for _, b := range badCrons() {
		_, created, err := k.s.PutCron(k.ctx(), schedule(b.change))
		if created {
			k.t.Errorf("%s: created", b.what)
		}
		k.refused(b.what, err, b.kind, b.field)
	}
	if names, total := k.list(job.CronFilter{}); len(names) != 0 || total != 0 {
		k.t.Errorf("%q are stored, %d in all", names, total)
	}
	k.pass(time.Hour)
	k.ticked("an hour later")
}

func cronBadPlace(k *kit) {
	for _, tt := range []struct {
		text string
		at   int
		says string
	}{
		{"61 * * * *", 0, "61"}, {"0 25 * * *", 2, "25"}, {"0 0 32 * *", 4, "32"}, {"0 0 * 13 *", 6, "13"},
		{"0 0 * * 8", 8, "8"}, {"0  0 * * MOO", 9, "MOO"}, {"0 0 31 2 *", 4, "never"}, {"@reboot", 0, "@reboot"},
	} {
		_, _, err := k.s.PutCron(k.ctx(), schedule(func(s *job.CronSpec) { s.Expression = tt.text }))
		e := k.is(tt.text, err, job.Invalid)
		if e.Details["field"] != "expression" || fmt.Sprint(e.Details["position"]) != fmt.Sprint(tt.at) || !strings.Contains(e.Message, tt.says) {
			k.t.Errorf("%s: details %v, want position %d and %q in: %s", tt.text, e.Details, tt.at, tt.says, e.Message)
		}
	}
	for _, zone := range []string{"Europe/Berln", "Local", "+02:00", "CEST"} {
		_, _, err := k.s.PutCron(k.ctx(), schedule(func(s *job.CronSpec) { s.Timezone = zone }))
		if e := k.is(zone, err, job.Invalid); !strings.Contains(e.Message, zone) {
			k.t.Errorf("the message does not say %s: %s", zone, e.Message)
		}
	}
}

func cronBadUpsert(k *kit) {
	before := looks(k.put(nil))
	for _, b := range badCrons() {
		s := schedule(b.change)
		_, _, err := k.s.PutCron(k.ctx(), s)
		k.is(b.what, err, b.kind)
	}
	if after := looks(k.cron("nightly")); after != before {
		k.t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	k.reach(at(1, 1))
	k.ticked("it goes on", at(1, 0))
}

func cronBadChange(k *kit) {
	before := looks(k.put(nil))
	for _, tt := range []struct {
		what, field string
		kind        job.Kind
		p           job.CronPatch
	}{
		{"expression", "expression", job.Invalid, job.CronPatch{Expression: ptr("61 * * * *"), Description: ptr("new")}},
		{"empty expression", "expression", job.Invalid, job.CronPatch{Expression: ptr("")}},
		{"zone", "timezone", job.Invalid, job.CronPatch{Timezone: ptr("Local"), Enabled: ptr(false)}},
		{"overlap", "overlap_policy", job.Invalid, job.CronPatch{Overlap: ptr(job.Overlap("drop"))}},
		{"type", "type", job.Invalid, job.CronPatch{Template: json.RawMessage(`{"type":null}`)}},
		{"options", "priority", job.Invalid, job.CronPatch{Template: json.RawMessage(`{"options":{"priority":1000}}`)}},
		{"id", "id", job.Invalid, job.CronPatch{Template: json.RawMessage(`{"id":"01970000-0000-7000-8000-00000000beef"}`)}},
		{"retry", "max_attempts", job.BadRetry, job.CronPatch{Template: json.RawMessage(`{"options":{"retry":{"max_attempts":-1}}}`)}},
	} {
		_, err := k.s.ChangeCron(k.ctx(), "nightly", tt.p)
		k.refused(tt.what, err, tt.kind, tt.field)
		if after := looks(k.cron("nightly")); after != before {
			k.t.Errorf("%s: before\n%s\nafter\n%s", tt.what, before, after)
		}
	}
}

func cronUnknown(k *kit) {
	k.put(nil)
	for _, name := range []string{"other", "nightly2", "a/b", "Nightly", "../queues", "x y"} {
		for what, do := range map[string]func() error{
			"read":    func() error { _, err := k.s.Cron(k.ctx(), name); return err },
			"delete":  func() error { _, err := k.s.DeleteCron(k.ctx(), name); return err },
			"trigger": func() error { _, err := k.s.TriggerCron(k.ctx(), name); return err },
			"history": func() error { _, err := k.s.CronHistory(k.ctx(), name, 0); return err },
			"change":  func() error { _, err := k.s.ChangeCron(k.ctx(), name, job.CronPatch{Enabled: ptr(false)}); return err },
		} {
			e := k.is(what+" "+name, do(), job.NotFound)
			if e.Details["resource_type"] != "cron" || e.Details["resource_id"] != name {
				k.t.Errorf("%s %s: details %v", what, name, e.Details)
			}
		}
	}
	if names, _ := k.list(job.CronFilter{}); !slices.Equal(names, []string{"nightly"}) {
		k.t.Errorf("%q are left", names)
	}
	k.empty()
}
