package cronfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// entryKeys are all members of an entry.
var entryKeys = []string{"name", "cron", "expression", "schedule", "timezone", "overlap_policy", "enabled", "description",
	"type", "args", "meta", "options", "workflow", "job_template"}

// templateKeys are the members of what a schedule makes.
var templateKeys = []string{"type", "args", "meta", "options", "workflow"}

// expressionKeys are the names that the expression may have.
var expressionKeys = []string{"cron", "expression", "schedule"}

// optionKeys are members of options that are often looked for beside them.
var optionKeys = []string{"queue", "priority", "timeout", "max_attempts", "retry", "unique", "delay", "ttl", "tags"}

// otherKeys are what other schedulers call members of an entry.
var otherKeys = map[string]string{"overlap": "overlap_policy", "tz": "timezone", "zone": "timezone", "time_zone": "timezone",
	"paused": "enabled", "disabled": "enabled", "job": "job_template", "template": "job_template"}

// lines tells where an entry has the value under a path of names, 0 for none.
// Without a path it is where the entry begins.
type lines func(path ...string) int

// read takes an entry from its value v, with at for the lines of its mistakes.
func (e *Entry) read(at lines, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be an object with name, cron and type")
	}
	e.Name, _ = m["name"].(string)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := knownKey(key); err != nil {
			return placed(at, err, key)
		}
	}
	e.Spec.Source = Source
	for _, t := range []struct {
		key  string
		into *string
	}{{"name", &e.Spec.Name}, {"timezone", &e.Spec.Timezone}, {"overlap_policy", (*string)(&e.Spec.Overlap)}, {"description", &e.Spec.Description}} {
		if err := text(at, m, t.key, t.into); err != nil {
			return err
		}
	}
	switch enabled := m["enabled"].(type) {
	case bool:
		e.Spec.Enabled = &enabled
	case nil:
	default:
		return placed(at, errors.New("enabled must be true or false"), "enabled")
	}
	if err := e.readExpression(at, m); err != nil {
		return err
	}
	if err := e.readTemplate(at, m); err != nil {
		return err
	}
	return e.check(at)
}

// placed is err with the line of the value under a path, or of the entry.
func placed(at lines, err error, path ...string) error {
	return &misplaced{cmp.Or(at(path...), at()), err}
}

func knownKey(name string) error {
	switch {
	case slices.Contains(entryKeys, name):
		return nil
	case slices.Contains(optionKeys, name):
		return fmt.Errorf("%s is not known here; it belongs under options", name)
	}
	if near := cmp.Or(otherKeys[name], wording.Nearest(name, entryKeys)); near != "" {
		return fmt.Errorf("%.80q is not known here; did you mean %s?", name, near)
	}
	return fmt.Errorf("%.80q is not known here; an entry has %s", name, strings.Join(entryKeys, ", "))
}

// text reads a member that must be text.
func text(at lines, m map[string]any, key string, into *string) error {
	switch v := m[key].(type) {
	case string:
		*into = v
	case nil:
	default:
		got := fmt.Sprint(v)
		switch v.(type) {
		case map[string]any:
			got = "an object"
		case []any:
			got = "a list"
		}
		return placed(at, fmt.Errorf("%s must be text, got %.40s; put it in quotes", key, got), key)
	}
	return nil
}

// readExpression finds the expression under any of its names.
func (e *Entry) readExpression(at lines, m map[string]any) error {
	given := ""
	for _, key := range expressionKeys {
		switch {
		case m[key] == nil:
			continue
		case given != "":
			return placed(at, fmt.Errorf("%s and %s mean the same; give only one", given, key), key)
		}
		if err := text(at, m, key, &e.Spec.Expression); err != nil {
			return err
		}
		if bare, ok := strings.CutPrefix(e.Spec.Expression, bareMark); ok {
			return placed(at, fmt.Errorf("%s must be in quotes, as * and @ mean something else at the front in YAML: %[1]s: %q", key, bare), key)
		}
		given = key
	}
	if given == "" {
		return errors.New(`cron is required: an expression in quotes, such as "30 2 * * *"`)
	}
	return nil
}

// readTemplate takes the job, or the workflow: under job_template, or beside the schedule.
func (e *Entry) readTemplate(at lines, m map[string]any) error {
	t := map[string]any{}
	for _, key := range templateKeys {
		if m[key] != nil {
			t[key] = m[key]
		}
	}
	if m["job_template"] != nil {
		given, ok := m["job_template"].(map[string]any)
		switch {
		case !ok:
			return placed(at, errors.New("job_template must be an object with type and args"), "job_template")
		case len(t) > 0:
			key := slices.Min(slices.Collect(maps.Keys(t)))
			return placed(at, fmt.Errorf("%s is given beside job_template; put it into that", key), key)
		}
		t = maps.Clone(given) // aliases may share it
	}
	if t["type"] == nil && t["workflow"] == nil {
		return errors.New("type is required: the type of the job to make, such as report.generate; or a workflow")
	}
	if t["args"] == nil && t["workflow"] == nil {
		t["args"] = []any{}
	}
	var err error
	e.Spec.Template, err = templateJSON(t)
	return err
}

// templateJSON writes a template with the members that all have in front. What is
// raw in there stays as it is, byte for byte.
func templateJSON(t map[string]any) ([]byte, error) {
	place := func(key string) int {
		if i := slices.Index(templateKeys, key); i >= 0 {
			return i
		}
		return len(templateKeys)
	}
	w := rawjson.Object(nil)
	for _, key := range slices.SortedFunc(maps.Keys(t), func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) }) {
		value, raw := t[key].(json.RawMessage)
		if !raw {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(t[key]); err != nil {
				return nil, err
			}
			value = bytes.TrimSpace(b.Bytes())
		}
		w.Quoted(key, value)
	}
	return w.Close(), nil
}

// check finds what a server would refuse, with the line.
func (e *Entry) check(at lines) error {
	_, err := e.Spec.Validate()
	if err == nil {
		e.Schedule, err = cronsched.Parse(e.Spec.Expression, e.Spec.Timezone)
	}
	var known *job.Error
	if !errors.As(err, &known) {
		return err
	}
	field, _ := known.Details["field"].(string)
	name, _, _ := strings.Cut(strings.TrimPrefix(field, "job_template."), ".")
	keys := []string{name}
	if name == "expression" {
		keys = expressionKeys
	}
	for _, around := range [][]string{nil, {"job_template"}, {"options"}, {"job_template", "options"}} {
		for _, key := range keys {
			if path := append(slices.Clone(around), key); at(path...) > 0 {
				return placed(at, err, path...)
			}
		}
	}
	return err
}
