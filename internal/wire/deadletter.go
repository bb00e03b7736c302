package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeReviveDead reads the body of a retry of many dead letters (contract §3.14). It
// must say confirm:true. An unknown member of the filter is Invalid: it was meant to
// narrow the filter, and must not be ignored.
func DecodeReviveDead(raw []byte) (job.Filter, error) {
	f := job.Filter{Dead: true}
	confirmed := false
	err := object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "confirm":
			confirmed, err = boolean(v, member)
		case "filter":
			if v[0] != '{' {
				return refuse(member, "must be an object"+got(v))
			}
			err = job.Members(v, func(name string, v json.RawMessage) error {
				if isNull(v) {
					return nil
				}
				return deadMember(&f, name, v)
			})
		}
		return err
	})
	if err == nil && !confirmed {
		err = refuse("confirm", "must be true: every dead letter that the filter lets through is retried")
	}
	return f, err
}

// deadMember reads one member of a filter of dead letters.
func deadMember(f *job.Filter, member string, v json.RawMessage) (err error) {
	field := "filter." + member
	switch member {
	case "queue":
		f.Queue, err = name(v, field)
	case "type":
		f.Type, err = name(v, field)
	case "error_type":
		f.ErrorType, err = text(v, field)
	case "since":
		f.Since, err = moment(v, field)
	case "until":
		f.Until, err = moment(v, field)
	case "limit":
		n, ok := rawjson.Integer(v)
		if !ok || n < 1 || n > math.MaxInt32 {
			return refuse(field, "must be an integer of 1 or more"+got(v))
		}
		f.Limit = int(n)
	default:
		return refuse(field, "is not known; a filter has queue, type, error_type, since, until and limit")
	}
	return err
}

// ReviveDeadBody is the body of a retry of many dead letters.
func ReviveDeadBody(f job.Filter) []byte {
	b := begin()
	b.Object("filter")
	b.Optional("queue", f.Queue)
	b.Optional("type", f.Type)
	b.Optional("error_type", f.ErrorType)
	b.Time("since", f.Since)
	b.Time("until", f.Until)
	someInt(&b, "limit", f.Limit)
	return b.End().Bool("confirm", true).Close()
}

// AppendRevived appends the answer to a retry of many dead letters.
func AppendRevived(dst []byte, n int64) []byte {
	b := rawjson.Object(dst)
	return b.Int("retried", n).Int("total", n).Close()
}

// AppendPurged appends the answer to a purge of dead letters (contract §3.14).
func AppendPurged(dst []byte, n int64) []byte {
	b := rawjson.Object(dst)
	return b.Int("deleted", n).Int("total", n).Close()
}

// ReadCount reads how many dead letters a retry or a purge of many was about.
func ReadCount(body []byte) (int64, error) {
	return readMember[int64](body, "total", "there is no total in it")
}

// AppendRetried appends the answer to a retry by an operator (contract §3.23):
// all of the job at the top level, and once more under "job" as elsewhere.
func AppendRetried(dst []byte, c job.Change) []byte {
	j := rawjson.Writer(c.AppendJSON(nil, job.View{}))
	j.Reopen()
	j.Str("previous_state", string(c.Previous))
	j.End()
	b := rawjson.Object(dst)
	b.Splice(j)
	return b.Raw("job", j).Time("re_enqueued_at", c.EnqueuedAt).Close()
}

// ages are the units of a short age.
var ages = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// ageText is an instant: an age, as "7d", "24h" or an ISO 8601 duration, counted back from now,
// or an instant in RFC 3339.
func ageText(s string, now time.Time) (time.Time, error) {
	const field = "older_than"
	wrong := refuse(field, "must be an age of at most 100 years, such as 7d, 24h or P7D, or an RFC 3339 time with a zone")
	if s[0] == 'P' || s[0] == 'p' {
		d, err := job.ParseDuration(strings.ToUpper(s))
		if err != nil {
			return time.Time{}, refuse(field, err.Error())
		}
		return now.Add(-d), nil
	}
	if unit, ok := ages[s[len(s)-1]]; ok {
		n, err := strconv.ParseInt(s[:len(s)-1], 10, 64)
		if err != nil || n < 0 || n > int64(job.MaxDuration/unit) {
			return time.Time{}, wrong
		}
		return now.Add(-time.Duration(n) * unit), nil
	}
	t, err := instant(strings.Replace(s, " ", "+", 1), field)
	if err != nil {
		return time.Time{}, wrong
	}
	return t, nil
}
