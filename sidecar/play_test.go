package sidecar_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/sidecar"
)

// The cases of testdata/unique and testdata/dedup, one step a line, are played at
// a desk of their own each. testdata/unique/README.txt says how they are written.

// a playCase is a case of such a file: a heading, and steps below it.
type playCase struct {
	name  string
	kept  sidecar.Retention
	steps []playStep
}

type playStep struct{ at, text string }

// playFile plays every case of a file.
func playFile(t *testing.T, file string) {
	t.Helper()
	for _, c := range readCases(t, filepath.Join("testdata", file)) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			atDeskOf(t, sidecar.Options{Retention: c.kept}, func(d *desk, leap func(time.Duration)) {
				p := &play{desk: d, leap: leap, jobs: map[string]object{}, bodies: map[string]string{}}
				for _, s := range c.steps {
					p.step(s)
				}
			})
		})
	}
}

// readCases reads a file; what stands in it before the first case, a case without
// steps and two cases of one name are mistakes.
func readCases(t *testing.T, file string) (cases []playCase) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(raw), "\n") {
		heading, begins := strings.CutPrefix(line, "=== ")
		switch n := len(cases) - 1; {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case begins:
			cases = append(cases, playCase{name: heading})
		case n < 0:
			t.Fatalf("%s:%d: %s: in no case", file, i+1, line)
		case strings.HasPrefix(line, "jobs are kept for "):
			span, err := time.ParseDuration(strings.TrimPrefix(line, "jobs are kept for "))
			if err != nil {
				t.Fatalf("%s:%d: %v", file, i+1, err)
			}
			cases[n].kept = sidecar.Retention{Completed: span, Cancelled: span, Discarded: span, Dead: span}
		case line[0] == ' ' && len(cases[n].steps) > 0: // goes on
			cases[n].steps[len(cases[n].steps)-1].text += line
		default:
			cases[n].steps = append(cases[n].steps, playStep{fmt.Sprintf("%s:%d", file, i+1), line})
		}
	}
	var all []playCase
	for _, c := range cases {
		all = append(all, c.unfold(t)...)
	}
	names := map[string]bool{}
	for _, c := range all {
		if names[c.name] || len(c.steps) == 0 {
			t.Fatalf("%s: the case %q is empty, or there are two", file, c.name)
		}
		names[c.name] = true
	}
	if len(all) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return all
}

// unfold makes a case of each word of the first step that begins with "for".
func (c playCase) unfold(t *testing.T) (all []playCase) {
	t.Helper()
	i := slices.IndexFunc(c.steps, func(s playStep) bool { return strings.HasPrefix(s.text, "for ") })
	if i < 0 {
		return []playCase{c}
	}
	head, tail, _ := strings.Cut(strings.TrimPrefix(c.steps[i].text, "for "), " in ")
	vars, words := strings.Fields(head), strings.Fields(tail)
	if len(vars) == 0 || len(words) == 0 || len(words)%len(vars) != 0 {
		t.Fatalf("%s: %s", c.steps[i].at, c.steps[i].text)
	}
	for chunk := range slices.Chunk(words, len(vars)) {
		var pairs []string
		for k, name := range vars {
			pairs = append(pairs, "{"+name+"}", chunk[k])
		}
		put := strings.NewReplacer(pairs...)
		one := playCase{name: put.Replace(c.name), kept: c.kept}
		for _, s := range slices.Delete(slices.Clone(c.steps), i, i+1) {
			one.steps = append(one.steps, playStep{s.at, put.Replace(s.text)})
		}
		all = append(all, one.unfold(t)...)
	}
	return all
}

// play is a case that is being played: the jobs by the names that the case gave
// them, as they were then, and the bodies that brought them.
type play struct {
	*desk
	leap   func(time.Duration)
	jobs   map[string]object
	bodies map[string]string
	kinds  int
}

var (
	playName = regexp.MustCompile(`^([a-z]+[0-9]*): (.*)$`)
	playBody = regexp.MustCompile(`^([a-z]+[0-9]*) = (.*)$`)
	playWord = regexp.MustCompile(`\{(every state|every state but|letters|example|id of)(?: ([a-z0-9.-]+))?\}`)
)

// step plays a line. Where it fails, the line is shown.
func (p *play) step(s playStep) {
	p.t.Helper()
	before := p.t.Failed()
	defer func() {
		if p.t.Failed() && !before {
			p.t.Logf("%s: %s", s.at, s.text)
		}
	}()
	text := playWord.ReplaceAllStringFunc(s.text, p.word)
	if m := playBody.FindStringSubmatch(text); m != nil {
		p.bodies[m[1]] = p.body(m[2])
		return
	}
	name := ""
	if m := playName.FindStringSubmatch(text); m != nil {
		name, text = m[1], m[2]
	}
	outcome, asked := "", false
	if i := strings.LastIndex(text, " -> "); i >= 0 {
		text, outcome, asked = text[:i], strings.TrimSpace(text[i+4:]), true
	}
	verb, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	what, how, _ := strings.Cut(rest, " ")
	switch {
	case asked && questions[verb] != nil && outcome != "" && (name == "" || verb == "push"):
		questions[verb](p, name, rest, outcome)
	case !asked && actions[verb] != nil && (name == "" || verb == "bring"):
		actions[verb](p, name, rest)
	case !asked && name == "" && p.jobs[verb] != nil && what == "is" && slices.Contains(states, how):
		p.is(s.at, p.jobs[verb], how)
	case !asked && name == "" && p.jobs[verb] != nil && rest == "is gone":
		p.ask(404, "GET", "/ojs/v1/jobs/"+p.jobs[verb]["id"].(string), "")
		delete(p.jobs, verb)
	case !asked && name == "" && p.jobs[verb] != nil && what == "has":
		p.has(p.info(p.jobs[verb]["id"]), p.json(how))
	default:
		p.t.Fatal("no such step: an unknown verb or job, an outcome that is missing, or one too many")
	}
}

// word is what stands for a word in braces.
func (p *play) word(text string) string {
	p.t.Helper()
	m := playWord.FindStringSubmatch(text)
	switch m[1] {
	case "every state", "every state but":
		return write(p.t, slices.DeleteFunc(slices.Clone(states), func(s string) bool { return s == m[2] }))
	case "letters":
		return long(p.number(m[2]))
	case "example":
		var line bytes.Buffer
		if err := json.Compact(&line, []byte(example(p.t, "unique-"+m[2]))); err != nil {
			p.t.Fatal(err)
		}
		return line.String()
	}
	return p.job(m[2])["id"].(string)
}

func (p *play) number(text string) (n int) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		p.t.Fatalf("%s is no number", text)
	}
	return n
}

// span reads a time: "90m", "7d", or "almost 1h", which lacks a millisecond.
func (p *play) span(text string) time.Duration {
	p.t.Helper()
	whole, almost := strings.CutPrefix(text, "almost ")
	if days, ok := strings.CutSuffix(whole, "d"); ok {
		whole = fmt.Sprint(24*p.number(days), "h")
	}
	span, err := time.ParseDuration(whole)
	if err != nil || span <= 0 {
		p.t.Fatalf("%s is no time", text)
	}
	if almost {
		span -= time.Millisecond
	}
	return span
}

// job is the job that has a name.
func (p *play) job(name string) object {
	p.t.Helper()
	if p.jobs[name] == nil {
		p.t.Fatalf("no job is called %s", name)
	}
	return p.jobs[name]
}

// list are the jobs of names with commas between them.
func (p *play) list(names string) (jobs []object) {
	p.t.Helper()
	for name := range strings.SplitSeq(names, ", ") {
		jobs = append(jobs, p.job(name))
	}
	return jobs
}

// first splits what begins with JSON behind it.
func (p *play) first(text string) (value, rest string) {
	p.t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
	return text[:dec.InputOffset()], text[dec.InputOffset():]
}

// json is an object that a step writes out, or an example of the document.
func (p *play) json(text string) object {
	p.t.Helper()
	if name, ok := strings.CutPrefix(text, "example "); ok {
		text = example(p.t, "unique-"+name)
	}
	value, rest := p.first(text)
	if strings.TrimSpace(rest) != "" {
		p.t.Fatalf("%q follows %s", rest, value)
	}
	return decode(p.t, value)
}

// body is what a PUSH sends: JSON to the letter, what a name had, or an example;
// and "with" JSON that is merged into it (RFC 7396).
func (p *play) body(text string) string {
	p.t.Helper()
	var body, rest string
	if text != "" && text[0] == '{' {
		body, rest = p.first(text)
	} else {
		head, more, changed := strings.Cut(text, " with ")
		kind, name, _ := strings.Cut(head, " ")
		switch {
		case kind == "as" && p.bodies[name] != "":
			body = p.bodies[name]
		case kind == "example":
			body = sample(p.t, name)
		case kind == "call":
			body = call(p.t, name)
		default:
			p.t.Fatalf("%s is no body", head)
		}
		if changed {
			rest = " with " + more
		}
	}
	if strings.TrimSpace(rest) == "" {
		return body
	}
	change, ok := strings.CutPrefix(rest, " with ")
	if !ok {
		p.t.Fatalf("%q follows %s", rest, body)
	}
	return write(p.t, merge(decode(p.t, body), p.json(change)))
}

// merge is RFC 7396, but for args: an object goes into their only element, as the
// documents write args as an object.
func merge(o, change object) object {
	for name, value := range change {
		was, into := o[name], value
		if list, ok := was.([]any); ok && name == "args" && len(list) == 1 {
			was = list[0]
		}
		if more, ok := value.(object); ok {
			old, _ := was.(object)
			if old == nil {
				old = object{}
			}
			if into = merge(old, more); name == "args" {
				into = []any{into}
			}
		}
		if o[name] = into; value == nil {
			delete(o, name)
		}
	}
	return o
}

// has makes sure that an object has members as they are wanted; null is none.
func (p *play) has(got, want object) {
	p.t.Helper()
	for name, w := range want {
		if g, given := got[name]; given != (w != nil) || given && write(p.t, g) != write(p.t, w) {
			p.t.Errorf("%s is %v, want %v, in %v", name, g, w, got)
		}
	}
}

// sample is an example of ojs-unique-jobs.md as it is printed, but for its args:
// the document writes an object, which ojs-core.md §5.1 does not allow, so it
// becomes the only element of an array (contract C-19).
func sample(t *testing.T, name string) string {
	t.Helper()
	o := decode(t, example(t, "unique-"+name))
	if args, ok := o["args"].(object); ok {
		o["args"] = []any{args}
	}
	return write(t, o)
}

// call is the PUSH that a call of queue.add in asyncmq-deduplication.md comes to:
// its first argument is the type, kwargs are the one object of args, for args are
// an array (contract C-19), and what else it names is an option.
func call(t *testing.T, name string) string {
	t.Helper()
	text := strings.TrimSuffix(strings.TrimPrefix(example(t, "dedup-"+name), "job_id = await queue.add(\n"), ")\n")
	text = strings.NewReplacer("True", "true", "kwargs=", `"kwargs":`, "delay=", `"delay":`, "deduplication=", `"deduplication":`).Replace(text)
	text = regexp.MustCompile(`,\s*(}|$)`).ReplaceAllString(text, "$1")
	options := decode(t, `{"type":`+text+`}`)
	o := object{"type": options["type"], "args": []any{}, "options": options}
	if kwargs, given := options["kwargs"]; given {
		o["args"] = []any{kwargs}
	}
	delete(options, "type")
	delete(options, "kwargs")
	return write(t, o)
}

// unchangedBut does something that must change no job that has a name, but for some.
func (p *play) unchangedBut(some []object, ignore []string, do func()) {
	p.t.Helper()
	look := func() map[string]object {
		now := map[string]object{}
		for name, j := range p.jobs {
			if !slices.ContainsFunc(some, func(o object) bool { return o["id"] == j["id"] }) {
				now[name] = p.info(j["id"])
				maps.DeleteFunc(now[name], func(member string, _ any) bool { return slices.Contains(ignore, member) })
			}
		}
		return now
	}
	before := look()
	do()
	for name, j := range look() {
		if was, now := before[name], j; was != nil && write(p.t, was) != write(p.t, now) {
			p.t.Errorf("%s was %v\nand is %v", name, was, now)
		}
	}
}
