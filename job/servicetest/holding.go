package servicetest

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var holding = []verdict{
	{"an ack stores the result, whatever JSON it is", ackResult},
	{"an ack after failures clears the error and keeps the history", ackClears},
	{"only the last token, or the claiming worker, ends an attempt", tokenRules},
	{"an ack is answered with Conflict when it is repeated", ackTwice},
	{"a job given back keeps its place, its attempt and its budget", requeueKeeps},
	{"the token of a job that was revived since opens nothing", zombie},
}

func ackResult(k *kit) {
	for _, result := range []string{`null`, `1e2`, `"x"`, `[1.10]`, `{"ok" : true}`, `false`, ``} {
		k.push(nil)
		done := k.ack(k.take(), result)
		for _, j := range []*job.Job{done, k.read(done.ID)} {
			k.shows(j, "result", result)
			k.shows(j, "completed_at", `"`+job.FormatTime(j.FinishedAt)+`"`)
			k.shows(j, "worker_id", "")
			k.shows(j, "visible_until", "")
			if j.State != job.Completed || j.Attempt != 1 || j.FinishedAt.Before(j.StartedAt) {
				k.t.Errorf("result %s: %s", result, text(j))
			}
		}
	}
}

func ackClears(k *kit) {
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval_ms":1,"max_interval_ms":1}`) })
	failed := k.fail(k.take(), job.Failure{Type: "net.refused", Message: "no"})
	k.expect(failed.Error, "type", `"net.refused"`)
	done := k.ack(k.take(), `1`)
	for _, j := range []*job.Job{done, k.read(done.ID)} {
		k.shows(j, "error", "")
		k.shows(j, "next_retry_at", "")
		if n := len(k.history(j)); n != 1 || j.Attempt != 2 {
			k.t.Errorf("%d errors in %s", n, text(j))
		}
	}
}

// history is the error history of a job.
func (k *kit) history(j *job.Job) (entries []json.RawMessage) {
	k.t.Helper()
	if j.Errors == nil {
		return nil
	}
	if err := json.Unmarshal(j.Errors, &entries); err != nil {
		k.t.Errorf("errors %s: %v", j.Errors, err)
	}
	return entries
}

func tokenRules(k *kit) {
	for _, tt := range []struct {
		name  string
		claim func(*job.Job) job.Claim
		good  bool
	}{
		{"token", claimOf, true},
		{"nothing", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID} }, true},
		{"its worker", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Worker: "w1"} }, true},
		{"another worker", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Worker: "w2"} }, false},
		{"wrong token", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: "0"} }, false},
		{"wrong token of its worker", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: "0", Worker: "w1"} }, false},
		{"the attempt as a token", func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: "1"} }, false},
	} {
		ends := map[string]func(job.Claim) error{
			"ack":     func(c job.Claim) error { _, err := k.s.Ack(k.ctx(), c, nil); return err },
			"fail":    func(c job.Claim) error { _, err := k.s.Fail(k.ctx(), c, job.Failure{Code: "DISCARD"}); return err },
			"requeue": func(c job.Claim) error { _, err := k.s.Fail(k.ctx(), c, job.Failure{Requeue: true}); return err },
		}
		for name, end := range ends {
			k.push(nil)
			j := k.take()
			what := name + " with " + tt.name
			if tt.good {
				if err := end(tt.claim(j)); err != nil {
					k.t.Errorf("%s: %v", what, err)
				}
			} else {
				err := k.untouched(what, j, func() error { return end(tt.claim(j)) })
				e := k.is(what, err, job.Conflict)
				if e.Details["reason"] != "lease_lost" || e.Details["current_state"] != "active" || e.Details["job_id"] != string(j.ID) {
					k.t.Errorf("%s: details %v", what, e.Details)
				}
			}
			k.clear(j)
		}
	}
}

func ackTwice(k *kit) {
	k.push(nil)
	j := k.take()
	k.ack(j, `{"n":1}`)
	for range 2 {
		err := k.untouched("the second ack", j, func() error {
			_, err := k.s.Ack(k.ctx(), claimOf(j), json.RawMessage(`{"n":1}`))
			return err
		})
		k.is("the second ack", err, job.Conflict)
	}
	err := k.untouched("a fail after the ack", j, func() error {
		_, err := k.s.Fail(k.ctx(), claimOf(j), job.Failure{Message: "the ack was lost on the way"})
		return err
	})
	k.is("a fail after the ack", err, job.Conflict)
}

func requeueKeeps(k *kit) {
	twice := json.RawMessage(`{"max_attempts":2,"initial_interval_ms":1,"max_interval_ms":1}`)
	first := k.push(func(e *job.Envelope) { e.Type, e.Retry = "first", twice })
	k.named("second")
	for n := 1; n <= 3; n++ {
		j := k.take()
		if j.ID != first.ID || j.Attempt != n {
			k.t.Fatalf("round %d: fetched %s", n, text(j))
		}
		back := k.fail(j, job.Failure{Requeue: true, Retryable: ptr(false), Code: "DISCARD", Message: "requeue wins"})
		if back.State != job.Available || back.Attempt != n || back.Error != nil || back.Errors != nil {
			k.t.Errorf("round %d: %s", n, text(back))
		}
		k.shows(back, "worker_id", "")
	}
	k.named("third")
	j := k.take()
	k.order(k.fetch(job.FetchRequest{Count: 9}), "second", "third")
	if failed := k.fail(j, job.Failure{Message: "no"}); failed.State != job.Retryable || failed.Attempt != 4 {
		k.t.Errorf("the first of two attempts is spent now: %s", text(failed))
	}
	if failed := k.fail(k.take(), job.Failure{Message: "no"}); failed.State != job.Discarded || failed.Attempt != 5 {
		k.t.Errorf("the second of two attempts is spent now: %s", text(failed))
	}
}

func zombie(k *kit) {
	k.push(nil)
	old := k.take()
	k.fail(old, job.Failure{Code: "DEAD_LETTER"})
	if _, err := k.s.Revive(k.ctx(), old.ID); err != nil {
		k.t.Fatal(err)
	}
	now := k.take()
	if now.Attempt != old.Attempt {
		k.t.Fatalf("attempt %d, want %d again", now.Attempt, old.Attempt)
	}
	err := k.untouched("ack", now, func() error { _, err := k.s.Ack(k.ctx(), claimOf(old), nil); return err })
	k.is("ack of the life before", err, job.Conflict)
	err = k.untouched("fail", now, func() error { _, err := k.s.Fail(k.ctx(), claimOf(old), job.Failure{Code: "DISCARD"}); return err })
	k.is("fail of the life before", err, job.Conflict)
	r, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(old)}, Visibility: time.Hour})
	if err != nil || len(r.Extended) != 0 || len(r.Lost) != 1 {
		k.t.Errorf("beat of the life before: %+v, %v", r, err)
	}
}
