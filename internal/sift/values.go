package sift

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// arg is one --arg.
type arg struct {
	path  string // empty: any of the args
	value string
}

func parseArg(text string) arg {
	path, value, named := strings.Cut(text, "=")
	if !named || path == "" {
		return arg{value: text}
	}
	return arg{path, value}
}

// of reports whether args hold it.
func (a arg) of(args json.RawMessage) bool {
	var all []json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return false
	}
	if a.path == "" {
		return anyIs(all, a.value)
	}
	if anyIs(all, a.path+"="+a.value) {
		return true // the value itself has a = in it
	}
	if v, ok := below(args, a.path); ok {
		return is(v, a.value)
	}
	for _, one := range all {
		if v, ok := below(one, a.path); ok && is(v, a.value) {
			return true
		}
	}
	return false
}

func anyIs(all []json.RawMessage, value string) bool {
	for _, v := range all {
		if is(v, value) {
			return true
		}
	}
	return false
}

// below is what a path names: a member of an object, or a place in an array, and with
// dots between what is further down. A name with a dot of its own comes first.
func below(v json.RawMessage, path string) (json.RawMessage, bool) {
	if inner, ok := step(v, path); ok {
		return inner, true
	}
	for i, r := range path {
		if r != '.' {
			continue
		}
		if inner, ok := step(v, path[:i]); ok {
			if found, ok := below(inner, path[i+1:]); ok {
				return found, true
			}
		}
	}
	return nil, false
}

func step(v json.RawMessage, name string) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) == nil {
		inner, ok := object[name]
		return inner, ok
	}
	var array []json.RawMessage
	i, err := strconv.Atoi(name)
	if err != nil || json.Unmarshal(v, &array) != nil || i < 0 || i >= len(array) {
		return nil, false
	}
	return array[i], true
}

// is reports whether a value is what a person wrote: the text of a string, or the same JSON.
func is(v json.RawMessage, wrote string) bool {
	var text string
	if json.Unmarshal(v, &text) == nil && text == wrote && v[0] == '"' {
		return true
	}
	got, ok := decoded(v)
	if !ok {
		return false
	}
	want, ok := decoded(json.RawMessage(wrote))
	return ok && same(got, want)
}

func decoded(raw json.RawMessage) (v any, ok bool) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	return v, d.Decode(&v) == nil && !d.More()
}

func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || sameNumber(a, b))
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			other, ok := b[name]
			if !ok || !same(v, other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// sameNumber compares numbers that are written in two ways. Those that a float does not
// hold exactly are the same only in the same digits.
func sameNumber(a, b json.Number) bool {
	x, wrongX := a.Float64()
	y, wrongY := b.Float64()
	return wrongX == nil && wrongY == nil && x == y && math.Abs(x) < 1<<53
}

// Error is what a person wants to know of an error.
type Error struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Latest is the latest error of a job, zero where there is none. An ACK has taken it
// off the job, and the history has it still.
func Latest(j *job.Job) (e Error) {
	if json.Unmarshal(j.Error, &e) == nil {
		return e
	}
	var all []Error
	if json.Unmarshal(j.Errors, &all) == nil && len(all) > 0 {
		return all[len(all)-1]
	}
	return Error{}
}

// String is the message behind the type, or whatever of them there is.
func (e Error) String() string {
	switch {
	case e.Message == "":
		return e.Type
	case e.Type == "" || e.Type == "Error":
		return e.Message
	}
	return e.Type + ": " + e.Message
}

// tagsOf are the tags that a job was sent with.
func tagsOf(j *job.Job) []string {
	var extra struct {
		Tags []string `json:"tags"`
	}
	_ = json.Unmarshal(j.Extra, &extra) // what is no list of texts has no tags
	return extra.Tags
}
