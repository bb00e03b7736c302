package wire

import (
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Answers are written member by member: every one of them holds jobs, and
// reflection would cost more than the rest of the request.

// array writes an array whose elements are written by add, and returns where it begins.
func array[T any](b *rawjson.Writer, name string, vs []T, add func(*rawjson.Writer, T)) (from int) {
	b.Array(name)
	from = len(*b) - 1
	for _, v := range vs {
		b.Element()
		add(b, v)
	}
	b.EndArray()
	return from
}

// objects writes an array of objects whose members are written by add.
func objects[T any](b *rawjson.Writer, name string, vs []T, add func(*rawjson.Writer, T)) (from int) {
	return array(b, name, vs, func(b *rawjson.Writer, v T) {
		*b = append(*b, '{')
		add(b, v)
		b.End()
	})
}

// wholeJob writes a whole job under "job".
func wholeJob(b *rawjson.Writer, j *job.Job) {
	b.Key("job")
	*b = j.AppendJSON(*b, job.View{})
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
	b := rawjson.Object(dst)
	wholeJob(&b, j)
	if x.Previous != job.None {
		b.Reopen().Str("previous_state", string(x.Previous)).End()
	}
	b.Str("id", string(j.ID))
	b.Str("type", j.Type)
	b.Str("state", string(j.State))
	b.Str("queue", j.Queue)
	b.Int("attempt", int64(j.Attempt))
	b.Int("priority", int64(j.Priority))
	b.Time("created_at", j.CreatedAt)
	scheduled(&b, j)
	ends(&b, j)
	if x.Previous != job.None {
		b.Str("previous_state", string(x.Previous))
		b.Time("activated_at", j.ActivatedAt)
		b.Time("enqueued_at", j.EnqueuedAt)
	}
	if x.Revived {
		b.Time("re_enqueued_at", j.EnqueuedAt)
	}
	if x.Error && j.Error != nil {
		b.Raw("error", j.Error)
	}
	return b.Close()
}

// scheduled appends scheduled_at in the client's own spelling, as the job has it.
func scheduled(b *rawjson.Writer, j *job.Job) {
	if j.ScheduledAt.IsZero() {
		return
	}
	if own := rawjson.Member(j.Extra, "scheduled_at"); own != nil {
		b.Raw("scheduled_at", own)
		return
	}
	b.Time("scheduled_at", j.ScheduledAt)
}

// ends appends the instant at which a job became final, under the names of contract §2.1.
func ends(b *rawjson.Writer, j *job.Job) {
	switch j.State {
	case job.Completed:
		b.Time("completed_at", j.FinishedAt)
	case job.Cancelled:
		b.Time("cancelled_at", j.FinishedAt)
	case job.Discarded:
		b.Time("discarded_at", j.FinishedAt).Time("completed_at", j.FinishedAt)
	}
}

// AppendFetched appends the answer to a FETCH (contract §3.8), with the first of the jobs
// alone, too.
func AppendFetched(dst []byte, jobs []*job.Job, p Profile) []byte {
	b := rawjson.Object(dst)
	from, to := fetched(&b, jobs, p)
	if len(jobs) > 0 {
		b.Raw("job", b[from:to])
	}
	return b.Close()
}

// fetched appends the jobs of a FETCH, and returns where the first of them stands. They go
// to their holder, so each has its lease token.
func fetched(b *rawjson.Writer, jobs []*job.Job, p Profile) (from, to int) {
	v := job.View{ToHolder: true, HideTimeout: p == V1}
	b.Array("jobs")
	from, to = len(*b), len(*b)
	for i, j := range jobs {
		b.Element()
		*b = j.AppendJSON(*b, v)
		if i == 0 {
			to = len(*b)
		}
	}
	b.EndArray()
	return from, to
}

// AppendAck appends the answer to an ACK (contract §3.9).
func AppendAck(dst []byte, j *job.Job) []byte {
	b := rawjson.Object(dst)
	b.Bool("acknowledged", true)
	about(&b, j)
	b.Time("completed_at", j.FinishedAt)
	wholeJob(&b, j)
	return b.Close()
}

// AppendNack appends the answer to a FAIL (contract §3.10).
func AppendNack(dst []byte, j *job.Job) []byte {
	b := rawjson.Object(dst)
	about(&b, j)
	b.Int("attempt", int64(j.Attempt)).Int("max_attempts", int64(j.MaxAttempts))
	switch j.State {
	case job.Retryable:
		b.Int("retry_delay_ms", j.RetryDelay.Milliseconds())
		b.Time("next_attempt_at", j.NextRetryAt)
		b.Time("next_retry_at", j.NextRetryAt)
	case job.Discarded:
		ends(&b, j)
		b.Bool("dead_letter", j.Dead)
	}
	wholeJob(&b, j)
	return b.Close()
}

func about(b *rawjson.Writer, j *job.Job) {
	b.Str("id", string(j.ID)).Str("job_id", string(j.ID)).Str("state", string(j.State))
}

// AppendBeat appends the answer to a BEAT (contract §3.11).
func AppendBeat(dst []byte, r job.BeatReply) []byte {
	b := rawjson.Object(dst)
	b.Bool("acknowledged", true).Str("state", r.Directive).Str("directive", r.Directive)
	rawjson.Strings(&b, "jobs_extended", r.Extended)
	rawjson.Strings(&b, "cancelled_jobs", r.Cancelled)
	rawjson.Strings(&b, "lost_jobs", r.Lost)
	return b.Time("server_time", r.Time).Close()
}

// AppendDeleted appends the answer to the removal of a dead letter (contract §3.14).
func AppendDeleted(dst []byte, id job.ID) []byte {
	b := rawjson.Object(dst)
	return b.Bool("deleted", true).Str("job_id", string(id)).Str("id", string(id)).Close()
}
