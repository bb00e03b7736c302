package job

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// ParseJob reads a job object as [Job.AppendJSON] writes it: what a server
// answers becomes a Job again, and writing that Job gives the same bytes. JSON
// that the job carries is not decoded. Members that are no part of a job go to
// Extra, and so do scheduled_at and expires_at when [FormatTime] writes them
// in another way. What is never sent (Seq, DueAt, Releases, Lost, Hold, the
// length of the lease) stays zero.
//
// An error is Malformed or Invalid and names the member. raw must not be
// changed afterwards: the job points into it.
func ParseJob(raw []byte) (*Job, error) {
	// Not CheckJSON: an answer may nest deeper than any request, because the
	// server puts what it was sent inside objects of its own.
	if _, ok := rawjson.Valid(raw); !ok || !utf8.Valid(raw) {
		return nil, Errorf(Malformed, "a job is not valid JSON in UTF-8")
	}
	return ParseCheckedJob(raw)
}

// ParseCheckedJob is ParseJob for bytes that are known to be valid JSON in UTF-8, such
// as an element of a list that was checked as a whole.
func ParseCheckedJob(raw []byte) (*Job, error) {
	d := decoder{j: &Job{}, extra: rawjson.Object(nil)}
	if err := Members(raw, d.member); err != nil {
		return nil, err
	}
	if len(d.extra) > 1 {
		d.j.Extra = d.extra.Close()
	}
	if d.j.State != Active {
		d.j.Lease = Lease{}
	}
	return d.j, nil
}

// decoder fills a job from its members. In a job object null says the same as
// a member that is left out, save for the result.
type decoder struct {
	j     *Job
	extra rawjson.Writer
}

func (d *decoder) member(name string, v json.RawMessage) error {
	if take := takers[name]; take != nil {
		if whole, err := take(d.j, name, v); whole || err != nil {
			return err
		}
	}
	d.extra.Quoted(name, v)
	return nil
}

// AppendPush appends the body of an enqueue that [ParseEnvelope] reads back to
// the same envelope. JSON in it is copied as it stands. Times and durations are
// sent in whole milliseconds, rounded up as [Checked.Push] rounds them. A Delay is
// sent instead of ScheduledAt, and a TTL instead of ExpiresAt, as Push lets them win.
func (c *Checked) AppendPush(dst []byte) []byte {
	w := rawjson.Object(dst)
	w.Str("specversion", SpecVersion)
	for _, send := range sends {
		w = send(w, &c.e)
	}
	return w.Close()
}

// AppendOptions appends the object of all that AppendPush sends but the id, the
// type and the args. With those three beside its members it is the flat envelope
// of ojs-core.md §5, which its specversion says. Where nothing is asked for, it
// is {}.
func (c *Checked) AppendOptions(dst []byte) []byte {
	e := c.e
	if e.Queue == DefaultQueue {
		e.Queue = ""
	}
	w := rawjson.Object(dst)
	w.Str("specversion", SpecVersion)
	bare := len(w)
	for _, send := range options {
		w = send(w, &e)
	}
	if len(w) == bare {
		w = rawjson.Object(dst)
	}
	return w.Close()
}
