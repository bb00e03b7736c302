package sift

import (
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestTime(t *testing.T) {
	local := noon.Local()
	day := func(days, h, m int) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+days, h, m, 0, 0, time.Local)
	}
	for _, c := range []struct {
		text string
		way  Direction
		want time.Time
	}{
		{"1h", Past, noon.Add(-time.Hour)},
		{"1h", Future, noon.Add(time.Hour)},
		{"in 1h 30m", Future, noon.Add(90 * time.Minute)},
		{"2d 3h ago", Past, noon.Add(-51 * time.Hour)},
		{"+90s", Future, noon.Add(90 * time.Second)},
		{"1.5h", Past, noon.Add(-90 * time.Minute)},
		{"PT5M", Past, noon.Add(-5 * time.Minute)},
		{"pt5m", Past, noon.Add(-5 * time.Minute)},
		{"1w", Past, noon.Add(-7 * 24 * time.Hour)},
		{"250ms", Past, noon.Add(-250 * time.Millisecond)},
		{"now", Past, noon},
		{"today", Past, day(0, 0, 0)},
		{"yesterday", Past, day(-1, 0, 0)},
		{"tomorrow", Future, day(1, 0, 0)},
		{"00:00", Past, day(0, 0, 0)},
		{local.Add(-time.Hour).Format("15:04"), Future, local.Add(23 * time.Hour)},
		{local.Add(time.Hour).Format("15:04"), Future, local.Add(time.Hour)},
		{"2026-02-03T04:05:06+02:00", Past, time.Date(2026, 2, 3, 2, 5, 6, 0, time.UTC)},
		{"2026-02-03", Past, time.Date(2026, 2, 3, 0, 0, 0, 0, time.Local)},
		{"2026-02-03 04:05", Past, time.Date(2026, 2, 3, 4, 5, 0, 0, time.Local)},
		{"2026-02-03T04:05:06", Past, time.Date(2026, 2, 3, 4, 5, 6, 0, time.Local)},
	} {
		got, err := Time(c.text, noon, c.way)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%q: got %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "soon", "1", "1x", "h", "1h1", "-1h", "P", "26:00", "2026-13-01", "1e9h", "999999999999w", "1h-", "٣h"} {
		if got, err := Time(text, noon, Past); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestArgs(t *testing.T) {
	const args = `["ada@example.com", 17, {"to": {"email": "x@y", "a.b": 1}, "n": 1e2, "big": 9007199254740993}, "17", [true, null], "k=v"]`
	for text, want := range map[string]bool{
		"ada@example.com": true, "0=ada@example.com": true, "1=ada@example.com": false, "1=17": true, "3=17": true, "17": true, "18": false,
		"to.email=x@y": true, "2.to.email=x@y": true, "to.email=z": false, "to.a.b=1": true, "n=100": true, "n=1e2": true, "n=101": false,
		"big=9007199254740993": true, "big=9007199254740992": false, "4.0=true": true, "4.0=false": false, "[true,null]": true, "[true]": false,
		`2.to={"a.b":1.0,"email":"x@y"}`: true, "k=v": true, "k=w": false, "9=17": false, "nothing=": false, "4.1=null": true,
	} {
		s, err := Words{Args: []string{text}}.Sieve(noon)
		if err != nil {
			t.Fatal(err)
		}
		j := &job.Job{}
		j.Args = []byte(args)
		if got := s.Takes(j); got != want {
			t.Errorf("--arg %s: got %v", text, got)
		}
	}
}

func TestSieve(t *testing.T) {
	s, err := Words{States: []string{"active", "active", "discarded"}, Type: "a.*", Queue: "q", Since: "1h"}.Sieve(noon)
	if err != nil || len(s.Filter.States) != 2 || !s.Whole() || s.Open() || !s.Filter.Since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("got %+v, %v", s, err)
	}
	if got, want := s.About(), "in queue q, of type a.*, in state active or discarded, since 2026-05-04T11:00:00.000Z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f, ok := s.Bulk(); !ok || f.Queue != "q" {
		t.Errorf("got %+v, %v", f, ok)
	}
	// A request about many jobs is not held to a tenant, nor to what only this side looks at.
	for _, w := range []Words{{Tenant: "t"}, {Args: []string{"1"}}, {Error: "x"}, {Tags: []string{"x"}}} {
		if s, err := w.Sieve(noon); err != nil {
			t.Fatal(err)
		} else if _, ok := s.Bulk(); ok || s.Open() {
			t.Errorf("%+v: may be asked of the server", w)
		}
	}
	for want, w := range map[string]Words{
		`--state "failed" is no state of a job; did you mean discarded?`: {States: []string{"failed"}},
		`--state "actve" is no state of a job; did you mean active?`:     {States: []string{"actve"}},
		`--state "faild" is no state of a job; did you mean discarded?`:  {States: []string{"faild"}},
		`--state "Running" is no state of a job; did you mean active?`:   {States: []string{"Running"}},
		`--state "xyzzy" is no state of a job; there are`:                {States: []string{"xyzzy"}},
		`--type "*.send": a * may stand at the end only`:                 {Type: "*.send"},
		`--queue "A B" is not the name of a queue`:                       {Queue: "A B"},
		`--since "soon" is no time`:                                      {Since: "soon"},
		`--since 1h is not before --until 2h, so no job lies between`:    {Since: "1h", Until: "2h"},
		`--arg must be NAME=VALUE, INDEX=VALUE or VALUE, got nothing`:    {Args: []string{""}},
	} {
		if _, err := w.Sieve(noon); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", w, err, want)
		}
	}
}

func TestErrorsAndTags(t *testing.T) {
	j := &job.Job{}
	j.Errors = []byte(`[{"type":"Old","message":"first"},{"type":"SmtpError","message":"Refused by host"}]`)
	j.Extra = []byte(`{"tags":["a","b"],"more":1}`)
	takes := func(w Words) bool {
		s, err := w.Sieve(noon)
		if err != nil {
			t.Fatal(err)
		}
		return s.Takes(j)
	}
	for _, c := range []struct {
		w    Words
		want bool
	}{{Words{Error: "refused"}, true}, {Words{Error: "smtp"}, true}, {Words{Error: "first"}, false}, {Words{Tags: []string{"a"}}, true},
		{Words{Tags: []string{"a", "b"}}, true}, {Words{Tags: []string{"a", "c"}}, false}} {
		if got := takes(c.w); got != c.want {
			t.Errorf("%+v: got %v", c.w, got)
		}
	}
	if got := Latest(j).String(); got != "SmtpError: Refused by host" {
		t.Errorf("got %q", got)
	}
	j.Error = []byte(`{"type":"Error","message":"now"}`)
	if got := Latest(j).String(); got != "now" {
		t.Errorf("got %q", got)
	}
	if got := Latest(&job.Job{}).String(); got != "" {
		t.Errorf("got %q", got)
	}
}
