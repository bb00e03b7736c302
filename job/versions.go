package job

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Versions says which versions a FETCH takes of some types of jobs (contract §4.22). Of a
// type that it names it takes the jobs whose version is in the list, of others all. It
// never changes. Nil takes every job.
type Versions struct {
	of    map[string]map[string]bool // by type, in canonical JSON
	given json.RawMessage
	key   string
}

const (
	maxVersions    = 1000 // of all types together
	maxVersionText = 255  // bytes of one, in JSON
)

// noVersion stands in a list for the jobs that have none.
const noVersion = "null"

// NewVersions makes Versions of lists by type. A version is a string or a number, and 2
// and "2" are two; nil stands for the jobs that have none. Invalid names what is wrong.
func NewVersions(of map[string][]any) (*Versions, error) {
	lists := make(map[string][]any, len(of))
	for name, list := range of {
		if lists[name] = list; list == nil {
			lists[name] = []any{}
		}
	}
	raw, err := json.Marshal(lists)
	if err != nil {
		return nil, invalid(Invalid, "versions", "cannot be written as JSON: %v", err)
	}
	return ParseVersions(raw)
}

// ParseVersions reads {"type": [version, …]}, which must not be changed afterwards.
func ParseVersions(raw json.RawMessage) (*Versions, error) {
	if err := CheckJSON(raw); err != nil {
		return nil, invalid(Invalid, "versions", "must be a JSON object: %v", err)
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return nil, invalid(Invalid, "versions", `must be an object of types with the versions to fetch, such as {"mail.send": [2, "3-beta"]}, got %s`, shown(raw))
	}
	v := &Versions{of: map[string]map[string]bool{}, given: raw}
	n := 0
	err := Members(raw, func(name string, list json.RawMessage) error {
		path := "versions." + name
		if err := checkType(name); err != nil {
			return invalid(Invalid, "versions", "names a type that no job can have: %v", err)
		}
		if list[0] != '[' {
			return invalid(Invalid, path, "must be an array of versions, got %s", shown(list))
		}
		set := map[string]bool{}
		v.of[name] = set
		return Elements(list, func(i int, e json.RawMessage) error {
			at := path + "[" + strconv.Itoa(i) + "]"
			if n++; n > maxVersions {
				return invalid(Invalid, "versions", "must hold at most %d versions in all", maxVersions)
			}
			if e[0] == '{' || e[0] == '[' || e[0] == 't' || e[0] == 'f' {
				return invalid(Invalid, at, "must be a string or a number, or null for jobs that have no version, got %s", shown(e))
			}
			if len(e) > maxVersionText {
				return invalid(Invalid, at, "must be at most %d bytes, got %d", maxVersionText, len(e))
			}
			text, err := rawjson.Canonical(e)
			set[string(text)] = true
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	key, err := rawjson.Canonical(raw)
	v.key = string(key)
	return v, err
}

// Wants reports whether a job of this type and with this Extra may be taken.
func (v *Versions) Wants(kind string, extra json.RawMessage) bool {
	if v == nil {
		return true
	}
	set, named := v.of[kind]
	if !named {
		return true
	}
	version := rawjson.Member(extra, "version")
	if len(version) == 0 || string(version) == noVersion {
		return set[noVersion]
	}
	if len(version) > maxVersionText {
		return false
	}
	text, err := rawjson.Canonical(version)
	return err == nil && set[string(text)]
}

// Without is v, but takes no job of this type, whatever its version. v stays as it is,
// and may be nil.
func (v *Versions) Without(kind string) *Versions {
	w := &Versions{of: map[string]map[string]bool{kind: {}}}
	lists := map[string]json.RawMessage{}
	if v != nil {
		for name, set := range v.of {
			if name != kind {
				w.of[name] = set
			}
		}
		_ = json.Unmarshal(v.given, &lists) // it has been read once
	}
	lists[kind] = json.RawMessage("[]")
	w.given, _ = json.Marshal(lists) // lists of strings and numbers
	key, _ := rawjson.Canonical(w.given)
	w.key = string(key)
	return w
}

// JSON is what was given.
func (v *Versions) JSON() json.RawMessage { return v.given }

// Key is the same for Versions that were given alike.
func (v *Versions) Key() string {
	if v == nil {
		return ""
	}
	return v.key
}
