package wire

import (
	"encoding/json"
	"net/http"
	"net/url"
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

// DecodeCheckpoint reads a checkpoint to be saved (contract §3.17).
func DecodeCheckpoint(raw []byte, id job.ID) (c job.Claim, state, metadata json.RawMessage, err error) {
	c.ID = id
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if used, err := claimBeside(&c, member, v); used {
			return err
		}
		switch member {
		case "state":
			state = v
		case "metadata":
			metadata = v
		}
		return nil
	})
	return c, state, metadata, err
}

// DecodeStep reads a checkpoint as the public SDKs send it: with the index of a step,
// which is kept with the metadata.
func DecodeStep(raw []byte, id job.ID) (c job.Claim, state, metadata json.RawMessage, err error) {
	c.ID = id
	var step json.RawMessage
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if used, err := claimBeside(&c, member, v); used {
			return err
		}
		switch member {
		case "state":
			state = v
		case "step_index":
			_, err := natural(v, member, int64(1)<<53)
			step = v
			return err
		case "metadata":
			if v[0] != '{' {
				return refuse(member, "must be a JSON object"+got(v))
			}
			metadata = v
		}
		return nil
	})
	if err != nil || step == nil {
		return c, state, metadata, err
	}
	b := rawjson.Object(make([]byte, 0, len(metadata)+32))
	b.Raw("step_index", step)
	if metadata != nil {
		err = job.Members(metadata, func(member string, v json.RawMessage) error {
			if member != "step_index" {
				b.Quoted(member, v)
			}
			return nil
		})
	}
	return c, state, b.Close(), err
}

// CheckpointBody is the body with which a checkpoint is saved.
func CheckpointBody(c job.Claim, state, metadata json.RawMessage) []byte {
	b := claimed(c)
	b.Raw("state", state)
	if metadata != nil {
		b.Raw("metadata", metadata)
	}
	return b.Close()
}

// AppendCheckpoint appends a checkpoint.
func AppendCheckpoint(dst []byte, id job.ID, c job.Checkpoint) []byte {
	b := rawjson.Object(dst)
	b.Str("job_id", string(id)).Raw("state", c.State)
	if c.Metadata != nil {
		b.Raw("metadata", c.Metadata)
	}
	b.Int("sequence", int64(c.Sequence)).Time("created_at", c.CreatedAt).Time("updated_at", c.UpdatedAt)
	return b.Close()
}

// AppendResume appends where a job may go on, as the public SDKs read it.
func AppendResume(dst []byte, c *job.Checkpoint) []byte {
	b := rawjson.Object(dst)
	b.Bool("has_checkpoint", c != nil)
	if c == nil {
		return b.Raw("checkpoint", json.RawMessage("null")).Close()
	}
	o := b.Object("checkpoint")
	o.Raw("state", c.State)
	step := rawjson.Member(c.Metadata, "step_index")
	if step == nil {
		step = json.RawMessage("0")
	}
	o.Raw("step_index", step)
	if c.Metadata != nil {
		o.Raw("metadata", c.Metadata)
	}
	o.Int("sequence", int64(c.Sequence)).Time("created_at", c.CreatedAt).End()
	return b.Close()
}

// ReadCheckpoint reads the answer to a checkpoint that was saved.
func ReadCheckpoint(body []byte) (job.Checkpoint, error) {
	var r struct {
		State     json.RawMessage `json:"state"`
		Metadata  json.RawMessage `json:"metadata"`
		Sequence  int             `json:"sequence"`
		CreatedAt time.Time       `json:"created_at"`
		UpdatedAt time.Time       `json:"updated_at"`
	}
	err := read(body, &r)
	return job.Checkpoint{State: r.State, Metadata: r.Metadata, Sequence: r.Sequence, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}, err
}

// AppendCheckpointDeleted appends the answer to a checkpoint that was deleted, if there
// was one.
func AppendCheckpointDeleted(dst []byte, id job.ID, had bool) []byte {
	b := rawjson.Object(dst)
	return b.Str("job_id", string(id)).Bool("deleted", had).Close()
}

// ReadDeleted reads whether something was deleted.
func ReadDeleted(body []byte) (bool, error) {
	return readMember[bool](body, "deleted", "it does not say whether something was deleted")
}

// NoCheckpoint is the NotFound for a job without a checkpoint.
func NoCheckpoint(id job.ID) error {
	return job.Errorf(job.NotFound, "job %s has no checkpoint: nothing was saved, or it was deleted", id).
		With(map[string]any{"resource_type": "checkpoint", "resource_id": string(id)})
}

// How long a caller may wait for the end of a job: by itself, and at most.
const (
	outcomeWait    = 30 * time.Second
	MaxOutcomeWait = time.Minute
)

// DecodeOutcomeQuery reads how long a caller waits for the end of a job (contract §3.17).
func DecodeOutcomeQuery(q url.Values) (wait time.Duration, err error) {
	if err := only(q, "wait", "timeout"); err != nil {
		return 0, err
	}
	switch q.Get("wait") {
	case "", "false", "0":
		return 0, nil
	case "true", "1":
	default:
		return 0, refuse("wait", "must be true or false")
	}
	wait = outcomeWait
	if t := q.Get("timeout"); t != "" {
		f, err := strconv.ParseFloat(t, 64)
		if err != nil || !(f >= 0) {
			if wait, err = job.ParseDuration(t); err != nil {
				return 0, refuse("timeout", "must be a number of seconds, at most 60")
			}
			return min(wait, MaxOutcomeWait), nil
		}
		wait = job.Seconds(min(f, MaxOutcomeWait.Seconds()))
	}
	return max(wait, time.Millisecond), nil
}

// OutcomeQuery is the query that asks for it.
func OutcomeQuery(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return "?wait=true&timeout=" + strconv.FormatFloat(min(wait, MaxOutcomeWait).Seconds(), 'f', 3, 64)
}

// ErrNotEnded is the cause of the error for a job that has not ended in the time that
// a caller waits.
var ErrNotEnded = job.Errorf(job.Unavailable, "it has not ended yet")

// NotEnded says that a job has not ended in time.
func NotEnded(o job.Outcome) error {
	e := job.Errorf(job.Unavailable, "job %s is %s: it has not ended in the time that was to be waited", o.ID, o.State)
	e.Err = ErrNotEnded
	return e.With(map[string]any{"job_id": string(o.ID), "current_state": string(o.State)})
}

// IsNotEnded reports whether an answer is NotEnded.
func IsNotEnded(status int, body []byte) bool {
	return status == http.StatusRequestTimeout && rawjson.Member(rawjson.Member(rawjson.Member(body, "error"), "details"), "current_state") != nil
}

// AppendOutcome appends what came of a job.
func AppendOutcome(dst []byte, o job.Outcome) []byte {
	b := rawjson.Object(dst)
	outcome(&b, o)
	return b.Close()
}

func outcome(b *rawjson.Writer, o job.Outcome) {
	b.Str("job_id", string(o.ID)).Str("id", string(o.ID)).Str("state", string(o.State))
	if o.Result != nil {
		b.Raw("result", o.Result)
	}
	if o.Error != nil {
		b.Raw("error", o.Error)
	}
	ends(b, &job.Job{Status: job.Status{State: o.State, FinishedAt: o.FinishedAt}})
}

type outcomeBody struct {
	ID        job.ID          `json:"job_id"`
	State     job.State       `json:"state"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	Completed time.Time       `json:"completed_at"`
	Cancelled time.Time       `json:"cancelled_at"`
}

func (o outcomeBody) outcome() job.Outcome {
	at := o.Completed
	if at.IsZero() {
		at = o.Cancelled
	}
	return job.Outcome{ID: o.ID, State: o.State, Result: o.Result, Error: o.Error, FinishedAt: at.UTC()}
}

// ReadOutcome reads what came of a job.
func ReadOutcome(body []byte) (job.Outcome, error) {
	var o outcomeBody
	err := read(body, &o)
	return o.outcome(), err
}

// DecodeIDs reads the ids of many jobs whose results are asked for.
func DecodeIDs(raw []byte) (ids []job.ID, err error) {
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if member != "ids" && member != "job_ids" {
			return nil
		}
		if ids != nil {
			return refuse(member, "is given beside another list of ids: one of them is enough")
		}
		list, err := names(v, member, job.MaxOutcomes+1)
		for _, id := range list {
			ids = append(ids, job.ID(id))
		}
		return err
	})
	if err == nil {
		err = job.CheckOutcomes(ids)
	}
	return ids, err
}

// IDsBody asks for the results of many jobs.
func IDsBody(ids []job.ID) []byte {
	b := rawjson.Object(nil)
	rawjson.Strings(&b, "ids", ids)
	return b.Close()
}

// AppendOutcomes appends what came of many jobs, null for one that is not stored.
func AppendOutcomes(dst []byte, ids []job.ID, found map[job.ID]job.Outcome) []byte {
	b := rawjson.Object(dst)
	b.Object("results")
	told := make(map[job.ID]bool, len(ids))
	for _, id := range ids {
		if told[id] {
			continue
		}
		told[id] = true
		o, ok := found[id]
		if !ok {
			b.Quoted(string(id), json.RawMessage("null"))
			continue
		}
		b.Quoted(string(id), AppendOutcome(nil, o))
	}
	b.End()
	return b.Close()
}

// ReadOutcomes reads what came of many jobs.
func ReadOutcomes(body []byte) (map[job.ID]job.Outcome, error) {
	var r struct {
		Results map[job.ID]*outcomeBody `json:"results"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	found := make(map[job.ID]job.Outcome, len(r.Results))
	for id, o := range r.Results {
		if o != nil {
			found[id] = o.outcome()
		}
	}
	return found, nil
}
