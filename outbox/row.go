package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

// row is one row of the outbox, as it was read or is to be written.
type row struct {
	id       int64
	jobID    string // empty: derived
	typ      string
	args     []byte
	options  []byte
	created  int64 // milliseconds since 1970
	attempts int64
}

func (r row) size() int { return len(r.jobID) + len(r.typ) + len(r.args) + len(r.options) }

// envelope reads the row as a job; of is the identity of its outbox. The error
// is why this row can never be a job.
func (r row) envelope(of string) (job.Envelope, error) {
	if err := r.check(); err != nil {
		return job.Envelope{}, err
	}
	id := r.jobID
	if id == "" {
		id = string(deriveID(of, r.id, r.created))
	}
	b := make([]byte, 0, r.size()+96)
	b = job.AppendString(append(b, `{"id":`...), id)
	b = job.AppendString(append(b, `,"type":`...), r.typ)
	b = append(append(b, `,"args":`...), r.args...)
	if options := bytes.TrimSpace(r.options); len(options) > 0 {
		if flat(options) {
			b = append(append(b, ','), options[1:len(options)-1]...)
		} else {
			b = append(append(b, `,"options":`...), options...)
		}
	}
	return job.ParseChecked(append(b, '}'))
}

// check makes sure of each column alone: only a whole JSON value may be
// spliced, or args such as `[1],"queue":"other"` would write members of the job.
func (r row) check() error {
	for _, c := range []struct {
		name  string
		value []byte
		empty bool // is allowed
	}{{"job_args", r.args, false}, {"job_options", r.options, true}} {
		if c.empty && len(c.value) == 0 {
			continue
		}
		if len(c.value) > job.MaxJobBytes {
			return job.Errorf(job.TooLarge, "%s is longer than the %d bytes that a job may have", c.name, job.MaxJobBytes)
		}
		if err := job.CheckJSON(c.value); err != nil {
			return job.Errorf(job.KindOf(err), "%s: %w", c.name, err)
		}
	}
	if n := len(r.typ); n > job.MaxTypeLen {
		return job.Errorf(job.Invalid, "job_type must be at most %d characters, got %d", job.MaxTypeLen, n)
	}
	return nil
}

// flat reports whether options are members of the envelope itself: the envelope
// of ojs-core.md §5 says so by its specversion.
func flat(options []byte) bool {
	if options[0] != '{' {
		return false
	}
	found := false
	_ = job.Members(options, func(name string, _ json.RawMessage) error { // a name that comes twice is found again by the parser
		found = found || name == "specversion"
		return nil
	})
	return found
}

// deriveID is the id of the job of a row without one: the row's time, then 74
// bits of SHA-256 over the identity and the row's id. The time keeps two
// outboxes apart that were restored from one snapshot and went on with the same
// identity and the same row ids.
func deriveID(of string, row, created int64) job.ID {
	if created < 0 || created >= 1<<48 {
		created = 0
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(of+"\x00"), uint64(row)))
	var id uuid.UUID
	copy(id[6:], sum[:10])
	for i := range 6 {
		id[i] = byte(created >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return job.ID(id.String())
}

// appendOptions writes all of e but its id, type and args, as the members of a
// flat envelope: only there are unknown members and short durations of a retry
// policy read as they were. {} is an envelope without options.
func appendOptions(dst []byte, e job.Envelope) []byte {
	o := options{b: append(dst, `{"specversion":"`+job.SpecVersion+`"`...), given: map[string]bool{}}
	extra := names(e.Extra)
	if e.Queue != "" && e.Queue != job.DefaultQueue {
		o.raw("queue", job.AppendString(nil, e.Queue))
	}
	o.int("priority", int64(e.Priority))
	o.ms("timeout_ms", e.Timeout)
	if !extra["visibility_timeout"] && !extra["visibility_timeout_ms"] {
		o.ms("visibility_timeout_ms", e.Visibility)
	}
	o.instant("scheduled_at", e.ScheduledAt, "delay_ms", e.Delay, extra)
	o.instant("expires_at", e.ExpiresAt, "ttl_ms", e.TTL, extra)
	if e.Hold {
		o.raw("pending", []byte("true"))
	}
	o.raw("meta", e.Meta)
	o.raw("retry", e.Retry)
	o.raw("unique", e.Unique)
	o.raw("deduplication", e.Deduplication)
	o.customID(e)
	if len(e.Extra) > 0 {
		_ = job.Members(e.Extra, func(name string, v json.RawMessage) error { // Validate has passed it
			o.raw(name, v)
			return nil
		})
	}
	if len(o.given) == 0 {
		return append(dst, `{}`...)
	}
	return append(o.b, '}')
}

func names(obj []byte) map[string]bool {
	set := map[string]bool{}
	if len(obj) > 0 {
		_ = job.Members(obj, func(name string, _ json.RawMessage) error { // Validate has passed it
			set[name] = true
			return nil
		})
	}
	return set
}

// options is a JSON object that is being written. The first to give a name wins.
type options struct {
	b     []byte
	given map[string]bool
}

func (o *options) raw(name string, v []byte) {
	if v == nil || o.given[name] {
		return
	}
	o.given[name] = true
	o.b = append(job.AppendString(append(o.b, ','), name), ':')
	o.b = append(o.b, v...)
}

func (o *options) int(name string, v int64) {
	if v != 0 {
		o.raw(name, strconv.AppendInt(nil, v, 10))
	}
}

func (o *options) ms(name string, d time.Duration) { o.int(name, d.Milliseconds()) }

// customID writes the custom id, which has its place among the options that Extra may hold.
func (o *options) customID(e job.Envelope) {
	if e.CustomID == "" {
		return
	}
	b := job.AppendString([]byte(`{"job_id":`), e.CustomID)
	_ = job.Members(e.Extra, func(name string, v json.RawMessage) error { // Validate has passed it
		if name == "options" && len(v) > 2 {
			b = append(append(b, ','), v[1:len(v)-1]...)
		}
		return nil
	})
	o.raw("options", append(b, '}'))
}

// instant writes a time, or the time from the hand-over that counts instead. A
// time that Extra holds in the client's spelling is written from there.
func (o *options) instant(name string, at time.Time, relative string, d time.Duration, extra map[string]bool) {
	switch {
	case d > 0:
		o.ms(relative, d)
		o.given[name] = true // an instant beside it would win
	case !at.IsZero() && !extra[name]:
		o.raw(name, job.AppendString(nil, job.FormatTime(at)))
	}
}
