package wire

import (
	"bytes"
	"encoding/json"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// The answers to PUSH and to a batch, which may be about jobs that were stored before.

// SameID reports whether a receipt is about an id that is stored already, which
// is no success on the wire (contract §2.2, C-32).
func SameID(r job.Receipt) bool { return r.Verdict == job.SameID }

// AppendReceipt appends the answer to a PUSH (contract §3.1): the job, and beside it
// why a stored job answers, or which job was replaced.
func AppendReceipt(dst []byte, r job.Receipt) []byte {
	b := rawjson.Writer(AppendJob(dst, r.Job, Extras{}))
	b.Reopen()
	verdict(&b, r)
	if r.Verdict == job.Deduplicated {
		b.Object("deduplication")
		appendHeld(&b, r.Job)
		b.End()
	}
	appendWarnings(&b, r.Warnings)
	return b.Close()
}

// verdict appends what a receipt says beside its job. The job itself never has members
// of these names: package job drops them from what is sent.
func verdict(b *rawjson.Writer, r job.Receipt) {
	b.Optional("replaced_job_id", string(r.Replaced))
	if len(r.AllReplaced) > 0 {
		rawjson.Strings(b, "replaced_job_ids", r.AllReplaced)
	}
	if !r.Existing {
		return
	}
	b.Bool("deduplicated", true)
	switch r.Verdict {
	case job.Rewritten:
		b.Bool("replaced", true)
	case job.SameCustomID:
		b.Bool("duplicate_job_id", true)
	}
}

// appendHeld appends the deduplication key of its owner (contract §4.11).
func appendHeld(b *rawjson.Writer, owner *job.Job) {
	b.Str("id", dedupID(owner)).Str("mode", owner.DedupMode()).Str("job_id", string(owner.ID))
}

// dedupID is the id that a job's deduplication names, whether it holds it or not.
func dedupID(j *job.Job) string {
	if id := rawjson.Member(j.Deduplication, "id"); id != nil {
		return rawjson.Unquote(id)
	}
	return ""
}

// AppendBatch appends the answer to a batch (contract §3.2). What a PUSH says beside
// its job stands at the end of each job here. Only the deduplications have a list of
// their own, as a job has a member of that name.
func AppendBatch(dst []byte, rs []job.Receipt) []byte {
	enqueued, held := 0, []int(nil)
	b := rawjson.Object(dst)
	b.Array("jobs")
	for i, r := range rs {
		b.Element()
		b = r.AppendJSON(b, job.View{})
		b.Reopen()
		verdict(&b, r)
		b.End()
		if !r.Existing {
			enqueued++
		}
		if r.Verdict == job.Deduplicated {
			held = append(held, i)
		}
	}
	b.EndArray()
	b.Int("count", int64(len(rs))).Int("enqueued", int64(enqueued)).Int("failed", 0)
	if held != nil {
		objects(&b, "deduplications", held, func(b *rawjson.Writer, i int) {
			b.Int("index", int64(i))
			appendHeld(b, rs[i].Job)
		})
	}
	batchWarnings(&b, rs)
	return b.Close()
}

// answered is what an answer says beside a job (contract §3.1).
type answered struct {
	Existing     bool   `json:"deduplicated"`
	Rewritten    bool   `json:"replaced"`
	SameCustomID bool   `json:"duplicate_job_id"`
	Replaced     job.ID `json:"replaced_job_id"`

	AllReplaced []job.ID `json:"replaced_job_ids"`
}

// receipt is the receipt for j; held says that a deduplication key was.
func (a answered) receipt(j *job.Job, held bool) job.Receipt {
	r := job.Receipt{Job: j, Existing: a.Existing, Replaced: a.Replaced, AllReplaced: a.AllReplaced}
	switch {
	case !a.Existing:
	case a.SameCustomID:
		r.Verdict = job.SameCustomID
	case held:
		r.Verdict = job.Deduplicated
	case a.Rewritten:
		r.Verdict = job.Rewritten
	default:
		r.Verdict = job.Ignored
	}
	return r
}

// ReadReceipt reads the answer to a PUSH (contract §3.1).
func ReadReceipt(body []byte) (job.Receipt, error) {
	var r struct {
		answered
		Held     json.RawMessage `json:"deduplication"`
		Warnings warnings        `json:"warnings"`
	}
	_, j, err := readOne(body)
	if err == nil {
		err = read(body, &r)
	}
	if err != nil {
		return job.Receipt{}, err
	}
	receipt := r.receipt(j, r.Held != nil)
	receipt.Warnings = r.Warnings.of(0)
	return receipt, nil
}

// ReadBatch reads the answer to a batch (contract §3.2).
func ReadBatch(body []byte) ([]job.Receipt, error) {
	var r struct {
		Jobs []json.RawMessage `json:"jobs"`
		Held []struct {
			Index int `json:"index"`
		} `json:"deduplications"`
		Warnings warnings `json:"warnings"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	jobs, err := parseAll(r.Jobs)
	if err != nil {
		return nil, err
	}
	held := map[int]bool{}
	for _, h := range r.Held {
		held[h.Index] = true
	}
	rs := make([]job.Receipt, len(jobs))
	for i, j := range jobs {
		var a answered
		if hasVerdict(r.Jobs[i]) {
			if err := read(r.Jobs[i], &a); err != nil {
				return nil, err
			}
		}
		rs[i] = a.receipt(j, held[i])
		rs[i].Warnings = r.Warnings.of(i)
	}
	return rs, nil
}

// hasVerdict reports whether an element may hold more than its job. Few of a batch do,
// and only those are decoded twice.
func hasVerdict(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte(`"deduplicated"`)) || bytes.Contains(raw, []byte(`"replaced_job_id"`))
}
