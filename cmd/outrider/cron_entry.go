package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// cronEntry is one schedule of a file.
type cronEntry struct {
	line  int
	name  string // empty when it cannot be read
	shown string // what messages call it
	spec  job.CronSpec
	sched cronsched.Spec
	err   error // why it is refused
	twin  bool  // it is refused because another entry has its name
}

// entryKeys are all members of an entry.
var entryKeys = []string{"name", "cron", "expression", "schedule", "timezone", "overlap_policy", "enabled", "description",
	"type", "args", "meta", "options", "job_template"}

// optionKeys are members of options that are often looked for beside them.
var optionKeys = []string{"queue", "priority", "timeout", "max_attempts", "retry", "unique", "delay", "ttl", "tags"}

// otherKeys are what other schedulers call members of an entry.
var otherKeys = map[string]string{"overlap": "overlap_policy", "tz": "timezone", "zone": "timezone", "time_zone": "timezone",
	"paused": "enabled", "disabled": "enabled", "job": "job_template", "template": "job_template"}

// hint finds the name of an entry that may be wrong otherwise.
func (e *cronEntry) hint(l *leaf) {
	if name := l.of("name"); name != nil && len(name.raw) > 0 && name.raw[0] == '"' {
		_ = json.Unmarshal(name.raw, &e.name) // it is a text, written by us
	}
}

// read takes an entry from its value. left is what the values of the file may still come to.
func (e *cronEntry) read(l *leaf, bare map[int]bool, left *int) error {
	if l.kind != '{' {
		return errors.New("must be an object with name, cron and type")
	}
	e.hint(l)
	for _, m := range l.members {
		if err := knownKey(m.name); err != nil {
			return &misplaced{m.line, err}
		}
	}
	e.spec.Source = fromFile
	for _, t := range []struct {
		name string
		into *string
	}{{"name", &e.spec.Name}, {"timezone", &e.spec.Timezone}, {"overlap_policy", (*string)(&e.spec.Overlap)}, {"description", &e.spec.Description}} {
		if err := l.text(t.name, t.into); err != nil {
			return err
		}
	}
	if err := l.truth("enabled", &e.spec.Enabled); err != nil {
		return err
	}
	if err := e.readExpression(l, bare); err != nil {
		return err
	}
	if err := e.readTemplate(l, left); err != nil {
		return err
	}
	return e.check(l)
}

func knownKey(name string) error {
	switch {
	case slices.Contains(entryKeys, name):
		return nil
	case slices.Contains(optionKeys, name):
		return fmt.Errorf("%s is not known here; it belongs under options", name)
	}
	if near := cmp.Or(otherKeys[name], nearest(name, entryKeys)); near != "" {
		return fmt.Errorf("%.80q is not known here; did you mean %s?", name, near)
	}
	return fmt.Errorf("%.80q is not known here; an entry has %s", name, strings.Join(entryKeys, ", "))
}

// readExpression finds the expression under any of its names.
func (e *cronEntry) readExpression(l *leaf, bare map[int]bool) error {
	given := ""
	for _, name := range []string{"cron", "expression", "schedule"} {
		v := l.of(name)
		switch {
		case v.null():
			continue
		case given != "":
			return &misplaced{v.line, fmt.Errorf("%s and %s are the same; give one of them", given, name)}
		}
		if err := l.text(name, &e.spec.Expression); err != nil {
			return err
		}
		if bare[v.line] {
			return &misplaced{v.line, fmt.Errorf("%s must be in quotes, as * and @ mean something else at the front in YAML: %[1]s: %q", name, e.spec.Expression)}
		}
		given = name
	}
	if given == "" {
		return errors.New(`cron is required: an expression in quotes, such as "30 2 * * *"`)
	}
	return nil
}

// readTemplate takes the job: under job_template, or beside the schedule.
func (e *cronEntry) readTemplate(l *leaf, left *int) error {
	t := &leaf{kind: '{'}
	for _, name := range []string{"type", "args", "meta", "options"} {
		if v := l.of(name); !v.null() {
			t.members = append(t.members, pair{name, v.line, v})
		}
	}
	if given := l.of("job_template"); !given.null() {
		switch {
		case given.kind != '{':
			return &misplaced{given.line, errors.New("job_template must be an object with type and args")}
		case len(t.members) > 0:
			return &misplaced{t.members[0].line, fmt.Errorf("%s is given beside job_template; put it into that", t.members[0].name)}
		}
		t = &leaf{kind: '{', members: slices.Clone(given.members)} // aliases may share it
	}
	if len(t.members) == 0 || t.of("type").null() {
		return errors.New("type is required: the type of the job to make, such as report.generate")
	}
	if t.of("args").null() {
		t.members = slices.DeleteFunc(t.members, func(m pair) bool { return m.name == "args" })
		t.members = append(t.members, pair{"args", l.line, &leaf{kind: '['}})
	}
	var err error
	e.spec.Template, err = t.json(nil, left)
	return err
}

// check finds what the server would refuse, with the line.
func (e *cronEntry) check(l *leaf) error {
	_, err := e.spec.Validate()
	if err == nil {
		e.sched, err = cronsched.Parse(e.spec.Expression, e.spec.Timezone)
	}
	if err == nil {
		return nil
	}
	var known *job.Error
	if errors.As(err, &known) {
		if field, ok := known.Details["field"].(string); ok {
			return &misplaced{l.lineOf(field), err}
		}
	}
	return err
}

// lineOf is where a field is, or what is around it.
func (l *leaf) lineOf(field string) int {
	name, _, _ := strings.Cut(field, ".")
	names := []string{name}
	if name == "expression" {
		names = []string{"cron", "expression", "schedule"}
	}
	template := l.of("job_template")
	for _, in := range []*leaf{l, template, l.of("options"), template.of("options")} {
		for _, name := range names {
			if v := in.of(name); v != nil {
				return v.line
			}
		}
	}
	return l.line
}

// text reads a member that must be text.
func (l *leaf) text(name string, into *string) error {
	v := l.of(name)
	if v.null() {
		return nil
	}
	if v.kind == 's' && v.raw[0] == '"' {
		return json.Unmarshal(v.raw, into)
	}
	got := string(v.raw)
	if v.kind != 's' {
		got = map[byte]string{'{': "an object", '[': "a list"}[v.kind]
	}
	return &misplaced{v.line, fmt.Errorf("%s must be text, got %.40s; put it in quotes", name, got)}
}

// truth reads a member that must be true or false.
func (l *leaf) truth(name string, into **bool) error {
	v := l.of(name)
	if v.null() {
		return nil
	}
	if v.kind != 's' || json.Unmarshal(v.raw, into) != nil {
		return &misplaced{v.line, fmt.Errorf("%s must be true or false", name)}
	}
	return nil
}

// reported is an error as it is printed: a fault of an expression with its mark.
func reported(err error) string {
	if f := faultIn(err, nil); f != nil {
		return f.Report()
	}
	return err.Error()
}

// faultIn is the fault of an expression or a zone that an error tells of: its
// cause, or what a server has told of one in the details. spec is what that was sent.
func faultIn(err error, spec *job.CronSpec) *cronsched.Fault {
	var f *cronsched.Fault
	var told *job.Error
	if errors.As(err, &f) || spec == nil || !errors.As(err, &told) {
		return f
	}
	f = &cronsched.Fault{}
	f.Field, _ = told.Details["field"].(string)
	switch f.Field {
	case "expression":
		f.Text = spec.Expression
	case "timezone":
		f.Text = spec.Timezone
	default:
		return nil
	}
	var placed bool
	if f.Position, placed = number(told.Details["position"]); !placed || f.Position < 0 {
		return nil
	}
	f.Length, _ = number(told.Details["length"])
	f.Length = max(f.Length, 1)
	f.Suggestion, _ = told.Details["suggestion"].(string)
	f.Hint, _ = told.Details["hint"].(string)
	f.Problem = strings.TrimPrefix(told.Message, "cron "+f.Field+": ")
	return f
}

// number is a whole number of details that came over the wire, or did not.
func number(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return int(v), v == float64(int(v))
	case json.Number:
		n, err := v.Int64()
		return int(n), err == nil
	}
	return 0, false
}
