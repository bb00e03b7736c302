package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What travels about many jobs at once (contract §3.19).

// DecodeBulkPush reads the body of POST /ojs/v1/jobs/bulk. A job that breaks a rule is
// kept with its error: it does not spoil the others. The envelopes are copies.
func DecodeBulkPush(raw []byte) (p job.BulkPush, err error) {
	var jobs json.RawMessage
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "jobs":
			jobs = v
		case "atomicity":
			s, err := text(v, member)
			if err != nil || s != "partial" && s != "atomic" {
				return refuse(member, "must be partial or atomic"+got(v))
			}
			p.Atomic = s == "atomic"
		case "idempotency_key":
			p.Key, err = text(v, member)
		}
		return err
	})
	switch {
	case err != nil:
		return p, err
	case jobs == nil:
		return p, refuse("jobs", "is required: an array of 1 to 10000 jobs")
	case jobs[0] != '[':
		return p, refuse("jobs", "must be an array"+got(jobs))
	}
	err = job.Elements(jobs, func(i int, v json.RawMessage) error {
		if i == job.MaxBatch {
			return job.Errorf(job.TooLarge, "jobs has more than %d elements; send several requests", job.MaxBatch).
				With(map[string]any{"max_batch_size": job.MaxBatch})
		}
		var one job.BulkJob
		if v[0] != '{' {
			one.Err = AtIndex(refuse("jobs", "must hold objects"+got(v)), i)
		} else if one.Checked, one.Err = job.ParseChecked(bytes.Clone(v)); one.Err != nil {
			one.Err = AtIndex(one.Err, i)
		}
		p.Jobs = append(p.Jobs, one)
		return nil
	})
	if err == nil && len(p.Jobs) == 0 {
		err = refuse("jobs", "must not be empty")
	}
	return p, err
}

// BulkPushBody is the body of POST /ojs/v1/jobs/bulk. A job with an error is sent as
// null, so that its place stays.
func BulkPushBody(p job.BulkPush) []byte {
	b := begin()
	b.Array("jobs")
	for i := range p.Jobs {
		b.Element()
		if p.Jobs[i].Err != nil {
			b = append(b, "null"...)
		} else {
			b = p.Jobs[i].AppendPush(b)
		}
	}
	b.EndArray()
	if p.Atomic {
		b.Str("atomicity", "atomic")
	}
	return b.Optional("idempotency_key", p.Key).Close()
}

// DecodeBulkAct reads the body of a cancel, retry or delete of many jobs. With confirm
// it must say confirm:true, unless it only counts.
func DecodeBulkAct(raw []byte, action string, confirm bool, now time.Time) (a job.BulkAct, err error) {
	a.Action = action
	confirmed := false
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "job_ids", "ids":
			var ids []string
			if ids, err = names(v, member, 1<<20); err == nil {
				a.IDs = make([]job.ID, len(ids))
				for i, id := range ids {
					a.IDs[i] = job.ID(id)
				}
			}
		case "filter":
			a.Filter, err = bulkFilter(v, now)
		case "dry_run":
			a.DryRun, err = boolean(v, member)
		case "confirm":
			confirmed, err = boolean(v, member)
		case "idempotency_key":
			a.Key, err = text(v, member)
		case "reason":
			a.Reason, err = name(v, member)
		case "by", "cancelled_by":
			a.By, err = name(v, member)
		default:
			err = refuse(short(member), "is not known; there are job_ids, filter, dry_run, confirm, reason, by and idempotency_key")
		}
		return err
	})
	if err == nil && confirm && !confirmed && !a.DryRun {
		err = refuse("confirm", "must be true: this is done to every job that is named; dry_run:true only counts them")
	}
	return a, err
}

// bulkFilter reads a filter. A member that is not known is Invalid: it was meant to narrow it.
func bulkFilter(v json.RawMessage, now time.Time) (*job.BulkFilter, error) {
	const outer = "filter"
	if v[0] != '{' {
		return nil, refuse(outer, "must be an object"+got(v))
	}
	f := &job.BulkFilter{}
	err := job.Members(v, func(member string, v json.RawMessage) (err error) {
		field := outer + "." + member
		if isNull(v) {
			return nil
		}
		switch member {
		case "type":
			f.Type, err = name(v, field)
		case "queue":
			f.Queue, err = name(v, field)
		case "state", "states":
			f.States, err = stateList(v, field)
		case "since":
			f.Since, err = moment(v, field)
		case "until":
			f.Until, err = moment(v, field)
		case "enqueued_after":
			f.EnqueuedAfter, err = moment(v, field)
		case "enqueued_before":
			f.EnqueuedBefore, err = moment(v, field)
		case "older_than":
			f.OlderThan, err = age(v, field, now)
		case "priority":
			n, ok := rawjson.Integer(v)
			if !ok || n < job.MinPriority || n > job.MaxPriority {
				return refuse(field, "must be an integer from -100 to 100"+got(v))
			}
			p := int(n)
			f.Priority = &p
		case "meta":
			if v[0] != '{' {
				return refuse(field, "must be an object"+got(v))
			}
			f.Meta = map[string]json.RawMessage{}
			err = job.Members(v, func(name string, v json.RawMessage) error {
				f.Meta[name] = v
				return nil
			})
		default:
			err = refuse(outer+"."+short(member), "is not known; a filter has type, queue, state, since, until, enqueued_after, enqueued_before, older_than, priority and meta")
		}
		return err
	})
	return f, err
}

// BulkActBody is the body of a cancel, retry or delete of many jobs.
func BulkActBody(a job.BulkAct) []byte {
	b := begin()
	if a.IDs != nil {
		rawjson.Strings(&b, "job_ids", a.IDs)
	}
	if f := a.Filter; f != nil {
		b.Object("filter")
		b.Optional("type", f.Type).Optional("queue", f.Queue)
		if len(f.States) > 0 {
			rawjson.Strings(&b, "state", f.States)
		}
		for _, t := range []struct {
			name string
			at   time.Time
		}{{"since", f.Since}, {"until", f.Until}, {"enqueued_after", f.EnqueuedAfter}, {"enqueued_before", f.EnqueuedBefore}, {"older_than", f.OlderThan}} {
			if !t.at.IsZero() {
				b.Time(t.name, t.at)
			}
		}
		if f.Priority != nil {
			b.Int("priority", int64(*f.Priority))
		}
		if len(f.Meta) > 0 {
			b.Object("meta")
			for name, v := range f.Meta {
				b.Quoted(name, v)
			}
			b.End()
		}
		b.End()
	}
	if a.DryRun {
		b.Bool("dry_run", true)
	}
	return b.Optional("by", a.By).Optional("reason", a.Reason).Optional("idempotency_key", a.Key).Close()
}

// BulkStatus is the status of an answer about many jobs.
func BulkStatus(r job.BulkResult) int {
	switch {
	case r.Action != "":
		return http.StatusOK
	case r.Failed == 0:
		return http.StatusCreated
	case r.Succeeded == 0:
		return http.StatusUnprocessableEntity
	}
	return http.StatusMultiStatus
}

// past are the words for what was done.
var past = map[string]string{job.BulkCancel: "cancelled", job.BulkRetry: "retried", job.BulkDelete: "deleted"}

// AppendBulk appends the answer about many jobs.
func AppendBulk(dst []byte, r job.BulkResult) []byte {
	b := rawjson.Object(dst)
	b.Optional("action", r.Action)
	b.Int("total", r.Total)
	if r.Action != "" {
		b.Int("total_matched", r.Total).Int("matched", r.Total)
	}
	done := r.Succeeded
	if r.DryRun {
		b.Bool("dry_run", true).Int("would_succeed", r.Succeeded)
		done = 0
	}
	b.Int("succeeded", done).Int("failed", r.Failed)
	if r.Action != "" {
		b.Int("skipped", r.Skipped).Int(past[r.Action], done)
	} else if r.Atomic {
		b.Str("atomicity", "atomic")
	}
	objects(&b, "items", r.Items, func(b *rawjson.Writer, it job.BulkItem) {
		b.Int("index", int64(it.Index))
		b.Optional("job_id", string(it.ID))
		b.Str("status", it.Status)
		if it.Job != nil {
			wholeJob(b, it.Job)
		}
		if it.Err != nil {
			b.Str("reason", it.Err.Error())
			b.Raw("error", itemError(it.Err))
		}
	})
	if r.Action != "" {
		var failed []job.BulkItem
		for _, it := range r.Items {
			if it.Status == job.BulkFailed {
				failed = append(failed, it)
			}
		}
		objects(&b, "errors", failed, func(b *rawjson.Writer, it job.BulkItem) {
			b.Str("job_id", string(it.ID)).Str("error", it.Err.Error())
		})
	}
	if r.Replayed {
		b.Bool("replayed", true)
	}
	return b.Close()
}

// itemError is the error object about one job of many, with the status that it would
// have had alone.
func itemError(err error) json.RawMessage {
	status, body := EncodeError(err, "")
	raw := rawjson.Writer(bytes.Clone(rawjson.Member(body, "error")))
	raw.Reopen()
	return json.RawMessage(raw.Int("status", int64(status)).Close())
}

// ReadBulk reads the answer about many jobs.
func ReadBulk(body []byte) (r job.BulkResult, err error) {
	var v struct {
		Action    string `json:"action"`
		Atomicity string `json:"atomicity"`
		DryRun    bool   `json:"dry_run"`
		Total     int64  `json:"total"`
		Would     int64  `json:"would_succeed"`
		Succeeded int64  `json:"succeeded"`
		Failed    int64  `json:"failed"`
		Skipped   int64  `json:"skipped"`
		Replayed  bool   `json:"replayed"`
		Items     []struct {
			Index  int             `json:"index"`
			ID     job.ID          `json:"job_id"`
			Status string          `json:"status"`
			Job    json.RawMessage `json:"job"`
			Error  json.RawMessage `json:"error"`
		} `json:"items"`
	}
	if err := read(body, &v); err != nil {
		return r, err
	}
	r = job.BulkResult{Action: v.Action, Atomic: v.Atomicity == "atomic", DryRun: v.DryRun, Total: v.Total, Succeeded: v.Succeeded, Failed: v.Failed, Skipped: v.Skipped, Replayed: v.Replayed}
	if v.DryRun {
		r.Succeeded = v.Would
	}
	for _, one := range v.Items {
		it := job.BulkItem{Index: one.Index, ID: one.ID, Status: one.Status}
		if one.Job != nil {
			if it.Job, err = parse(one.Job); err != nil {
				return r, err
			}
		}
		if one.Error != nil {
			var s struct {
				Status int `json:"status"`
			}
			if err := read(one.Error, &s); err != nil {
				return r, err
			}
			b := rawjson.Object(nil)
			it.Err = DecodeError(s.Status, b.Raw("error", one.Error).Close())
		}
		r.Items = append(r.Items, it)
	}
	return r, nil
}

// IsBulk reports whether an answer is one about many jobs, and no error about all of them.
func IsBulk(status int, body []byte) bool {
	var v struct {
		Items json.RawMessage `json:"items"`
	}
	return status == http.StatusUnprocessableEntity && json.Unmarshal(body, &v) == nil && v.Items != nil
}
