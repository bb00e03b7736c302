package job

import (
	"encoding/json"
	"math"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Progress is what the worker of an attempt has told of it (contract §3.17). It is of
// the attempt that runs or ran last: FETCH begins a new one.
type Progress struct {
	Fraction float64         // of the work that is done, from 0 to 1
	Measured bool            // Fraction was told
	Message  string          // for a person; empty for none
	Data     json.RawMessage // whatever else the worker tells; nil for none
	At       time.Time       // when it was told last
}

// Checkpoint is where the next attempt of a job may go on (contract §3.17). It outlives
// failures, lost reservations and manual retries.
type Checkpoint struct {
	State     json.RawMessage // as the worker gave it
	Metadata  json.RawMessage // nil for none
	Sequence  int             // how often it was saved since there was none
	CreatedAt time.Time       // when it was saved first
	UpdatedAt time.Time       // and last
}

// Report is what a worker tells of an attempt. At least one of its members is there.
type Report struct {
	Fraction   *float64        // taken into 0 to 1; nil: as it was
	Message    *string         // nil: as it was
	Data       json.RawMessage // nil: as it was
	Checkpoint json.RawMessage // saved as by Checkpoint; nil: none
}

// Validate is nil for a report that can be taken. Invalid, Malformed, TooLarge.
func (r Report) Validate() error {
	if r.Fraction == nil && r.Message == nil && r.Data == nil && r.Checkpoint == nil {
		return invalid(Invalid, "progress", "is required: a number from 0 to 1, or data to keep with the job")
	}
	if r.Fraction != nil && math.IsNaN(*r.Fraction) {
		return invalid(Invalid, "progress", "must be a number")
	}
	n := len(r.Data)
	if r.Message != nil {
		n += len(*r.Message)
	}
	if n > MaxMetaBytes {
		return Errorf(TooLarge, "message and data of a progress report are %d bytes, at most %d are kept", n, MaxMetaBytes).
			With(map[string]any{"size": n, "limit": MaxMetaBytes})
	}
	if r.Data != nil {
		if err := CheckJSON(r.Data); err != nil {
			return err
		}
	}
	if r.Checkpoint != nil {
		return checkState(r.Checkpoint, nil)
	}
	return nil
}

// checkState is nil for what can be saved as a checkpoint.
func checkState(state, metadata json.RawMessage) error {
	if len(state)+len(metadata) > MaxCheckpointBytes {
		return Errorf(TooLarge, "state and metadata of a checkpoint are %d bytes, at most %d are kept", len(state)+len(metadata), MaxCheckpointBytes).
			With(map[string]any{"size": len(state) + len(metadata), "limit": MaxCheckpointBytes})
	}
	if err := CheckJSON(state); err != nil {
		return err
	}
	if metadata != nil {
		return CheckJSON(metadata)
	}
	return nil
}

// ValidateCheckpoint is nil for a state, which is an object, and metadata that
// SaveCheckpoint takes; metadata may be nil. Invalid, Malformed, TooLarge.
func ValidateCheckpoint(state, metadata json.RawMessage) error {
	if len(state) == 0 || state[0] != '{' {
		return invalid(Invalid, "state", "is required: a JSON object with all that the next attempt needs")
	}
	return checkState(state, metadata)
}

// Report takes what the holder of an attempt tells of it, and extends the reservation
// as a heartbeat does. The fraction never gets smaller. A job that is not active takes
// nothing, and that is no error; one that another worker holds is a Conflict.
func (j *Job) Report(now time.Time, c Claim, r Report) (accepted bool, err error) {
	if j.State != Active {
		return false, nil
	}
	if err := j.Extend(now, c, 0); err != nil {
		return false, err
	}
	p := Progress{}
	if j.Progress != nil {
		p = *j.Progress
	}
	if r.Fraction != nil {
		p.Fraction, p.Measured = max(p.Fraction, min(*r.Fraction, 1)), true
	}
	if r.Message != nil {
		p.Message = *r.Message
	}
	if r.Data != nil {
		p.Data = r.Data
	}
	p.At = now.Truncate(time.Millisecond)
	if r.Checkpoint != nil {
		j.keepCheckpoint(now, r.Checkpoint, nil)
	}
	j.Progress = &p
	j.addEvent("job.progress", now, func(o *rawjson.Writer) {
		if p.Measured {
			o.Raw("progress", fraction(p.Fraction))
		}
		o.Optional("message", p.Message)
	})
	return true, nil
}

// fraction is a number from 0 to 1 as JSON.
func fraction(f float64) json.RawMessage {
	b, _ := json.Marshal(f) // neither NaN nor infinite
	return b
}

// SaveCheckpoint keeps where the next attempt may go on, in place of what was kept
// before. A job that has ended, and a claim that names another holder than the present
// one, is a Conflict.
func (j *Job) SaveCheckpoint(now time.Time, c Claim, state, metadata json.RawMessage) error {
	if j.State.Terminal() {
		return Errorf(Conflict, "job %s is %s: nothing goes on from a checkpoint of it any more", j.ID, j.State).
			With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State)})
	}
	if c.Token != "" || j.State == Active {
		if err := j.held(c, onFetch); err != nil {
			return err
		}
	}
	j.keepCheckpoint(now, state, metadata)
	return nil
}

func (j *Job) keepCheckpoint(now time.Time, state, metadata json.RawMessage) {
	now = now.Truncate(time.Millisecond)
	c := Checkpoint{State: state, Metadata: metadata, Sequence: 1, CreatedAt: now, UpdatedAt: now}
	if old := j.Checkpoint; old != nil {
		c.Sequence, c.CreatedAt = old.Sequence+1, old.CreatedAt
	}
	j.Checkpoint = &c
}

// DropCheckpoint forgets where the job might go on, and reports whether it knew.
func (j *Job) DropCheckpoint() bool {
	had := j.Checkpoint != nil
	j.Checkpoint = nil
	return had
}

// The rows of the table of members.

func progressMembers() []member {
	return []member{
		happened(member{field: "Progress", name: "progress", answers: []string{"progress", "progress_message", "progress_data", "progress_updated_at"},
			column: "progress", show: showProgress, take: takeProgress, value: progressValue, set: setProgress, size: sizeOfProgress},
			kind[*Progress]{equal: same[*Progress]}, func(j *Job) **Progress { return &j.Progress }),
		happened(member{field: "Checkpoint", name: "last_checkpoint",
			answers: []string{"last_checkpoint", "checkpoint_metadata", "checkpoint_sequence", "checkpoint_created_at", "checkpoint_updated_at"},
			column:  "checkpoint", added: true, show: showCheckpoint, take: takeCheckpoint, value: checkpointValue, set: setCheckpoint, size: sizeOfCheckpoint},
			kind[*Checkpoint]{equal: same[*Checkpoint]}, func(j *Job) **Checkpoint { return &j.Checkpoint }),
	}
}

func showProgress(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	p := j.Progress
	if p == nil {
		return w
	}
	if p.Measured {
		w.Raw("progress", fraction(p.Fraction))
	}
	w.Optional("progress_message", p.Message)
	if p.Data != nil {
		w.Raw("progress_data", p.Data)
	}
	w.Time("progress_updated_at", p.At)
	return w
}

func takeProgress(j *Job, name string, v json.RawMessage) (whole bool, err error) {
	if string(v) == "null" && name != "progress_data" {
		return true, nil
	}
	if j.Progress == nil {
		j.Progress = &Progress{}
	}
	p := j.Progress
	switch name {
	case "progress":
		p.Measured, err = true, json.Unmarshal(v, &p.Fraction)
	case "progress_message":
		p.Message, err = text(v, name)
	case "progress_data":
		p.Data = v
	default:
		p.At, err = instants.take(name, v)
	}
	return true, err
}

func showCheckpoint(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	c := j.Checkpoint
	if c == nil {
		return w
	}
	w.Raw("last_checkpoint", c.State)
	if c.Metadata != nil {
		w.Raw("checkpoint_metadata", c.Metadata)
	}
	w.Int("checkpoint_sequence", int64(c.Sequence))
	w.Time("checkpoint_created_at", c.CreatedAt)
	w.Time("checkpoint_updated_at", c.UpdatedAt)
	return w
}

func takeCheckpoint(j *Job, name string, v json.RawMessage) (whole bool, err error) {
	if string(v) == "null" && name != "last_checkpoint" && name != "checkpoint_metadata" {
		return true, nil
	}
	if j.Checkpoint == nil {
		j.Checkpoint = &Checkpoint{}
	}
	c := j.Checkpoint
	switch name {
	case "last_checkpoint":
		c.State = v
	case "checkpoint_metadata":
		c.Metadata = v
	case "checkpoint_sequence":
		c.Sequence, err = numbers[int]().take(name, v)
	case "checkpoint_created_at":
		c.CreatedAt, err = instants.take(name, v)
	default:
		c.UpdatedAt, err = instants.take(name, v)
	}
	return true, err
}

// storedProgress and storedCheckpoint are what the columns hold. Times are
// milliseconds, as everywhere in a store.
type storedProgress struct {
	Fraction *float64        `json:"progress"`
	Message  string          `json:"message"`
	Data     json.RawMessage `json:"data"`
	At       int64           `json:"updated_at"`
}

type storedCheckpoint struct {
	Sequence int             `json:"sequence"`
	Created  int64           `json:"created_at"`
	Updated  int64           `json:"updated_at"`
	Metadata json.RawMessage `json:"metadata"`
	State    json.RawMessage `json:"state"`
}

func progressValue(j *Job) any {
	p := j.Progress
	if p == nil {
		return nil
	}
	w := rawjson.Object(make([]byte, 0, 64+len(p.Message)+len(p.Data)))
	if p.Measured {
		w.Raw("progress", fraction(p.Fraction))
	}
	w.Optional("message", p.Message)
	if p.Data != nil {
		w.Raw("data", p.Data)
	}
	w.Int("updated_at", p.At.UnixMilli())
	return string(w.Close())
}

func setProgress(j *Job, v any) bool {
	raw, ok := v.(string)
	if !ok {
		return false
	}
	var s storedProgress
	if _, ok := rawjson.Valid([]byte(raw)); !ok || json.Unmarshal([]byte(raw), &s) != nil {
		return false
	}
	p := &Progress{Message: s.Message, Data: s.Data, At: time.UnixMilli(s.At).UTC()}
	if s.Fraction != nil {
		p.Fraction, p.Measured = *s.Fraction, true
	}
	j.Progress = p
	return true
}

func checkpointValue(j *Job) any {
	c := j.Checkpoint
	if c == nil {
		return nil
	}
	w := rawjson.Object(make([]byte, 0, 96+len(c.Metadata)+len(c.State)))
	w.Int("sequence", int64(c.Sequence))
	w.Int("created_at", c.CreatedAt.UnixMilli())
	w.Int("updated_at", c.UpdatedAt.UnixMilli())
	if c.Metadata != nil {
		w.Raw("metadata", c.Metadata)
	}
	w.Raw("state", c.State)
	return string(w.Close())
}

func setCheckpoint(j *Job, v any) bool {
	raw, ok := v.(string)
	if !ok {
		return false
	}
	var s storedCheckpoint
	if _, ok := rawjson.Valid([]byte(raw)); !ok || json.Unmarshal([]byte(raw), &s) != nil {
		return false
	}
	j.Checkpoint = &Checkpoint{State: s.State, Metadata: s.Metadata, Sequence: s.Sequence,
		CreatedAt: time.UnixMilli(s.Created).UTC(), UpdatedAt: time.UnixMilli(s.Updated).UTC()}
	return true
}

func sizeOfProgress(j *Job) int {
	if j.Progress == nil {
		return 0
	}
	return 128 + len(j.Progress.Message) + len(j.Progress.Data)
}

func sizeOfCheckpoint(j *Job) int {
	if j.Checkpoint == nil {
		return 0
	}
	return 128 + len(j.Checkpoint.State) + len(j.Checkpoint.Metadata)
}
