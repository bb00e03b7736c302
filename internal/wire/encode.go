package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Answers are appended to a buffer member by member: every one of them holds
// jobs, and reflection would cost more than the rest of the request. A comma is
// needed exactly where the byte before is not the opening brace.

func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

func str(b []byte, name, v string) []byte { return rawjson.AppendString(key(b, name), v) }

func num(b []byte, name string, v int64) []byte { return strconv.AppendInt(key(b, name), v, 10) }

func flag(b []byte, name string, v bool) []byte { return strconv.AppendBool(key(b, name), v) }

// at appends an instant; a zero one is left out.
func at(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = t.UTC().AppendFormat(append(key(b, name), '"'), rawjson.TimeFormat)
	return append(b, '"')
}

// array appends n values, each written by add.
func array(b []byte, name string, n int, add func(b []byte, i int) []byte) []byte {
	b = append(key(b, name), '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = add(b, i)
	}
	return append(b, ']')
}

// again appends a second copy of b[from:to] under another name.
func again(b []byte, name string, from, to int) []byte {
	b = key(b, name)
	return append(b, b[from:to]...)
}

// Extras says what an answer about one job holds beside it (contract §2.1).
type Extras struct {
	Previous job.State // the state before the verb, if the answer tells of one
	Error    bool      // the latest error also at the top level
	Revived  bool      // re_enqueued_at
}

// AppendJob appends the answer about one job: the job under "job", and beside
// it flat copies of the members that a command line reads (contract §2.1).
func AppendJob(dst []byte, j *job.Job, x Extras) []byte {
	b := key(append(dst, '{'), "job")
	b = j.AppendJSON(b, job.View{})
	if x.Previous != job.None {
		b = str(b[:len(b)-1], "previous_state", string(x.Previous))
		b = append(b, '}')
	}
	b = str(b, "id", string(j.ID))
	b = str(b, "type", j.Type)
	b = str(b, "state", string(j.State))
	b = str(b, "queue", j.Queue)
	b = num(b, "attempt", int64(j.Attempt))
	b = num(b, "priority", int64(j.Priority))
	b = at(b, "created_at", j.CreatedAt)
	b = scheduled(b, j)
	b = ends(b, j)
	if x.Previous != job.None {
		b = str(b, "previous_state", string(x.Previous))
		b = at(b, "activated_at", j.ActivatedAt)
		b = at(b, "enqueued_at", j.EnqueuedAt)
	}
	if x.Revived {
		b = at(b, "re_enqueued_at", j.EnqueuedAt)
	}
	if x.Error && j.Error != nil {
		b = append(key(b, "error"), j.Error...)
	}
	return append(b, '}')
}

// scheduled appends scheduled_at in the client's own spelling, as the job has it.
func scheduled(b []byte, j *job.Job) []byte {
	if j.ScheduledAt.IsZero() {
		return b
	}
	var own json.RawMessage
	if j.Extra != nil {
		// Extra is an object that package job wrote.
		_ = job.Members(j.Extra, func(name string, v json.RawMessage) error {
			if name == "scheduled_at" {
				own = v
			}
			return nil
		})
	}
	if own != nil {
		return append(key(b, "scheduled_at"), own...)
	}
	return at(b, "scheduled_at", j.ScheduledAt)
}

// ends appends the instant at which a job became final, under the names of contract §2.1.
func ends(b []byte, j *job.Job) []byte {
	switch j.State {
	case job.Completed:
		return at(b, "completed_at", j.FinishedAt)
	case job.Cancelled:
		return at(b, "cancelled_at", j.FinishedAt)
	case job.Discarded:
		return at(at(b, "discarded_at", j.FinishedAt), "completed_at", j.FinishedAt)
	}
	return b
}

// AppendFetched appends the answer to a FETCH (contract §3.8): its reader is the
// holder of the jobs, so each carries its lease token.
func AppendFetched(dst []byte, jobs []*job.Job, p Profile) []byte {
	b := append(dst, `{"jobs":[`...)
	v := job.View{ToHolder: true, HideTimeout: p == V1}
	from, to := len(b), len(b)
	for i, j := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = j.AppendJSON(b, v)
		if i == 0 {
			to = len(b)
		}
	}
	b = append(b, ']')
	if len(jobs) > 0 {
		b = again(b, "job", from, to)
	}
	return append(b, '}')
}

// AppendAck appends the answer to an ACK (contract §3.9).
func AppendAck(dst []byte, j *job.Job) []byte {
	b := flag(append(dst, '{'), "acknowledged", true)
	b = about(b, j)
	b = at(b, "completed_at", j.FinishedAt)
	return append(j.AppendJSON(key(b, "job"), job.View{}), '}')
}

// AppendNack appends the answer to a FAIL (contract §3.10).
func AppendNack(dst []byte, j *job.Job) []byte {
	b := about(append(dst, '{'), j)
	b = num(b, "attempt", int64(j.Attempt))
	b = num(b, "max_attempts", int64(j.MaxAttempts))
	switch j.State {
	case job.Retryable:
		b = num(b, "retry_delay_ms", j.RetryDelay.Milliseconds())
		b = at(b, "next_attempt_at", j.NextRetryAt)
		b = at(b, "next_retry_at", j.NextRetryAt)
	case job.Discarded:
		b = flag(ends(b, j), "dead_letter", j.Dead)
	}
	return append(j.AppendJSON(key(b, "job"), job.View{}), '}')
}

func about(b []byte, j *job.Job) []byte {
	b = str(b, "id", string(j.ID))
	b = str(b, "job_id", string(j.ID))
	return str(b, "state", string(j.State))
}

// AppendBeat appends the answer to a BEAT (contract §3.11).
func AppendBeat(dst []byte, r job.BeatReply) []byte {
	b := flag(append(dst, '{'), "acknowledged", true)
	b = str(b, "state", r.Directive)
	b = str(b, "directive", r.Directive)
	b = ids(b, "jobs_extended", r.Extended)
	b = ids(b, "cancelled_jobs", r.Cancelled)
	b = ids(b, "lost_jobs", r.Lost)
	return append(at(b, "server_time", r.Time), '}')
}

func ids(b []byte, name string, ids []job.ID) []byte {
	return array(b, name, len(ids), func(b []byte, i int) []byte { return rawjson.AppendString(b, string(ids[i])) })
}

// AppendDeleted appends the answer to the removal of a dead letter (contract §3.14).
func AppendDeleted(dst []byte, id job.ID) []byte {
	b := flag(append(dst, '{'), "deleted", true)
	b = str(b, "job_id", string(id))
	return append(str(b, "id", string(id)), '}')
}
