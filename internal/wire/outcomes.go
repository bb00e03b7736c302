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
