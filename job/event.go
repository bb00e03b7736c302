package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Event is one fact of a job's life (contract §4.18). It is stored in the
// transaction of the change that it tells of.
type Event struct {
	Seq     int64           `json:"seq"` // given by the store, rising without gaps inside one commit
	Type    string          `json:"type"`
	Time    time.Time       `json:"time"`
	JobID   ID              `json:"job_id,omitempty"`
	JobType string          `json:"job_type,omitempty"`
	Queue   string          `json:"queue,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"` // a JSON object: what is particular to Type
}

// HistoryLimit is how many events of one job can be read back, the newest ones.
const HistoryLimit = 100

// The events of a worker's life (contract §4.18).
const (
	WorkerStarted = "worker.started" // it registered, or was heard of for the first time, or again after it was stale
	WorkerStopped = "worker.stopped" // it deregistered
	WorkerQuiet   = "worker.quiet"   // it takes no more jobs, by its own wish or an operator's
	WorkerStale   = "worker.stale"   // it was not heard of in time
)

// WorkerEvent is an event of the worker id: kind is one of the four above.
func WorkerEvent(kind, id string, now time.Time) Event {
	o := rawjson.Object(make([]byte, 0, 64))
	o.Str("worker_id", id)
	return Event{Type: kind, Time: now, Data: o.Close()}
}

// ReplacedBy is the job in whose favour the job of a job.cancelled was cancelled,
// empty if there is none and for other events.
func (e Event) ReplacedBy() ID {
	if e.Type != "job.cancelled" {
		return ""
	}
	var data struct {
		ReplacedBy ID `json:"replaced_by"`
	}
	_ = json.Unmarshal(e.Data, &data) // what is not ours names nobody
	return data.ReplacedBy
}

// TakeEvents returns what the verbs have done since the last call, in order, and forgets it.
// A Store calls it when it writes the job.
func (j *Job) TakeEvents() []Event {
	es := j.events
	j.events, j.was, j.moved, j.left = nil, 0, false, 0
	return es
}

// Was is the state in which the store has the job: where a verb has moved it
// since it was read or stored, the one before, and None for a new job.
func (j *Job) Was() State {
	if j.moved {
		return j.was.state()
	}
	return j.State
}

// PendingEvents is how many events TakeEvents would return.
func (j *Job) PendingEvents() int { return len(j.events) }

// addEvent notes an event of this job; fill adds the members of its data.
func (j *Job) addEvent(kind string, now time.Time, fill func(*rawjson.Writer)) {
	e := Event{Type: kind, Time: now, JobID: j.ID, JobType: j.Type, Queue: j.Queue}
	traced := j.traced()
	if fill != nil || traced {
		o := rawjson.Object(make([]byte, 0, 96))
		if fill != nil {
			fill(&o)
		}
		if traced {
			j.trace(&o)
		}
		e.Data = o.Close()
	}
	j.events = append(j.events, e)
}

// traced reports whether meta may hold what every event repeats. It errs on the safe side.
func (j *Job) traced() bool {
	return j.Meta != nil && (bytes.Contains(j.Meta, []byte("trace_id")) || bytes.Contains(j.Meta, []byte("tenant_id")))
}

// trace repeats trace_id and tenant_id of the job's meta (contract §4.18).
func (j *Job) trace(o *rawjson.Writer) {
	for _, name := range []string{"trace_id", "tenant_id"} {
		if v := detail(j.Meta, name); v != "" {
			o.Str(name, v)
		}
	}
}

func (j *Job) addEnqueued(now time.Time) {
	j.addEvent("job.enqueued", now, func(o *rawjson.Writer) {
		o.Str("state", string(j.State))
		o.Optional("from", string(j.left.state()))
		o.Int("priority", int64(j.Priority))
	})
}

func (j *Job) addFailed(now time.Time, f Failure) {
	began := j.StartedAt
	j.addEvent("job.failed", now, func(o *rawjson.Writer) {
		o.Int("attempt", int64(j.Attempt))
		o.Int("duration_ms", since(began, now))
		f.brief(o, "error")
	})
}

func (j *Job) addRetrying(now, next time.Time, f Failure) {
	j.addEvent("job.retrying", now, func(o *rawjson.Writer) {
		o.Int("attempt", int64(j.Attempt))
		o.Int("max_attempts", int64(j.MaxAttempts))
		o.Time("next_retry_at", next)
		if j.State != Retryable {
			o.Str("state", string(j.State))
		}
		f.brief(o, "error")
	})
}

func (j *Job) addDiscarded(now time.Time, f Failure) {
	j.addEvent("job.discarded", now, func(o *rawjson.Writer) {
		o.Int("total_attempts", int64(j.Attempt))
		f.brief(o, "last_error")
		o.Bool("dead_letter", j.Dead)
		j.notFrom(o, Active)
	})
}

// notFrom writes the state that the job comes from, unless it is the usual one.
func (j *Job) notFrom(o *rawjson.Writer, usual State) {
	if left := j.left.state(); left != usual {
		o.Optional("from", string(left))
	}
}

// Transition is the change of state that an event tells of. ok is false for an event that
// tells of none, or stands beside one that does, as job.failed does. from is None for a
// new job, and for an event of an older version that does not say.
func (e Event) Transition() (from, to State, ok bool) {
	switch e.Type {
	case "job.enqueued":
		return e.state("from"), e.state("state"), true
	case "job.scheduled":
		return e.state("from"), Scheduled, true
	case "job.activated": // job.enqueued follows it unless it waits for its time
		to := e.state("state")
		return Pending, to, to == Scheduled
	case "job.started":
		return Available, Active, true
	case "job.completed":
		return cmp.Or(e.state("from"), Active), Completed, true
	case "job.retrying": // job.enqueued follows it where it does not wait
		return Active, Retryable, e.state("state") == None
	case "job.discarded":
		return cmp.Or(e.state("from"), Active), Discarded, true
	case "job.cancelled":
		return e.state("previous_state"), Cancelled, true
	}
	return None, None, false
}

// state is a member of the data that is a state, None without it.
func (e Event) state(name string) State {
	v := rawjson.Member(e.Data, name)
	if len(v) < 2 || v[0] != '"' {
		return None
	}
	st := State(v[1 : len(v)-1])
	if !slices.Contains(States, st) {
		return None
	}
	return st
}

// brief writes the short form of a failure that events carry.
func (f Failure) brief(o *rawjson.Writer, name string) {
	o.Object(name).Optional("code", f.Code).Str("type", f.ErrorType()).Str("message", f.Message)
	if f.Retryable != nil {
		o.Bool("retryable", *f.Retryable)
	}
	o.End()
}

// record makes f the job's latest error and adds it to the history, of which
// the newest 25 stay (ojs-retry.md §10.1).
func (j *Job) record(now time.Time, f Failure) {
	if f.Code == "" {
		f.Code = "RETRY"
	}
	j.Error = f.append(nil, j.Attempt, now, false)
	entry := f.append(nil, j.Attempt, now, true)
	var history []json.RawMessage
	if j.Errors != nil {
		// What this package wrote it can read.
		_ = json.Unmarshal(j.Errors, &history)
	}
	history = append(history, entry)
	history = history[max(0, len(history)-maxHistory):]
	b := rawjson.Writer{'['}
	for _, h := range history {
		b.Element()
		b = append(b, h...)
	}
	b.EndArray()
	j.Errors = json.RawMessage(b)
}

// append writes the error object of contract §2.7; inHistory adds what
// ojs-retry.md §10.1 wants of an entry: the timestamp, and details always.
func (f Failure) append(dst []byte, attempt int, at time.Time, inHistory bool) []byte {
	o := rawjson.Object(dst)
	o.Str("type", f.ErrorType())
	o.Str("message", f.Message)
	o.Optional("code", f.Code)
	if f.Retryable != nil {
		o.Bool("retryable", *f.Retryable)
	}
	if n := len(f.Details); n > 0 && f.Details[0] != '{' {
		d := rawjson.Object(nil)
		d.Raw("value", f.Details)
		o.Raw("details", d.Close()) // readers take an object or nothing
	} else if n > 0 {
		o.Raw("details", f.Details)
	} else if inHistory {
		o.Raw("details", json.RawMessage("{}")) // an entry has them, given or not
	}
	if frames := shorten(f.Backtrace); len(frames) > 0 {
		rawjson.Strings(&o, "backtrace", frames)
	}
	o.Splice(f.Extra)
	o.Int("attempt", int64(attempt))
	o.Time("occurred_at", at)
	if inHistory {
		o.Time("timestamp", at)
	}
	return o.Close()
}

// shorten keeps at most 50 frames and 10,000 characters of a backtrace (ojs-core.md §8.1).
func shorten(frames []string) []string {
	frames = frames[:min(len(frames), maxFrames)]
	left := maxFrameChars
	out := make([]string, 0, len(frames))
	for _, f := range frames {
		if left <= 0 {
			break
		}
		if r := []rune(f); len(r) > left {
			f = string(r[:left])
		}
		left -= len([]rune(f))
		out = append(out, f)
	}
	return out
}
