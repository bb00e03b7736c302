package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Readers of single JSON values. All of them trust that the body has passed
// job.CheckJSON, and all of their errors are Invalid and name the field.

// maxName bounds what a client calls itself or somebody else: worker ids, host names, reasons.
const maxName = 255

// object checks a body and calls fn for each member of its object. A member
// that is null counts as not given and is left out, except those in keepNull.
func object(raw []byte, keepNull string, fn func(name string, v json.RawMessage) error) error {
	if err := job.CheckJSON(raw); err != nil {
		return err
	}
	return job.Members(raw, func(name string, v json.RawMessage) error {
		if isNull(v) && name != keepNull {
			return nil
		}
		return fn(name, v)
	})
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

// refuse is the error for a field that breaks a rule: "count must be …".
func refuse(field, rule string) *job.Error {
	return &job.Error{Kind: job.Invalid, Message: field + " " + rule, Details: map[string]any{"field": field}}
}

// got quotes a value for an error message, and only names it when it is long.
func got(v json.RawMessage) string {
	if len(v) > 60 {
		return ", got a longer value"
	}
	return ", got " + string(v)
}

// text is the value of a JSON string.
func text(v json.RawMessage, field string) (string, error) {
	if v[0] != '"' {
		return "", refuse(field, "must be a string"+got(v))
	}
	return rawjson.Unquote(v), nil
}

// name is a string of at most maxName bytes.
func name(v json.RawMessage, field string) (string, error) {
	s, err := text(v, field)
	if err == nil && len(s) > maxName {
		return "", refuse(field, "must be at most 255 bytes")
	}
	return s, err
}

// names is an array of non-empty strings.
func names(v json.RawMessage, field string, limit int) ([]string, error) {
	if v[0] != '[' {
		return nil, refuse(field, "must be an array of non-empty strings"+got(v))
	}
	var list []string
	err := job.Elements(v, func(i int, e json.RawMessage) error {
		if i == limit {
			return refuse(field, "must have at most "+strconv.Itoa(limit)+" elements")
		}
		s, err := text(e, field)
		if err != nil || s == "" {
			return refuse(field, "must be an array of non-empty strings"+got(v))
		}
		list = append(list, s)
		return nil
	})
	return list, err
}

// clamped is an integer brought between lo and hi.
func clamped(v json.RawMessage, field string, lo, hi int64) (int64, error) {
	n, ok := rawjson.Integer(v)
	if !ok {
		return 0, refuse(field, "must be an integer"+got(v))
	}
	return min(max(n, lo), hi), nil
}

// natural is an integer from 0 to hi.
func natural[N int | int64](v json.RawMessage, field string, hi N) (N, error) {
	n, ok := rawjson.Integer(v)
	if !ok || n < 0 || n > int64(hi) {
		return 0, refuse(field, "must be an integer from 0 to "+strconv.FormatInt(int64(hi), 10)+got(v))
	}
	return N(n), nil
}

// millis is a whole number of milliseconds, at most job.MaxDuration.
func millis(v json.RawMessage, field string) (time.Duration, error) {
	n, err := natural(v, field, job.MaxDuration.Milliseconds())
	return time.Duration(n) * time.Millisecond, err
}

// boolean is true or false.
func boolean(v json.RawMessage, field string) (bool, error) {
	switch string(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, refuse(field, "must be true or false"+got(v))
}

// pause is a number of seconds or an ISO 8601 duration, in whole milliseconds.
func pause(v json.RawMessage, field string) (time.Duration, error) {
	if v[0] == '"' {
		s, err := text(v, field)
		if err != nil {
			return 0, err
		}
		d, err := job.ParseDuration(s)
		if err != nil {
			return 0, refuse(field, err.Error())
		}
		return d, nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 || f > job.MaxDuration.Seconds() {
		return 0, refuse(field, "must be a number of seconds from 0 to 100 years, or an ISO 8601 duration"+got(v))
	}
	return job.Seconds(f), nil
}

// moment is a JSON string that holds an instant.
func moment(v json.RawMessage, field string) (time.Time, error) {
	s, err := text(v, field)
	if err != nil {
		return time.Time{}, err
	}
	return instant(s, field)
}

// instant reads RFC 3339 with a zone.
func instant(s, field string) (time.Time, error) {
	t, err := job.ParseTime(s)
	if err != nil {
		return time.Time{}, refuse(field, "must be an RFC 3339 time with a zone, such as 2026-03-15T09:30:00Z")
	}
	return t, nil
}
