package servicetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var refusing = []verdict{
	{"a verb that the state does not allow is refused and changes nothing", refusedVerbs},
	{"a job that nobody knows is NotFound to every verb", unknownJob},
	{"what is no JSON, or too large, is refused and the attempt goes on", refusedContent},
}

// place is a way to a state.
type place struct {
	name  string
	state job.State
	dead  bool
	reach func(*kit) *job.Job // the lease of the last attempt stays in the job
}

func places() []place {
	retry := func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`) }
	failed := func(change func(*job.Envelope), f job.Failure) func(*kit) *job.Job {
		return func(k *kit) *job.Job {
			k.push(change)
			j := k.take()
			k.fail(j, f)
			return j
		}
	}
	return []place{
		{"scheduled", job.Scheduled, false, func(k *kit) *job.Job { return k.push(func(e *job.Envelope) { e.Delay = time.Hour }) }},
		{"available", job.Available, false, func(k *kit) *job.Job { return k.push(nil) }},
		{"given back", job.Available, false, failed(nil, job.Failure{Requeue: true})},
		{"pending", job.Pending, false, func(k *kit) *job.Job { return k.push(func(e *job.Envelope) { e.Hold = true }) }},
		{"active", job.Active, false, func(k *kit) *job.Job { k.push(nil); return k.take() }},
		{"retryable", job.Retryable, false, failed(retry, job.Failure{Message: "no"})},
		{"completed", job.Completed, false, func(k *kit) *job.Job { k.push(nil); j := k.take(); k.ack(j, `1`); return j }},
		{"cancelled", job.Cancelled, false, func(k *kit) *job.Job { j := k.push(nil); k.cancel(j); return j }},
		{"cancelled while active", job.Cancelled, false, func(k *kit) *job.Job { k.push(nil); j := k.take(); k.cancel(j); return j }},
		{"discarded", job.Discarded, false, failed(nil, job.Failure{Code: "DISCARD"})},
		{"dead", job.Discarded, true, failed(nil, job.Failure{Code: "DEAD_LETTER"})},
		{"expired", job.Discarded, false, func(k *kit) *job.Job {
			j := k.push(func(e *job.Envelope) { e.TTL = time.Millisecond })
			return k.until(j.ID, job.Discarded)
		}},
	}
}

func (k *kit) cancel(j *job.Job) job.Change {
	k.t.Helper()
	c, err := k.s.Cancel(k.ctx(), j.ID, "", "")
	if err != nil {
		k.t.Fatalf("cancel: %v", err)
	}
	return c
}

// attempt is a verb, and the kind of its refusal in a place; allowed says where it is none.
type attempt struct {
	name string
	do   func(*kit, *job.Job) error
	kind func(place) (kind job.Kind, refused bool)
}

func attempts() []attempt {
	conflict := func(from job.State) func(place) (job.Kind, bool) {
		return func(p place) (job.Kind, bool) { return job.Conflict, p.state != from }
	}
	burial := func(p place) (job.Kind, bool) { return job.NotFound, !p.dead }
	with := func(end func(*kit, job.Claim) error, claim func(*job.Job) job.Claim) func(*kit, *job.Job) error {
		return func(k *kit, j *job.Job) error { return end(k, claim(j)) }
	}
	bare := func(j *job.Job) job.Claim { return job.Claim{ID: j.ID} }
	ack := func(k *kit, c job.Claim) error { _, err := k.s.Ack(k.ctx(), c, json.RawMessage(`2`)); return err }
	fail := func(k *kit, c job.Claim) error {
		_, err := k.s.Fail(k.ctx(), c, job.Failure{Message: "late"})
		return err
	}
	requeue := func(k *kit, c job.Claim) error {
		_, err := k.s.Fail(k.ctx(), c, job.Failure{Requeue: true})
		return err
	}
	return []attempt{
		{"ack", with(ack, bare), conflict(job.Active)}, {"ack with its last token", with(ack, claimOf), conflict(job.Active)},
		{"fail", with(fail, bare), conflict(job.Active)}, {"fail with its last token", with(fail, claimOf), conflict(job.Active)},
		{"requeue", with(requeue, bare), conflict(job.Active)},
		{"activate", func(k *kit, j *job.Job) error { _, err := k.s.Activate(k.ctx(), j.ID); return err }, conflict(job.Pending)},
		{"cancel", func(k *kit, j *job.Job) error { _, err := k.s.Cancel(k.ctx(), j.ID, "", ""); return err },
			func(p place) (job.Kind, bool) {
				return job.Finished, p.state == job.Completed || p.state == job.Discarded
			}},
		{"revive", func(k *kit, j *job.Job) error { _, err := k.s.Revive(k.ctx(), j.ID); return err }, burial},
		{"delete", func(k *kit, j *job.Job) error { return k.s.DeleteDead(k.ctx(), j.ID) }, burial},
	}
}

func refusedVerbs(k *kit) {
	for _, p := range places() {
		j := p.reach(k)
		k.stands(k.read(j.ID), p.state)
		for _, a := range attempts() {
			kind, refused := a.kind(p)
			if !refused {
				continue
			}
			what := a.name + " of a job that is " + p.name
			err := k.untouched(what, j, func() error { return a.do(k, j) })
			e := k.is(what, err, kind)
			if kind == job.NotFound {
				continue
			}
			if e.Details["current_state"] != string(p.state) || !strings.Contains(e.Message, string(p.state)) {
				k.t.Errorf("%s: %q with %v does not name the state", what, e.Message, e.Details)
			}
		}
		k.clear(j)
	}
}

// clear takes a job out of the way of the next place.
func (k *kit) clear(j *job.Job) {
	k.t.Helper()
	if now := k.read(j.ID); !now.State.Terminal() {
		k.cancel(now)
	}
}

func unknownJob(k *kit) {
	other := k.push(nil)
	k.untouched("verbs of unknown jobs", other, func() error {
		for _, id := range []job.ID{newID(), "x", "0197F6A0-0000-7000-8000-000000000001", "../queues", "'; DROP TABLE jobs; --"} {
			ghost := &job.Job{Envelope: job.Envelope{ID: id}}
			for _, a := range attempts() {
				k.is(a.name+" of "+string(id), a.do(k, ghost), job.NotFound)
			}
			_, err := k.s.Job(k.ctx(), id)
			if e := k.is("read of "+string(id), err, job.NotFound); e.Details["resource_id"] != string(id) || e.Details["resource_type"] != "job" {
				k.t.Errorf("read of %s: details %v", id, e.Details)
			}
		}
		return nil
	})
}

func refusedContent(k *kit) {
	k.push(nil)
	j := k.take()
	tooLong := `"` + strings.Repeat("r", job.MaxResultBytes) + `"`
	for _, tt := range []struct {
		name, result string
		kind         job.Kind
	}{{"a result over 1 MiB", tooLong, job.TooLarge}, {"a result that is no JSON", `{"a":}`, job.Malformed}} {
		err := k.untouched(tt.name, j, func() error {
			_, err := k.s.Ack(k.ctx(), claimOf(j), json.RawMessage(tt.result))
			return err
		})
		k.is(tt.name, err, tt.kind)
	}
	err := k.untouched("details that are no JSON", j, func() error {
		_, err := k.s.Fail(k.ctx(), claimOf(j), job.Failure{Message: "no", Details: json.RawMessage(`{"a":`)})
		return err
	})
	k.is("details that are no JSON", err, job.Malformed)
	if !k.t.Failed() {
		k.stands(k.ack(j, `true`), job.Completed)
	}
}
