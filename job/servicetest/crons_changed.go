package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func cronChange(k *kit) {
	first := k.put(func(s *job.CronSpec) {
		s.Template = json.RawMessage(`{"type":"report.build","args":["ada"],"meta":{"a":1,"b":2},"options":{"queue":"mail","priority":7}}`)
	})
	k.pass(time.Minute)
	c := k.change("nightly", job.CronPatch{Description: ptr("new"), Template: json.RawMessage(`{"args":[2],"meta":{"b":null,"c":3},"options":{"priority":null,"timeout":9}}`)})
	for name, want := range map[string]string{"type": `"report.build"`, "args": `[2]`, "queue": `"mail"`, "priority": "", "timeout": "9"} {
		if got := k.template(c, name); got != want {
			k.t.Errorf("%s of the template: got %s, want %q in %s", name, got, want, c.Template)
		}
	}
	k.next("with another template", c, at(1, 0))
	if !c.CreatedAt.Equal(first.CreatedAt) || !c.UpdatedAt.Equal(k.now()) || c.Description != "new" || c.Overlap != job.OverlapSkip {
		k.t.Errorf("changed at %s to\n%s", k.now(), looks(c))
	}
	k.next("in Kolkata", k.change("nightly", job.CronPatch{Timezone: ptr("Asia/Kolkata")}), at(1, 30))
	k.next("at five past", k.change("nightly", job.CronPatch{Expression: ptr("5 * * * *"), Timezone: ptr("UTC")}), at(1, 5))
	k.next("paused", k.change("nightly", job.CronPatch{Enabled: ptr(false)}), time.Time{})
	k.next("changed while paused", k.change("nightly", job.CronPatch{Overlap: ptr(job.OverlapAllow)}), time.Time{})
	c = k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.next("resumed", c, at(1, 5))
	if got := looks(k.cron("nightly")); got != looks(c) || c.Overlap != job.OverlapAllow {
		k.t.Errorf("changed to\n%s\nread\n%s", looks(c), got)
	}
	k.reach(at(1, 6))
	for _, j := range k.ticked("the first run", at(1, 5)) {
		k.shows(j, "args", `[2]`)
		k.expect(j.Meta, "a", "1")
		k.expect(j.Meta, "b", "")
		k.expect(j.Meta, "c", "3")
		if j.Priority != 0 || j.Timeout != 9*time.Second {
			k.t.Errorf("made was %s", text(j))
		}
	}
}

func cronList(k *kit) {
	if names, total := k.list(job.CronFilter{}); len(names) != 0 || total != 0 {
		k.t.Errorf("of none %q are listed, %d in all", names, total)
	}
	var all []string
	for i := range 70 {
		name := fmt.Sprintf("s%02d", 69-i)
		k.put(func(s *job.CronSpec) { s.Name, s.Enabled = name, ptr(i%10 != 0) })
		all = append(all, fmt.Sprintf("s%02d", i))
	}
	off := []string{"s09", "s19", "s29", "s39", "s49", "s59", "s69"}
	on := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(off, n) })
	for _, tt := range []struct {
		f     job.CronFilter
		want  []string
		total int64
	}{
		{job.CronFilter{}, all, 70}, {job.CronFilter{Limit: 3}, all[:3], 70}, {job.CronFilter{Limit: 3, Offset: 68}, all[68:], 70},
		{job.CronFilter{Offset: 60}, all[60:], 70}, {job.CronFilter{Offset: 99}, nil, 70}, {job.CronFilter{Limit: 1000}, all, 70},
		{job.CronFilter{Enabled: ptr(true)}, on, 63}, {job.CronFilter{Enabled: ptr(false)}, off, 7},
		{job.CronFilter{Enabled: ptr(false), Limit: 2, Offset: 1}, off[1:3], 7},
		{job.CronFilter{Limit: 2, Cursor: "s09"}, all[10:12], 70}, {job.CronFilter{Cursor: "s66x"}, all[67:], 70}, {job.CronFilter{Cursor: "t"}, nil, 70},
		{job.CronFilter{Enabled: ptr(false), Limit: 1, Cursor: "s11", Offset: 1}, off[2:3], 7},
	} {
		if names, total := k.list(tt.f); !slices.Equal(names, tt.want) || total != tt.total {
			k.t.Errorf("%+v: %q, %d in all; want %q, %d", tt.f, names, total, tt.want, tt.total)
		}
	}
	var read []string // page by page, while one goes that was read and one comes
	f := job.CronFilter{Limit: 20}
	for range 4 {
		page, err := k.s.Crons(k.ctx(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, c := range page.Crons {
			read = append(read, c.Name)
		}
		if f.Cursor = page.Next; f.Cursor == all[19] {
			if _, err := k.s.DeleteCron(k.ctx(), "s00"); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	if !slices.Equal(read, all) || f.Cursor != "" {
		k.t.Errorf("page by page %q, and more behind %q", read, f.Cursor)
	}
	page, err := k.s.Crons(k.ctx(), job.CronFilter{Limit: 1, Offset: 4})
	if err != nil || len(page.Crons) != 1 || looks(page.Crons[0]) != looks(k.cron("s05")) {
		k.t.Errorf("listed\n%+v, %v\nread\n%s", page, err, looks(k.cron("s05")))
	}
}
