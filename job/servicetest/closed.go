package servicetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// The table of ojs-core.md §6.3 is closed: what it does not list happens to no
// job, by no verb and with no time.
var closed = []verdict{
	{"no verb moves a job out of a state but as the table says", closedToVerbs},
}

// stir is a verb, and the states that it may change a job in.
type stir struct {
	name string
	from []job.State
	do   func(*kit, *job.Job) error
}

// stirs are all verbs of a service that can reach a job. A Conflict, or a verb
// that finds nothing, is its refusal; what each kind of refusal says is judged
// by the cases of the verbs.
func stirs() []stir {
	active := []job.State{job.Active}
	living := []job.State{job.Scheduled, job.Available, job.Pending, job.Active, job.Retryable}
	list := []stir{
		{"ACTIVATE", []job.State{job.Pending}, func(k *kit, j *job.Job) error { _, err := k.s.Activate(k.ctx(), j.ID); return err }},
		{"CANCEL", living, func(k *kit, j *job.Job) error { _, err := k.s.Cancel(k.ctx(), j.ID, "ada", "why"); return err }},
		{"RETRY", []job.State{job.Discarded}, func(k *kit, j *job.Job) error { _, err := k.s.Revive(k.ctx(), j.ID); return err }},
		{"RETRY of many", []job.State{job.Discarded}, func(k *kit, _ *job.Job) error {
			_, err := k.s.ReviveDead(k.ctx(), job.Filter{Queue: queue})
			return err
		}},
		{"PURGE", []job.State{job.Discarded}, func(k *kit, _ *job.Job) error {
			_, err := k.s.PurgeDead(k.ctx(), time.Now().Add(time.Hour))
			return err
		}},
		{"DELETE", []job.State{job.Discarded}, func(k *kit, j *job.Job) error { return k.s.DeleteDead(k.ctx(), j.ID) }},
		{"FETCH", []job.State{job.Available}, func(k *kit, _ *job.Job) error {
			_, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Worker: "w2", Count: 100})
			return err
		}},
		{"BEAT", active, func(k *kit, j *job.Job) error {
			_, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(j)}, Visibility: time.Hour})
			return err
		}},
		{"the end of its worker", active, func(k *kit, _ *job.Job) error { _, err := k.s.Deregister(k.ctx(), "w1"); return err }},
		{"PUSH of the same", nil, func(k *kit, j *job.Job) error {
			_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID, e.Priority, e.Hold = j.ID, 9, true }))
			return err
		}},
		{"PUSH of another with its id", nil, func(k *kit, j *job.Job) error {
			_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID, e.Args = j.ID, json.RawMessage(`[2]`) }))
			return err
		}},
	}
	return append(list, endings()...)
}

// endings are ACK and every sort of FAIL, from everybody who may say so.
func endings() (list []stir) {
	for who, claim := range map[string]func(*job.Job) job.Claim{
		"nobody":     func(j *job.Job) job.Claim { return job.Claim{ID: j.ID} },
		"its worker": func(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Worker: "w1"} },
		"its holder": claimOf,
	} {
		list = append(list, stir{"ACK from " + who, []job.State{job.Active}, func(k *kit, j *job.Job) error {
			_, err := k.s.Ack(k.ctx(), claim(j), json.RawMessage(`{"late":true}`))
			return err
		}})
		for what, f := range map[string]job.Failure{
			"FAIL": {Type: "net.x", Message: "late"}, "FAIL with RETRY": {Type: "net.x", Message: "late", Code: "RETRY", RetryAfter: ptr(time.Duration(0))},
			"FAIL with DISCARD": {Type: "net.x", Message: "late", Code: "DISCARD"}, "FAIL with DEAD_LETTER": {Type: "net.x", Message: "late", Code: "DEAD_LETTER"},
			"FAIL for good": {Type: "net.x", Message: "late", Retryable: ptr(false)}, "REQUEUE": {Requeue: true},
		} {
			list = append(list, stir{what + " from " + who, []job.State{job.Active}, func(k *kit, j *job.Job) error {
				_, err := k.s.Fail(k.ctx(), claim(j), f)
				return err
			}})
		}
	}
	return list
}

func closedToVerbs(k *kit) {
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w2"}})
	for _, p := range places() {
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1"}})
		j := p.reach(k)
		k.stands(k.read(j.ID), p.state)
		for _, s := range stirs() {
			if slices.Contains(s.from, p.state) {
				continue
			}
			if err := k.untouched(s.name+" of a job that is "+p.name, j, func() error { return s.do(k, j) }); job.KindOf(err) == job.Internal && err != nil {
				k.t.Errorf("%s of a job that is %s: %v", s.name, p.name, err)
			}
			if s.name == "the end of its worker" {
				k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1"}})
			}
		}
		k.stands(k.read(j.ID), p.state)
		k.bin(j)
	}
}

// bin makes sure that a job is in the way of no other: neither alive nor a dead letter.
func (k *kit) bin(j *job.Job) {
	k.t.Helper()
	now := k.read(j.ID)
	if now.Dead {
		if err := k.s.DeleteDead(k.ctx(), j.ID); err != nil {
			k.t.Fatalf("delete: %v", err)
		}
		return
	}
	k.clear(j)
}
