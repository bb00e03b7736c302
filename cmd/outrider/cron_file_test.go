package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// cronFiles are files of schedules, right and wrong.
var cronFiles = []struct{ name, text string }{
	{"both_dialects.yaml", `
x-mail: &mail {queue: mail, retry: {max_attempts: 3}}
crons:
  - name: nightly-report # a comment
    cron: "30 2 * * *"
    timezone: Europe/Berlin
    overlap_policy: queue
    description: |
      two
      lines
    type: report.generate
    args: [1, 0x1F, 1_000, 12345678901234567890123, 1.50, 1e5, .5, ~, yes, true, 2026-01-01, 0o17, +5, '1', "é\n", {a: b}]
    options:
      <<: *mail
      queue: reports
  - name: cleanup
    expression: '@every 1h30m'
    enabled: false
    job_template:
      type: cleanup.run
      meta: {tenant: "7"}
      options: *mail
`},
	{"plain.json", "{\n\t\"crons\": [\n\t\t{\"name\": \"a\", \"schedule\": \"@daily\", \"type\": \"x.y\", \"args\": [12345678901234567890, \"\\ud83d\\ude00\"]},\n" +
		"\t\t{\"name\": \"a\", \"schedule\": \"@daily\", \"type\": \"x.y\"},\n\t\t{\"name\": \"b\", \"name\": \"c\",\n\t\t\"cron\": \"@daily\"},\n\t\t7,\n\t\t{\"name\": \"d\", \"cron\": \"0 3 32 * *\", \"type\": \"x.y\"}\n\t]\n}"},
	{"broken.json", "{\"crons\": [\n  {\"name\": \"a\",}\n]}"},
	{"mistakes.yaml", `
crons:
  - {name: expr, cron: "0 3 32 * *", type: a.b}
  - {name: zone, cron: "0 3 * * *", timezone: Europe/Pariss, type: a.b}
  - {name: key, corn: "0 3 * * *", type: a.b}
  - {name: option, cron: "0 3 * * *", type: a.b, queue: mail}
  - {name: odd, cron: "0 3 * * *", type: a.b, colour: red}
  - {cron: "0 3 * * *", type: a.b}
  - {name: Upper, cron: "0 3 * * *", type: a.b}
  - {name: none, type: a.b}
  - {name: two, cron: "0 3 * * *", schedule: "0 3 * * *", type: a.b}
  - {name: typeless, cron: "0 3 * * *"}
  - {name: both, cron: "0 3 * * *", type: a.b, job_template: {type: a.b}}
  - {name: template, cron: "0 3 * * *", job_template: a.b}
  - {name: args, cron: "0 3 * * *", type: a.b, args: {a: 1}}
  - {name: 12, cron: "0 3 * * *", type: a.b}
  - {name: bool, cron: "0 3 * * *", type: a.b, enabled: yes}
  - {name: policy, cron: "0 3 * * *", type: a.b, overlap_policy: wait}
  - {name: id, cron: "0 3 * * *", job_template: {type: a.b, id: 01970000-0000-7000-8000-000000000001}}
  - name: deep
    cron: "0 3 * * *"
    type: a.b
    options:
      retry: {max_attempts: -1}
  - name: twice
    cron: "0 3 * * *"
    cron: "0 4 * * *"
    type: a.b
  - {name: octal, cron: "0 3 * * *", type: a.b, args: [007]}
  - {name: tag, cron: "0 3 * * *", type: a.b, args: [!!binary aGk=]}
  - {name: text, cron: "0 3 * * *", type: a.b, args: [!!str 5]}
  - {name: inf, cron: "0 3 * * *", type: a.b, args: [.inf]}
  - {name: alias, cron: "0 3 * * *", type: a.b, args: [*nobody]}
  - {name: loop, cron: "0 3 * * *", type: a.b, args: &loop [*loop]}
  - just text
  -
  - {name: text, cron: "0 5 * * *", type: a.b}
  - {name: good, cron: "0 3 * * *", type: a.b}
`},
	{"star.yaml", "crons:\n  - name: star\n    cron: * 3 * * *\n    type: a.b\n  - name: good\n    cron: 0 3 * * *\n    type: a.b\n"},
	{"bare.yaml", "crons:\n  - name: slash\n    cron: */5 * * * * # often\n    type: a.b\n  - cron: @daily\n    name: macro\n    type: a.b\n  - name: good\n    cron: 0 3 * * *\n    type: a.b\n"},
	{"empty.yaml", " \n"}, {"comment.yaml", "# nothing\n"}, {"null.yaml", "crons:\n"}, {"none.yaml", "crons: []\n"}, {"none.json", `{"crons":[]}`},
	{"object.yaml", "crons: {a: b}\n"}, {"list.yaml", "- name: a\n"}, {"list.json", "[]"}, {"text.json", `{"crons": 5}`}, {"typo.yaml", "corns: []\n"}, {"other.yaml", "jobs: []\n"},
	{"again.yaml", "crons: []\ncrons: []\n"}, {"again.json", `{"crons": [], "crons": []}`}, {"two.yaml", "crons: []\n---\ncrons: []\n"},
	{"colon.yaml", "crons:\n  - name: a\n    description: what: is this\n"}, {"tab.yaml", "crons:\n\t- name: a\n"}, {"bytes.yaml", "crons: [\xff]"},
	{"bom.yaml", "\ufeffcrons:\r\n  - name: a\r\n    cron: \"0 3 * * *\"\r\n    type: a.b\r\n"},
	{"directive.yaml", "%YAML 1.2\n---\ncrons: []\n"},
	{"escape.yaml", "crons:\n  - name: \"\\e[31mred\"\n    cron: \"0 3 * * \\e[31m\"\n    type: a.b\n"},
}

// TestCronFiles holds what is read of files of schedules, and what is said of their mistakes, word for word.
func TestCronFiles(t *testing.T) {
	var b strings.Builder
	for _, tt := range cronFiles {
		fmt.Fprintf(&b, "--- %s\n", tt.name)
		f, err := parseCronFile(tt.name, []byte(tt.text))
		if err != nil {
			fmt.Fprintf(&b, "error: %s\n", err)
			continue
		}
		for _, e := range f.entries {
			if e.err != nil {
				fmt.Fprintf(&b, "! %q: %s\n", e.shown, e.err)
				continue
			}
			enabled := "-"
			if e.spec.Enabled != nil {
				enabled = fmt.Sprint(*e.spec.Enabled)
			}
			fmt.Fprintf(&b, "line %d: %s %q in %s, %s, enabled %s, %q, %s\n", e.line, e.name, e.spec.Expression, e.sched.Zone(), e.spec.Overlap,
				enabled, e.spec.Description, e.spec.Template)
		}
	}
	golden(t, "testdata/cron_files.golden", b.String())
}

// TestCronFilesAreBounded: a file that is made to cost more than its length is refused soon.
func TestCronFilesAreBounded(t *testing.T) {
	const head = "crons:\n  - name: good\n    cron: \"0 3 * * *\"\n    type: a.b\n  - name: bad\n    cron: \"0 3 * * *\"\n    type: a.b\n"
	var laughs, merges, wide, flow strings.Builder
	big := "x-big: &big\n"
	laughs.WriteString("x-0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	merges.WriteString("x-0: &m0 {a: 1}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "x-%d: &l%d [%s*l%d]\n", i, i, strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 8), i-1)
		fmt.Fprintf(&merges, "x-%d: &m%d {<<: [%s*m%d]}\n", i, i, strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 8), i-1)
	}
	for i := range 9_000 {
		if i < 1000 {
			big += fmt.Sprintf("  k%d: 1\n", i)
		}
		fmt.Fprintf(&wide, "      k%d: 1\n", i)
		fmt.Fprintf(&flow, "k%d: 1, ", i)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"long":     {strings.Repeat("#", maxCronFile+1), "longer than 1 MiB"},
		"brackets": {head + "    args: " + strings.Repeat("[", 60_000), "deep"},
		"pairs":    {head + "    args: " + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000), "deep"},
		"dashes":   {head + "    args:\n      " + strings.Repeat("- ", 30_000) + "a\n", "deep"},
		"anchors":  {head + "    args: " + strings.Repeat("&a ", 30_000) + "[]\n", "deep"},
		"tags":     {head + "    args: " + strings.Repeat("!a ", 30_000) + "[]\n", "deep"},
		"keys":     {head + "    meta:\n" + wide.String(), "1000 members"},
		"braces":   {head + "    meta: {" + flow.String() + "}\n", "1000 members"},
		"laughs":   {laughs.String() + head + "    args: *l29\n", "4 MiB"},
		"merges":   {merges.String() + big + head + "    args: [" + strings.Repeat("{<<: *big}, ", 9_000) + "]\n    meta: *m29\n", "4 MiB"},
		"json":     {`{"crons":[{"name":"good","cron":"0 3 * * *","type":"a.b"},{"name":"bad","meta":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + `,"cron":"0 3 * * *","type":"a.b"}]}`, "nested deeper"},
	} {
		began := time.Now()
		f, err := parseCronFile(name, []byte(tt.text))
		if err == nil && len(f.entries) == 2 && f.entries[1].err != nil {
			if err = f.entries[1].err; f.entries[0].err != nil {
				t.Errorf("%s: the entry beside it is refused: %v", name, f.entries[0].err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tt.want)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// FuzzCronFile: no text makes the reader fall over, or take an entry that is not checked.
func FuzzCronFile(f *testing.F) {
	for _, tt := range cronFiles {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parseCronFile("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, e := range file.entries {
			if e.err != nil {
				continue
			}
			if _, err := e.spec.Validate(); err != nil || names[e.name] || e.sched.Location() == nil || e.spec.Source != fromFile {
				t.Errorf("took %+v: %v", e.spec, err)
			}
			names[e.name] = true
		}
	})
}
