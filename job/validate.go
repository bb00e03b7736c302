package job

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/sosodev/duration"
)

// checkBounds holds the limits of sizes, numbers, lengths and instants.
func (e *Envelope) checkBounds() error {
	if n := len(e.Meta); n > MaxMetaBytes {
		return tooLarge("meta", n, MaxMetaBytes)
	}
	if n := e.size(); n > MaxJobBytes {
		return tooLarge("the job", n, MaxJobBytes)
	}
	if e.Priority < -100 || e.Priority > 100 {
		return invalid(Invalid, "priority", "must be an integer from -100 to 100, got %d", e.Priority)
	}
	for _, check := range bounds {
		if err := check(e); err != nil {
			return err
		}
	}
	return nil
}

func boundLength(name string, d time.Duration) error {
	if d < 0 || d > MaxDuration {
		return invalid(Invalid, strings.TrimSuffix(name, "_ms"), "must be from 0 to 100 years, got %s", d)
	}
	return nil
}

func boundInstant(name string, at time.Time) error {
	if y := at.UTC().Year(); y < 1 || y > 9999 {
		return invalid(Invalid, name, "must lie in the years 1 to 9999, got the year %d", y)
	}
	return nil
}

// size is how much JSON the envelope holds, of which a job may have MaxJobBytes.
func (e *Envelope) size() (n int) {
	for _, m := range rawRows {
		n += len(*m.json(e))
	}
	return n
}

// checkType holds the rule of ojs-core.md §5.1: segments of [a-z][a-z0-9_]*,
// joined by dots. From the third segment on a hyphen is tolerated, as the public
// suite of the specification's own date needs it (contract C-01).
func checkType(s string) error {
	bad := func(why string) error {
		return invalid(Invalid, "type", `%s: lower-case segments joined by dots, such as "email.send", got %.80q`, why, s)
	}
	if s == "" {
		return invalid(Invalid, "type", `must not be empty: a dotted name such as "email.send"`)
	}
	if len(s) > MaxTypeLen {
		return invalid(Invalid, "type", "must be at most %d characters, got %d", MaxTypeLen, len(s))
	}
	segment, first := 0, true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.':
			if first {
				return bad("has an empty segment")
			}
			segment, first = segment+1, true
			continue
		case c >= 'a' && c <= 'z':
		case first:
			return bad("must start each segment with a letter")
		case c >= '0' && c <= '9', c == '_', c == '-' && segment >= 2:
		default:
			return bad("has a character that is not allowed")
		}
		first = false
	}
	if first {
		return bad("has an empty segment")
	}
	return nil
}

// ValidQueue reports whether s can be the name of a queue (ojs-core.md §5.1).
func ValidQueue(s string) bool { return checkQueue(s) == nil }

func checkQueue(s string) error {
	ok := s != "" && len(s) <= MaxQueueLen && s[0] != '-' && s[0] != '.'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.'
	}
	if !ok {
		return invalid(Invalid, "queue", "must be 1 to %d lower-case letters, digits, hyphens and dots, starting with a letter or digit, got %.140q", MaxQueueLen, s)
	}
	return nil
}

// ValidID reports whether s is a UUIDv7 in lower-case 8-4-4-4-12 form. Any
// variant from 8 up is taken: ojs-core.md §13 has ids with c and d there.
func ValidID(s string) bool {
	if len(s) != 36 || s[14] != '7' || s[19] < '8' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// MaxDuration is the longest duration that is taken anywhere: 100 years of 365 days.
const MaxDuration = 100 * 365 * 24 * time.Hour

var (
	isoForm   = regexp.MustCompile(`^P(\d{1,9}Y)?(\d{1,9}M)?(\d{1,9}W)?(\d{1,9}D)?(T(\d{1,12}H)?(\d{1,12}M)?(\d{1,12}(\.\d{1,9})?S)?)?$`)
	rfc3339   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	shortForm = regexp.MustCompile(`^\d{1,12}(\.\d{1,9})?(ms|s|m|h|d)$`)
)

// ParseDuration reads an ISO 8601 duration (ojs-retry.md §4): at least one
// component, no sign, a fraction only on seconds, a year of 365 and a month of
// 30 days, at most MaxDuration. It is rounded up to whole milliseconds.
func ParseDuration(s string) (time.Duration, error) {
	if !isoForm.MatchString(s) || s == "P" || strings.HasSuffix(s, "T") {
		return 0, Errorf(Invalid, "must be an ISO 8601 duration such as PT30S, got %.60q", s)
	}
	d, err := duration.Parse(s)
	if err != nil {
		return 0, Errorf(Invalid, "must be an ISO 8601 duration such as PT30S: %w", err)
	}
	days := d.Years*365 + d.Months*30 + d.Weeks*7 + d.Days
	sec := days*86400 + d.Hours*3600 + d.Minutes*60 + d.Seconds
	if sec > MaxDuration.Seconds() {
		return 0, Errorf(Invalid, "must be at most 100 years, got %q", s)
	}
	return time.Duration(sec-d.Seconds)*time.Second + Seconds(d.Seconds), nil
}

// ParseTime reads an instant as RFC 3339 has it, with a zone, in either case
// (contract §1.6). The error is Invalid.
func ParseTime(s string) (time.Time, error) {
	s = strings.ToUpper(s)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !rfc3339.MatchString(s) { // the library also takes a comma, a one-digit hour and +24:00
		return t, Errorf(Invalid, "must be an RFC 3339 time with a zone, such as 2026-03-15T09:30:00Z, got %.60q", s)
	}
	return t, nil
}

// moment reads an instant (RFC 3339 with a zone) or a time from now ("+PT5S", "PT5S").
func moment(v json.RawMessage, field string) (time.Time, time.Duration, error) {
	s, err := text(v, field)
	if err != nil {
		return time.Time{}, 0, err
	}
	if iso := strings.TrimPrefix(s, "+"); strings.HasPrefix(iso, "P") {
		d, err := ParseDuration(iso)
		if err != nil {
			return time.Time{}, 0, invalid(Invalid, field, "%v", err)
		}
		return time.Time{}, d, nil
	}
	t, err := ParseTime(s)
	if err != nil {
		return time.Time{}, 0, invalid(Invalid, field, "must be an RFC 3339 time with a zone, such as 2026-03-15T09:30:00Z, or +PT5M, got %.60q", s)
	}
	return t, 0, nil
}

// isoText reads a JSON string that holds an ISO 8601 duration.
func isoText(v json.RawMessage, field string) (time.Duration, error) {
	s, err := text(v, field)
	if err != nil {
		return 0, err
	}
	d, err := ParseDuration(s)
	if err != nil {
		return 0, invalid(Invalid, field, "%v", err)
	}
	return d, nil
}
