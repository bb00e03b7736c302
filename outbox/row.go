package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/internal/rawjson"
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
	again    bool   // it was marked as sent before, and somebody has set it back
	by       string // of a relayed row: the job that answers for it; empty: its own
}

// job is the id of the row's own job; of is the identity of its outbox.
func (r row) job(of string) job.ID {
	if r.jobID != "" {
		return job.ID(r.jobID)
	}
	return deriveID(of, r.id, r.created)
}

func (r row) size() int { return len(r.jobID) + len(r.typ) + len(r.args) + len(r.options) }

// envelope reads the row as a job; of is the identity of its outbox. The error
// is why this row can never be a job.
func (r row) envelope(of string) (job.Checked, error) {
	if err := r.check(); err != nil {
		return job.Checked{}, err
	}
	b := rawjson.Object(make([]byte, 0, r.size()+96))
	b.Str("id", string(r.job(of))).Str("type", r.typ).Raw("args", r.args)
	if options := bytes.TrimSpace(r.options); flat(options) {
		b.Splice(options)
	} else if len(options) > 0 {
		b.Raw("options", options)
	}
	return job.ParseChecked(b.Close())
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
	return rawjson.Has(options, "specversion")
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

// message is a row that is a job.
type message struct {
	row row
	job job.Checked
}

// asks reports whether a message has the options that its job was made with.
func (m message) asks(j *job.Job) bool {
	e := m.job.Envelope()
	return e.SameOptions(j)
}

// How often the log names an unknown option, and how many are remembered.
const (
	warnAgain = time.Hour
	warnMost  = 1000
)

// warn logs the unknown options of a row: once an hour for each name, as an app
// writes the same in every row.
func (r *Relay) warn(m message) {
	now := r.o.Now()
	for _, w := range m.job.Warnings() {
		if at, told := r.warnedOf[w.Field]; told && now.Sub(at) < warnAgain {
			continue
		}
		if r.warnedOf == nil || len(r.warnedOf) >= warnMost {
			r.warnedOf = map[string]time.Time{}
		}
		r.warnedOf[w.Field] = now
		r.o.Log.Warn("outbox: a row has an unknown option; such rows are logged once an hour",
			"outbox", r.o.Name, "table", r.d.sql.Table, "row", m.row.id, "job", string(m.job.ID()), "warning", w.Message)
	}
}
