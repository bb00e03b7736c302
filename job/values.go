package job

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// text is a JSON string's value.
func text(v json.RawMessage, field string) (string, error) {
	if v[0] != '"' {
		return "", invalid(Invalid, field, "must be a string, got %s", rawjson.Kind(v))
	}
	return names.Unquote(v), nil
}

// whole is text that must not hold half of a surrogate pair: decoding makes
// U+FFFD of it, so that two keys would become one.
func whole(v json.RawMessage, field string) (string, error) {
	s, err := text(v, field)
	if err == nil && strings.ContainsRune(s, utf8.RuneError) && rawjson.Halved(v) {
		err = invalid(Invalid, field, "must not hold half of a surrogate pair, got %s", shown(v))
	}
	return s, err
}

func boolean(v json.RawMessage) (bool, error) { return strconv.ParseBool(bare(v)) }

// bare is v, or something that no parser takes where v only resembles a literal.
func bare(v json.RawMessage) string {
	if s := string(v); s == "true" || s == "false" {
		return s
	}
	return ""
}

// integer is a JSON number without a fraction, in whatever notation.
func integer(v json.RawMessage) (int64, bool) { return rawjson.Integer(v) }

// count is a whole, non-negative number of units, at most MaxDuration.
func count(v json.RawMessage, field string, unit time.Duration) (time.Duration, error) {
	n, ok := integer(v)
	if !ok || n < 0 {
		return 0, invalid(Invalid, field, "must be a whole number of 0 or more, got %s", shown(v))
	}
	if n > int64(MaxDuration/unit) {
		return 0, invalid(Invalid, field, "must be at most 100 years, got %s", shown(v))
	}
	return time.Duration(n) * unit, nil
}

// seconds is a non-negative number of seconds, fractions allowed.
func seconds(v json.RawMessage, field string) (time.Duration, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 || f > MaxDuration.Seconds() {
		return 0, invalid(Invalid, field, "must be a number of seconds from 0 to 100 years, got %s", shown(v))
	}
	return Seconds(f), nil
}

// shown is a value as an error message quotes it.
func shown(v json.RawMessage) string {
	if len(v) > 60 {
		return rawjson.Kind(v)
	}
	return string(v)
}

func tooLarge(what string, size, limit int) *Error {
	return Errorf(TooLarge, "%s is %d bytes, at most %d are taken", what, size, limit).With(map[string]any{"size": size, "limit": limit})
}
