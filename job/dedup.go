package job

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// deduplication is the parsed deduplication member (contract §2.6, asyncmq-deduplication.md).
type deduplication struct {
	ID      string
	TTL     time.Duration // how long the key is held, in whole milliseconds; 0: until the job has ended
	Extend  bool          // a suppressed job begins the TTL anew
	Replace bool          // a scheduled job gives way to a newer one
}

// maxDedupID is how long a deduplication id may be, in characters.
const maxDedupID = 255

var dedupMembers = []string{"id", "ttl", "ttl_ms", "extend", "replace"}

// parseDeduplication reads what asyncmq-deduplication.md asks for. field is what
// the client called it, "deduplication" or "debounce". A member that is null is
// not given. raw must have passed CheckJSON. Errors are Invalid.
func parseDeduplication(raw json.RawMessage, field string) (deduplication, error) {
	var d deduplication
	if len(raw) == 0 || raw[0] != '{' {
		return d, invalid(Invalid, field, "must be an object, got %s", rawjson.Kind(raw))
	}
	given, err := closed(raw, field, "a deduplication", dedupMembers)
	if err != nil {
		return d, err
	}
	if d.ID, err = dedupID(given.set("id"), field+".id"); err != nil {
		return d, err
	}
	if d.TTL, err = dedupTTL(given, field); err != nil {
		return d, err
	}
	for _, flag := range [...]struct {
		name string
		into *bool
	}{{"extend", &d.Extend}, {"replace", &d.Replace}} {
		if v := given.set(flag.name); v != nil {
			if *flag.into, err = boolean(v); err != nil {
				return d, invalid(Invalid, field+"."+flag.name, "must be true or false, got %s", shown(v))
			}
		}
	}
	return d, nil
}

func dedupID(v json.RawMessage, field string) (string, error) {
	if v == nil {
		return "", invalid(Invalid, field, "is required: a string that jobs of the same work share")
	}
	id, err := whole(v, field)
	if err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(id); n == 0 || n > maxDedupID {
		return "", invalid(Invalid, field, "must be 1 to %d characters, got %d", maxDedupID, n)
	}
	return id, nil
}

// dedupTTL reads ttl in seconds, or ttl_ms.
func dedupTTL(given fields, field string) (time.Duration, error) {
	sec, ms := given.set("ttl"), given.set("ttl_ms")
	switch {
	case sec != nil && ms != nil:
		return 0, invalid(Invalid, field+".ttl_ms", "is given beside %s.ttl: one of them is enough", field)
	case ms != nil:
		n, ok := integer(ms)
		if !ok || n <= 0 || n > MaxDuration.Milliseconds() {
			return 0, invalid(Invalid, field+".ttl_ms", "must be whole milliseconds from 1 to 100 years, got %s", shown(ms))
		}
		return time.Duration(n) * time.Millisecond, nil
	case sec == nil:
		return 0, nil
	}
	f, err := strconv.ParseFloat(string(sec), 64)
	if err != nil || f <= 0 || f > MaxDuration.Seconds() {
		return 0, invalid(Invalid, field+".ttl", "must be a number of seconds, more than 0 and at most 100 years, got %s", shown(sec))
	}
	return max(Seconds(f), time.Millisecond), nil
}

// Seconds is a number of seconds from 0 to MaxDuration, rounded up to whole
// milliseconds: what waits for it must not come early. It goes by the decimal
// digits: 0.07 × 1000 is a little more than 70 in floating point.
func Seconds(f float64) time.Duration {
	d, _ := time.ParseDuration(strconv.FormatFloat(f, 'f', -1, 64) + "s") // at most MaxDuration, so it fits
	if d == 0 && f > 0 {
		d = 1
	}
	return ceilMillis(d)
}
