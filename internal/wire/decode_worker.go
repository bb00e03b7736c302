package wire

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeNack reads the body of a FAIL (contract §3.10, §2.7). The error object is
// required unless the job is given back with requeue, which overrides everything else.
// A valid one is read even then, for a job that was given back too often.
func DecodeNack(raw []byte) (c job.Claim, f job.Failure, err error) {
	var failure json.RawMessage
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if used, err := claim(&c, member, v); used {
			return err
		}
		var err error
		switch member {
		case "error":
			failure = v
		case "requeue":
			f.Requeue, err = boolean(v, member)
		case "retry_after":
			err = after(&f, v, member, pause)
		case "delay_ms":
			err = after(&f, v, member, millis)
		}
		return err
	})
	if err != nil {
		return c, f, err
	}
	if err := named(c); err != nil {
		return c, f, err
	}
	alone := f
	if err = decodeFailure(failure, &f); err != nil && f.Requeue {
		return c, alone, nil
	}
	return c, f, err
}

// after sets the delay that the worker asks for.
func after(f *job.Failure, v json.RawMessage, field string, read func(json.RawMessage, string) (time.Duration, error)) error {
	d, err := read(v, field)
	if err == nil && f.RetryAfter != nil && *f.RetryAfter != d {
		err = refuse(field, "says another delay than the one beside it: give retry_after or delay_ms")
	}
	f.RetryAfter = &d
	return err
}

// decodeFailure reads the error object of a FAIL: type and message are required
// (ojs-core.md §8.1), and a code, which is what public clients send, stands for the
// type (contract §2.7). Unknown members are kept.
func decodeFailure(raw json.RawMessage, f *job.Failure) error {
	if raw == nil {
		return refuse("error", "is required: an object with a type, or a code, and a message")
	}
	if raw[0] != '{' {
		return refuse("error", "must be an object"+got(raw))
	}
	message := false
	further := rawjson.Object(nil)
	err := job.Members(raw, func(member string, v json.RawMessage) (err error) {
		if !job.KnownErrorMember(member) {
			further.Quoted(member, v)
			return nil
		}
		if isNull(v) {
			return nil
		}
		field := "error." + member
		switch member {
		case "type":
			f.Type, err = text(v, field)
		case "message":
			f.Message, err = text(v, field)
			message = true
		case "code":
			f.Code, err = text(v, field)
		case "retryable":
			var b bool
			b, err = boolean(v, field)
			f.Retryable = &b
		case "details":
			f.Details = details(v)
		case "backtrace":
			f.Backtrace, err = frames(v, field)
		}
		return err
	})
	if len(further) > 1 {
		f.Extra = further.Close()
	}
	switch {
	case err != nil:
		return err
	case f.Type == "" && f.Code == "":
		return refuse("error.type", "is required: the name of the error, such as SmtpConnectionError, or error.code in place of it")
	case !message:
		return refuse("error.message", "is required: what happened, for a person; it may be empty")
	}
	return nil
}

// details makes an object of v: some clients can decode nothing else there.
func details(v json.RawMessage) json.RawMessage {
	if v[0] == '{' {
		return v
	}
	b := rawjson.Object(make([]byte, 0, len(v)+10))
	return b.Raw("value", v).Close()
}

// frames reads a backtrace: strings, or one string of several lines.
func frames(v json.RawMessage, field string) ([]string, error) {
	if v[0] == '"' {
		s, err := text(v, field)
		return strings.Split(strings.TrimRight(s, "\n"), "\n"), err
	}
	var list []string
	if v[0] != '[' || json.Unmarshal(v, &list) != nil {
		return nil, refuse(field, "must be an array of strings, or a string")
	}
	return list, nil
}

// beat is what the body of a heartbeat holds, before the ids from its dialects are put
// together.
type beat struct {
	job.Beat
	ids    []string
	tokens map[job.ID]string
	count  int
}

// DecodeBeat reads the body of a BEAT in every dialect of contract §3.11: the
// jobs may be a list in active_jobs or active_job_ids, a single job_id, or the
// members of leases, and active_jobs may be their number. Worker.BeatAt is left
// to the server.
func DecodeBeat(raw []byte) (job.Beat, error) {
	var b beat
	if err := object(raw, "", b.member); err != nil {
		return job.Beat{}, err
	}
	if b.Worker.ID == "" {
		return job.Beat{}, refuse("worker_id", "is required")
	}
	seen := make(map[string]bool, len(b.ids))
	for _, id := range b.ids {
		if !seen[id] {
			seen[id] = true
			b.Jobs = append(b.Jobs, job.Claim{ID: job.ID(id), Token: b.tokens[job.ID(id)], Worker: b.Worker.ID})
		}
	}
	b.Worker.Active = max(b.count, len(b.Jobs))
	return b.Beat, nil
}

func (b *beat) member(member string, v json.RawMessage) (err error) {
	switch member {
	case "worker_id":
		b.Worker.ID, err = name(v, member)
	case "active_jobs":
		if v[0] != '[' {
			b.count, err = natural(v, member, math.MaxInt32)
			return err
		}
		return b.add(v, member)
	case "active_job_ids":
		return b.add(v, member)
	case "job_id":
		var id string
		if id, err = name(v, member); id != "" {
			b.ids = append(b.ids, id)
		}
	case "leases":
		return b.leases(v)
	case "visibility_timeout_ms":
		b.Visibility, err = millis(v, member)
	case "shutdown":
		var down bool
		if down, err = boolean(v, member); down {
			b.Worker.State = "terminate"
		}
	case "state":
		var s string
		if s, err = name(v, member); b.Worker.State == "" {
			b.Worker.State = s
		}
	default:
		return b.about(member, v)
	}
	return err
}

// about reads what a worker tells of itself for people to read.
func (b *beat) about(member string, v json.RawMessage) (err error) {
	switch member {
	case "hostname":
		b.Worker.Hostname, err = name(v, member)
	case "version":
		b.Worker.Version, err = name(v, member)
	case "pid":
		b.Worker.PID, err = natural(v, member, math.MaxInt32)
	case "concurrency":
		b.Worker.Concurrency, err = natural(v, member, math.MaxInt32)
	case "queues":
		b.Worker.Queues, err = names(v, member, MaxQueues)
	case "labels":
		if v[0] == '[' {
			b.Worker.LabelList, err = names(v, member, MaxQueues)
			return err
		}
		b.Worker.Labels, err = labels(v)
	case "started_at":
		b.Worker.StartedAt, err = moment(v, member)
	}
	return err
}

func (b *beat) add(v json.RawMessage, field string) error {
	ids, err := names(v, field, job.MaxBatch)
	b.ids = append(b.ids, ids...)
	return err
}

func (b *beat) leases(v json.RawMessage) error {
	if v[0] != '{' {
		return refuse("leases", "must be an object of job ids and lease tokens"+got(v))
	}
	b.tokens = map[job.ID]string{}
	return job.Members(v, func(id string, v json.RawMessage) error {
		token, err := name(v, "leases")
		b.ids = append(b.ids, id)
		b.tokens[job.ID(id)] = token
		return err
	})
}

// labels reads an object of strings; other values keep their JSON text.
func labels(v json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if v[0] != '{' {
		return nil, refuse("labels", "must be an object of strings, or an array of them"+got(v))
	}
	return m, job.Members(v, func(label string, v json.RawMessage) error {
		if s, err := text(v, "labels"); err == nil {
			m[label] = s
		} else {
			m[label] = string(v)
		}
		return nil
	})
}
