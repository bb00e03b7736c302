package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// MaxProgressBytes bounds the body of a progress report, which may bring a checkpoint,
// and of a checkpoint.
const MaxProgressBytes = job.MaxCheckpointBytes + 128<<10

// DecodeProgress reads a progress report (contract §3.17). id is the job's where the path
// names it, and empty where the body does.
func DecodeProgress(raw []byte, id job.ID) (c job.Claim, r job.Report, err error) {
	c.ID = id
	var share *float64 // told as a percentage
	err = object(raw, "data", func(member string, v json.RawMessage) error {
		if used, err := claim(&c, member, v); used {
			return err
		}
		switch member {
		case "progress":
			return number(v, member, &r.Fraction)
		case "percentage":
			return number(v, member, &share)
		case "message":
			s, err := text(v, member)
			r.Message = &s
			return err
		case "data":
			r.Data = v
		case "checkpoint":
			r.Checkpoint = v
		}
		return nil
	})
	if err != nil {
		return c, r, err
	}
	if r.Fraction == nil && share != nil {
		f := *share / 100
		r.Fraction = &f
	}
	if r.Fraction == nil && r.Data == nil && r.Checkpoint == nil {
		return c, r, refuse("progress", "is required: a number from 0 to 1; or percentage from 0 to 100, or data")
	}
	return c, r, named(c)
}

// number is any JSON number.
func number(v json.RawMessage, field string, to **float64) error {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return refuse(field, "must be a number"+got(v))
	}
	*to = &f
	return nil
}

// ProgressBody is the body of a progress report.
func ProgressBody(c job.Claim, r job.Report) []byte {
	b := claimed(c)
	if r.Fraction != nil {
		v, _ := json.Marshal(*r.Fraction) // Validate has refused what is no number
		b.Raw("progress", v)
	}
	if r.Message != nil {
		b.Str("message", *r.Message)
	}
	if r.Data != nil {
		b.Raw("data", r.Data)
	}
	if r.Checkpoint != nil {
		b.Raw("checkpoint", r.Checkpoint)
	}
	return b.Close()
}

// claimed begins a body that names an attempt.
func claimed(c job.Claim) rawjson.Writer {
	b := rawjson.Object(make([]byte, 0, 256))
	b.Str("job_id", string(c.ID))
	b.Optional("lease_token", c.Token)
	b.Optional("worker_id", c.Worker)
	return b
}

// AppendReported appends the answer to a progress report.
func AppendReported(dst []byte, id job.ID, r job.Reported) []byte {
	b := progress(dst, id, r.State, r.Progress)
	b.Bool("accepted", r.Accepted)
	return b.Close()
}

// AppendProgress appends how far a job is.
func AppendProgress(dst []byte, j *job.Job) []byte {
	b := progress(dst, j.ID, j.State, j.Progress)
	return b.Close()
}

func progress(dst []byte, id job.ID, s job.State, p *job.Progress) rawjson.Writer {
	b := rawjson.Object(dst)
	b.Str("job_id", string(id)).Str("state", string(s))
	null := json.RawMessage("null")
	done, message, data := null, null, null
	if p != nil {
		if p.Measured {
			done, _ = json.Marshal(p.Fraction) // from 0 to 1
		}
		if p.Message != "" {
			message = rawjson.AppendString(nil, p.Message)
		}
		if p.Data != nil {
			data = p.Data
		}
	}
	b.Raw("progress", done).Raw("message", message).Raw("data", data)
	if p != nil {
		b.Time("updated_at", p.At)
	} else {
		b.Raw("updated_at", null)
	}
	return b
}

// ReadReported reads the answer to a progress report.
func ReadReported(body []byte) (job.Reported, error) {
	var r struct {
		State    job.State       `json:"state"`
		Progress *float64        `json:"progress"`
		Message  string          `json:"message"`
		Data     json.RawMessage `json:"data"`
		At       *time.Time      `json:"updated_at"`
		Accepted bool            `json:"accepted"`
	}
	if err := read(body, &r); err != nil {
		return job.Reported{}, err
	}
	out := job.Reported{State: r.State, Accepted: r.Accepted}
	if r.At != nil {
		p := &job.Progress{Message: r.Message, Data: r.Data, At: r.At.UTC()}
		if isNull(p.Data) {
			p.Data = nil
		}
		if r.Progress != nil {
			p.Fraction, p.Measured = *r.Progress, true
		}
		out.Progress = p
	}
	return out, nil
}

// claimBeside is claim where the path names the job: an id in the body is something else's.
func claimBeside(c *job.Claim, member string, v json.RawMessage) (used bool, err error) {
	if member == "id" {
		return false, nil
	}
	return claim(c, member, v)
}
