package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Limits of a request that are not rules of a job (contract §1.8, §3.8).
const (
	MaxBatchBytes = 32 << 20                    // the body of a batch
	MaxFetch      = 100                         // jobs of one FETCH
	MaxWait       = 20 * time.Second            // how long a FETCH may wait
	MaxQueues     = 1000                        // queues that one FETCH or BEAT names
	MaxEndBytes   = job.MaxResultBytes + 64<<10 // one ACK or FAIL: a result, and what stands beside it
	MaxAcksBytes  = 4 << 20                     // the body of many ACKs: beside a FETCH it is held while that waits
)

// DecodePush reads the body of POST /ojs/v1/jobs (contract §2.2). The envelope
// points into raw, which must not be changed afterwards.
func DecodePush(raw []byte) (job.Checked, error) { return job.ParseEnvelope(raw) }

// DecodeBatch reads the body of POST /ojs/v1/jobs/batch (contract §3.2). The
// first bad element's error comes back with its index in Details and in the
// message. More than job.MaxBatch elements are TooLarge, whatever they are. The
// envelopes point into raw.
func DecodeBatch(raw []byte) ([]job.Checked, error) {
	var jobs json.RawMessage
	err := object(raw, "", func(name string, v json.RawMessage) error {
		if name == "jobs" {
			jobs = v
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case jobs == nil:
		return nil, refuse("jobs", "is required: an array of 1 to 10000 jobs")
	case jobs[0] != '[':
		return nil, refuse("jobs", "must be an array"+got(jobs))
	}
	var elements []json.RawMessage
	err = job.Elements(jobs, func(i int, v json.RawMessage) error {
		if i == job.MaxBatch {
			return job.Errorf(job.TooLarge, "jobs has more than %d elements; send several batches", job.MaxBatch).
				With(map[string]any{"max_batch_size": job.MaxBatch})
		}
		elements = append(elements, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		return nil, refuse("jobs", "must not be empty")
	}
	cs := make([]job.Checked, len(elements))
	for i, v := range elements {
		c, err := job.ParseChecked(bytes.Clone(v)) // so that a job does not keep the whole batch in memory
		if err != nil {
			return nil, AtIndex(err, i)
		}
		cs[i] = c
	}
	return cs, nil
}

// AtIndex is err with the index of the batch element that it is about, in
// Details["index"] and at the start of its message.
func AtIndex(err error, i int) error {
	prefix := fmt.Sprintf("jobs[%d]", i)
	e := &job.Error{Kind: job.KindOf(err), Message: err.Error(), Err: err, Details: map[string]any{}}
	if from, ok := err.(*job.Error); ok {
		maps.Copy(e.Details, from.Details)
	}
	e.Details["index"] = i
	if !strings.HasPrefix(e.Message, prefix) {
		e.Message = prefix + ": " + e.Message
	}
	return e
}

// DecodeFetch reads the body of a FETCH (contract §3.8). Count and Wait are brought
// into their bounds; any other bad value is Invalid.
func DecodeFetch(raw []byte) (job.FetchRequest, error) {
	var f job.FetchRequest
	err := object(raw, "", func(member string, v json.RawMessage) error { return fetchMember(&f, member, v) })
	return asked(f, err)
}

// fetchMember reads a member of a FETCH.
func fetchMember(f *job.FetchRequest, member string, v json.RawMessage) (err error) {
	var n int64
	switch member {
	case "queues":
		f.Queues, err = names(v, member, MaxQueues)
	case "count", "max", "limit":
		if n, err = clamped(v, member, 1, MaxFetch); f.Count == 0 || member == "count" {
			f.Count = int(n)
		}
	case "worker_id":
		f.Worker, err = name(v, member)
	case "visibility_timeout_ms":
		f.Visibility, err = millis(v, member)
	case "versions":
		f.Versions, err = job.ParseVersions(v)
	case "block_ms", "wait_ms", "timeout":
		n, err = clamped(v, member, 0, MaxWait.Milliseconds())
		f.Wait = max(f.Wait, time.Duration(n)*time.Millisecond)
	}
	return err
}

// asked is a FETCH that was read, with what it must have.
func asked(f job.FetchRequest, err error) (job.FetchRequest, error) {
	if err == nil && len(f.Queues) == 0 {
		err = refuse("queues", "is required: an array of at least one queue name")
	}
	f.Count = max(f.Count, 1)
	return f, err
}

// claim reads the members that name an attempt; used is false for any other member.
func claim(c *job.Claim, member string, v json.RawMessage) (used bool, err error) {
	var s string
	switch member {
	case "job_id", "id":
		if s, err = text(v, member); err == nil && c.ID != "" && string(c.ID) != s {
			err = refuse(member, "is another job than the one beside it: give job_id alone")
		}
		c.ID = job.ID(s)
	case "worker_id":
		c.Worker, err = name(v, member)
	case "lease_token":
		c.Token, err = name(v, member)
	default:
		return false, nil
	}
	return true, err
}

// named makes sure that a claim says which job it is about. An id that no job
// can have is NotFound, as any unknown one.
func named(c job.Claim) error {
	if c.ID == "" {
		return refuse("job_id", "is required")
	}
	if !job.ValidID(string(c.ID)) {
		return NoJob(string(c.ID))
	}
	return nil
}

// NoJob is the NotFound for a job.
func NoJob(id string) error {
	return job.Errorf(job.NotFound, "there is no job %.60q", id).With(map[string]any{"resource_type": "job", "resource_id": id})
}

// DecodeAck reads the body of an ACK (contract §3.9). The result is raw JSON, a
// part of the body, and nil only where none was sent: an explicit null is a
// result. An id that is known from the path beats the body's, and lets the body
// be empty.
func DecodeAck(raw []byte, id job.ID) (c job.Claim, result json.RawMessage, err error) {
	if id != "" && len(raw) == 0 {
		return job.Claim{ID: id}, nil, nil
	}
	err = object(raw, "result", func(member string, v json.RawMessage) error {
		if member == "result" {
			result = v
			return nil
		}
		_, err := claim(&c, member, v)
		return err
	})
	if id != "" {
		c.ID = id
	}
	if err == nil {
		err = named(c)
	}
	return c, result, err
}

// DecodeCancel reads the optional body of a CANCEL (contract §3.5). A bad body does
// not make a CANCEL fail: what is not understood is ignored.
func DecodeCancel(raw []byte) (by, reason string) {
	_ = object(raw, "", func(member string, v json.RawMessage) error {
		switch member {
		case "cancelled_by":
			by, _ = text(v, member)
		case "reason":
			reason, _ = text(v, member)
		}
		return nil
	})
	return by, reason
}

// DecodeRevive reads the body of a dead letter's retry (contract §3.14), which
// may be empty. An override is Unsupported.
func DecodeRevive(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	return object(raw, "", func(member string, v json.RawMessage) error {
		if member != "override" {
			return nil
		}
		return job.Errorf(job.Unsupported, "override is not supported: the job is retried as it is").With(map[string]any{"field": "override"})
	})
}
