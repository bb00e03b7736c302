package job

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// A body is checked once, whole, by CheckJSON. Everything after that may trust
// it to be well formed, and cuts it into members without decoding them.

// CheckJSON refuses what is not one JSON value: invalid UTF-8, a syntax error,
// trailing data, nesting deeper than MaxDepth. The error is Malformed, or
// Invalid for the depth, and says where.
func CheckJSON(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return Errorf(Malformed, "the JSON is empty")
	}
	if !utf8.Valid(raw) {
		i := 0
		for i < len(raw) {
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return Errorf(Malformed, "the JSON is not valid UTF-8 at byte %d", i)
	}
	deep, ok := rawjson.Valid(raw)
	if !ok {
		var v any
		err := json.Unmarshal(raw, &v)
		at := int64(len(raw))
		if s, ok := err.(*json.SyntaxError); ok {
			at = s.Offset
		}
		return Errorf(Malformed, "the JSON is not valid at byte %d: %v", at, err)
	}
	if deep > MaxDepth {
		return Errorf(Invalid, "the JSON is nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// Members calls fn for each member of a valid JSON object in order, with the
// decoded name and the raw value, until fn returns an error. A name that comes
// twice is Invalid: two readers must not see two jobs. A value that is not an
// object is Malformed.
func Members(raw []byte, fn func(name string, value json.RawMessage) error) error {
	return asOurs(names.Members(raw, fn))
}

// Elements calls fn for each element of a valid JSON array in order. A value
// that is not an array is Invalid.
func Elements(raw []byte, fn func(i int, value json.RawMessage) error) error {
	return asOurs(rawjson.Elements(raw, fn))
}

// asOurs is an error of the reading, or of who was called by it, as one of this package.
func asOurs(err error) error {
	e, ok := err.(*rawjson.Error)
	switch {
	case !ok:
		return err
	case e.Need == "object":
		return Errorf(Malformed, "%s", e.Error())
	case e.Need == "array":
		return Errorf(Invalid, "%s", e.Error())
	}
	return &Error{Kind: Invalid, Message: e.Error(), Details: map[string]any{"field": e.Twice}}
}

// names holds the member names of the specification, so that reading one allocates nothing.
var names = func() rawjson.Names {
	m := rawjson.Names{}
	for _, set := range []map[string]bool{known, system, answered, echoed} {
		for name := range set {
			m[name] = name
		}
	}
	for _, name := range []string{"job_id", "worker_id", "queues", "count", "lease_token", DefaultQueue} {
		m[name] = name
	}
	return m
}()
