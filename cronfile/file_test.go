package cronfile

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// files are files of schedules, right and wrong.
var files = []struct{ name, text string }{
	{"workflows.yaml", `
crons:
  - name: month-end
    cron: "0 4 1 * *"
    workflow:
      type: chain
      steps: [{type: books.close}, {type: report.send, args: [1.50]}]
  - name: named
    cron: "@daily"
    job_template: {type: the.name, workflow: {steps: [{id: a, type: x.y}]}}
  - name: beside
    cron: "@daily"
    workflow: {type: chain, steps: [{type: x.y}]}
    args: [1]
  - name: bad
    cron: "@daily"
    workflow:
      steps: [{id: charge, type: x.y}, {id: ship, type: x.z, depends_on: [chrage]}]
  - name: bad-inside
    cron: "@daily"
    job_template:
      workflow: 7
`},
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
    args: [1, 0x1F, 1_000, 12345678901234567890, 1.50, .5, ~, yes, true, 2026-01-01, 0o17, +5, '1', "é\n", {a: b}]
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
	{"numbers.json", "{\"crons\": [{\"name\": \"a\", \"cron\": \"@daily\", \"type\": \"x.y\", \"args\": [ 1e5, 12345678901234567890123,\t1.50,\n-0, 1E+2, {\"b\": 1, \"b\": \"\\u003c\\ud800\"}],\n" +
		"\"meta\": {\"cost\" : 1.50}, \"options\": {\"retry\": {\"max_attempts\" : 3}}},\n{\"name\": \"b\", \"cron\": \"@daily\", \"job_template\": {\"options\": null, \"args\": [1.0], \"type\": \"x.\\u0079\"}}]}"},
	{"mistakes.json", `{"x-note": {"a": 1, "a": 2},
"crons": [
{"name": "options", "cron": "@daily", "type": "x.y", "options": {
	"queue": "a",
	"queue": "b"}},
{"name": "template", "cron": "@daily", "job_template": {"type": "x.y",
	"type": "x.z"}},
{"cron": "@daily", "cron": "@hourly",
	"name": "late"},
{"name": "retry", "cron": "@daily", "job_template": {"type": "x.y",
	"options": {
		"retry": {"max_attempts": -1}}}},
{"name": 12345678901234567890},
{"name": ["a"], "cron": "@daily", "type": "x.y"},
{"name": "number", "cron":
	1e5, "type": "x.y"},
{"name": "null", "cron": null, "type": "x.y"},
{"name": "list", "cron": "@daily", "job_template": []},
{"name": "key", "cron": "@daily", "type": "x.y",
	"tz": "UTC"},
null, [], "text",
{"name": "good", "cron": "@daily", "type": "x.y"}]}`},
	{"later.json", "{\"crons\": [{\"name\": \"a\"}],\n\"corns\": []}"}, {"x.json", `{"x-crons": []}`}, {"json.yaml", "{\t\"crons\":[{\"name\":\"a\",\"cron\":\"@daily\",\"type\":\"x.y\",\"args\":[1e5]}]}"},
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
  - {name: 007, cron: "0 3 * * *", type: a.b}
  - {name: clock, cron: 12:30, type: a.b}
  - {name: long, cron: "0 3 * * *", type: a.b, args: [12345678901234567890123]}
  - {name: power, cron: "0 3 * * *", type: a.b, args: [1e5]}
  - {name: plus, cron: "0 3 * * *", type: a.b, args: [+1e5]}
  - {name: big, cron: 1e5, type: a.b}
  - {name: spelled, cron: "0 3 * * *", type: a.b, args: [-0, 1.50, 1E+2, "1.50", 1.0e-3, &n 2.50, *n, {k: 3.50}, !!str 4.50]}
  - name: block
    cron: "0 3 * * *"
    type: a.b
    args:
      - 1.50
      - |-
        a 5.50
      - - 12.0
    meta:
      size: 1.10 # a comment
  - {name: merged, cron: "0 3 * * *", type: a.b, meta: {<<: 5}}
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
	{"twice.yaml", "crons:\n  - name: twice\n    cron: \"0 3 * * *\"\n    cron: \"0 4 * * *\"\n    type: a.b\n"},
	{"twice.json", "{\"crons\": [{\"name\": \"b\",\n\"name\": \"c\"}]}"},
	{"merges.yaml", "x-a: &a {timezone: Europe/Paris, type: a.a}\nx-b: &b {timezone: Asia/Tokyo, description: b}\ncrons:\n  - name: own\n    type: a.b\n    cron: \"0 3 * * *\"\n    <<: [*a, *b]\n  - &whole {name: whole, <<: *b, cron: \"0 3 * * *\", type: a.b}\n  - {<<: *whole, name: part}\n"},
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

// TestFiles holds what is read of files of schedules, and what is said of their mistakes, word for word.
func TestFiles(t *testing.T) {
	var b strings.Builder
	for _, tt := range files {
		fmt.Fprintf(&b, "--- %s\n", tt.name)
		f, err := Parse(tt.name, []byte(tt.text))
		if err != nil {
			fmt.Fprintf(&b, "error: %s\n", err)
			continue
		}
		for _, e := range f.Entries {
			if e.Err != nil {
				fmt.Fprintf(&b, "! %q: %s\n", e.Label, e.Err)
				continue
			}
			enabled := "-"
			if e.Spec.Enabled != nil {
				enabled = fmt.Sprint(*e.Spec.Enabled)
			}
			fmt.Fprintf(&b, "line %d: %s %q in %s, %s, enabled %s, %q, %s\n", e.Line, e.Name, e.Spec.Expression, e.Schedule.Zone(), e.Spec.Overlap,
				enabled, e.Spec.Description, e.Spec.Template)
		}
	}
	golden(t, "testdata/files.golden", b.String())
}

// TestFilesAreBounded: a file that is made to cost more than its length is refused soon.
func TestFilesAreBounded(t *testing.T) {
	const head = "crons:\n  - name: good\n    cron: \"0 3 * * *\"\n    type: a.b\n  - name: bad\n    cron: \"0 3 * * *\"\n    type: a.b\n"
	var laughs, merges, wide, flow, names strings.Builder
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
		fmt.Fprintf(&flow, "k%d: {a: 1}, ", i)
	}
	for i := range 60_000 {
		fmt.Fprintf(&names, `"k%d":1,`, i)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"long":     {strings.Repeat("#", MaxBytes+1), "larger than 1 MiB"},
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
		"names":    {`{"crons":[{"name":"good","cron":"0 3 * * *","type":"a.b"},{"name":"bad","options":{` + names.String() + `"k0":1}}]}`, `"k0" comes twice`},
	} {
		began := time.Now()
		f, err := Parse(name, []byte(tt.text))
		if err == nil && len(f.Entries) == 2 && f.Entries[1].Err != nil {
			if err = f.Entries[1].Err; f.Entries[0].Err != nil {
				t.Errorf("%s: the entry beside it is refused: %v", name, f.Entries[0].Err)
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

// FuzzParse: no text makes the reader fall over, or take an entry that is not checked.
func FuzzParse(f *testing.F) {
	for _, tt := range files {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, e := range file.Entries {
			if e.Err != nil {
				continue
			}
			if _, err := e.Spec.Validate(); err != nil || names[e.Name] || e.Schedule.Location() == nil || e.Spec.Source != Source {
				t.Errorf("took %+v: %v", e.Spec, err)
			}
			names[e.Name] = true
		}
	})
}
