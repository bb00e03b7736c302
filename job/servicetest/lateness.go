package servicetest

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

var lateness = []verdict{
	{"a reservation that ran out frees the job and costs the attempt", lossFrees},
	{"a job whose workers all fall silent ends after its attempts", lossExhausts},
	{"a job with a retry policy waits for its backoff after a loss", lossBacksOff},
	{"a late ack ends a job that nobody or one other holds", lateAcks},
	{"a late ack comes too late after two claims, a cancel or another's word", lateAcksRefused},
	{"a late fail is never heard", lateFails},
	{"an attempt that takes too long ends, heartbeats or not", overrun},
}

// lose lets one reservation run out and returns the lost attempt.
func (k *kit) lose(after job.State) *job.Job {
	k.t.Helper()
	j := k.one(job.FetchRequest{Worker: "w1", Visibility: blink})
	k.until(j.ID, after)
	return j
}

func lossFrees(k *kit) {
	first := k.named("first")
	k.named("second")
	lost := k.lose(job.Available)
	j := k.read(first.ID)
	k.expect(j.Error, "code", `"timeout"`)
	k.expect(j.Error, "type", `"visibility_timeout"`)
	for _, gone := range []string{"started_at", "worker_id", "visible_until", "next_retry_at"} {
		k.shows(j, gone, "")
	}
	if j.Attempt != 1 || len(k.history(j)) != 1 || j.EnqueuedAt.Before(lost.Lease.Until) {
		k.t.Errorf("reserved until %s, then %s", lost.Lease.Until, text(j))
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "second", "first") // a new place, behind
}

func lossExhausts(k *kit) {
	for _, tt := range []struct {
		policy string
		losses int
		dead   bool
	}{{``, 3, false}, {`{"max_attempts":1,"on_exhaustion":"dead_letter"}`, 1, true}, {`{"max_attempts":0}`, 1, false}} {
		j := k.push(func(e *job.Envelope) {
			if tt.policy != "" {
				e.Retry = json.RawMessage(tt.policy)
			}
		})
		for n := 1; n < tt.losses; n++ {
			k.lose(job.Available)
		}
		k.lose(job.Discarded)
		end := k.read(j.ID)
		if end.Dead != tt.dead || end.Attempt != tt.losses || len(k.history(end)) != tt.losses {
			k.t.Errorf("policy %s: %s", tt.policy, text(end))
		}
	}
}

func lossBacksOff(k *kit) {
	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H","jitter":false,"non_retryable_errors":["visibility_timeout","timeout"]}`)
	})
	j := k.read(k.lose(job.Retryable).ID)
	k.shows(j, "retry_delay_ms", "3600000")
	k.shows(j, "started_at", "")
	k.none()
}

func lateAcks(k *kit) {
	long := json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`)
	for _, tt := range []struct {
		name  string
		retry json.RawMessage
		claim func(*job.Job) job.Claim
		again bool // another worker has fetched it meanwhile
	}{
		{"available, token", nil, claimOf, false},
		{"available, worker", nil, func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Worker: "w1"} }, false},
		{"available, neither", nil, func(j *job.Job) job.Claim { return job.Claim{ID: j.ID} }, false},
		{"retryable, token", long, claimOf, false},
		{"retryable, neither", long, func(j *job.Job) job.Claim { return job.Claim{ID: j.ID} }, false},
		{"active again, token", nil, claimOf, true},
		{"active again, worker", nil, func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Worker: "w1"} }, true},
	} {
		k.push(func(e *job.Envelope) { e.Retry = tt.retry })
		state := job.Available
		if tt.retry != nil {
			state = job.Retryable
		}
		lost := k.lose(state)
		var newer *job.Job
		if tt.again {
			newer = k.one(job.FetchRequest{Worker: "w2"})
		}
		done, err := k.s.Ack(k.ctx(), tt.claim(lost), json.RawMessage(`"late"`))
		if err != nil || done.State != job.Completed || string(done.Result) != `"late"` || done.Error != nil || len(k.history(done)) != 1 {
			k.t.Errorf("%s: %v, %v", tt.name, done, err)
		}
		if newer != nil {
			_, err := k.s.Ack(k.ctx(), claimOf(newer), nil)
			k.is(tt.name+": the newer holder", err, job.Conflict)
		}
		k.none()
	}
}

func lateAcksRefused(k *kit) {
	refuse := func(what string, lost *job.Job, c job.Claim) {
		k.t.Helper()
		err := k.untouched(what, lost, func() error { _, err := k.s.Ack(k.ctx(), c, nil); return err })
		k.is(what, err, job.Conflict)
		k.clear(lost)
	}
	k.push(nil)
	lost := k.lose(job.Available)
	refuse("another worker", lost, job.Claim{ID: lost.ID, Worker: "w2"})
	k.push(nil)
	lost = k.lose(job.Available)
	refuse("another token", lost, job.Claim{ID: lost.ID, Token: "0", Worker: "w1"})
	k.push(nil)
	lost = k.lose(job.Available)
	k.lose(job.Available)
	k.one(job.FetchRequest{Worker: "w3"})
	refuse("two claims since", lost, claimOf(lost))
	k.push(nil)
	lost = k.lose(job.Available)
	k.cancel(lost)
	refuse("cancelled since", lost, claimOf(lost))
	k.push(nil)
	lost = k.lose(job.Available)
	k.fail(k.one(job.FetchRequest{Worker: "w2"}), job.Failure{Code: "DEAD_LETTER"})
	if _, err := k.s.Revive(k.ctx(), lost.ID); err != nil {
		k.t.Fatal(err)
	}
	refuse("revived since", lost, claimOf(lost))
}

func lateFails(k *kit) {
	for _, again := range []bool{false, true} {
		k.push(nil)
		lost := k.lose(job.Available)
		if again {
			k.one(job.FetchRequest{Worker: "w2"})
		}
		for _, f := range []job.Failure{{Message: "late"}, {Code: "DISCARD"}, {Requeue: true}} {
			for _, c := range []job.Claim{claimOf(lost), {ID: lost.ID, Worker: "w1"}} {
				err := k.untouched("late fail", lost, func() error { _, err := k.s.Fail(k.ctx(), c, f); return err })
				k.is("late fail", err, job.Conflict)
			}
		}
		k.clear(lost)
	}
}

func overrun(k *kit) {
	for _, tt := range []struct {
		policy string
		want   job.State
	}{
		{`{"initial_interval":"PT1H","max_interval":"PT1H"}`, job.Retryable},
		{`{"non_retryable_errors":["timeout"]}`, job.Discarded},
		{`{"max_attempts":1}`, job.Discarded},
	} {
		pushed := k.push(func(e *job.Envelope) { e.Timeout, e.Retry = 3*blink, json.RawMessage(tt.policy) })
		held := k.take()
		for range 2 {
			if _, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(held)}}); err != nil {
				k.t.Fatal(err)
			}
		}
		j := k.until(pushed.ID, tt.want)
		k.expect(j.Error, "code", `"timeout"`)
		k.expect(j.Error, "type", `"timeout"`)
		if es := k.events(j.ID); es[len(es)-1].Time.Before(held.StartedAt.Add(3 * blink)) {
			k.t.Errorf("started at %s, ended at %s", held.StartedAt, es[len(es)-1].Time)
		}
	}
}
