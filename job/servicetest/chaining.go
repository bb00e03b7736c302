package servicetest

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var chaining = []verdict{
	{"overlap enqueue waits for every end of the one before", enqueueEnds},
	{"overlap enqueue makes a pending job, and three run in their order", enqueueThree},
	{"a waiting run that is cancelled lets none start beside the one that runs", enqueueMiddle},
	{"a waiting run that expires lets none start beside the one that runs", enqueueExpires},
	{"a run waits through the retries of the one before", enqueueRetries},
	{"waiting runs go on after a restart, and after their schedule is deleted or changed", enqueueSurvives},
	{"no waiting run is lost over a restart, whatever came after it", enqueueBehind},
	{"a run that may start late keeps the delay of its template", enqueueDelayed},
	{"a pending job whose meta is that of a waiting run waits until it is activated", enqueueByMeta},
}

// queueing is a schedule each minute whose runs wait for one another.
func queueing(options string) func(*job.CronSpec) {
	return several(minutely, func(s *job.CronSpec) { s.Overlap, s.Template = job.OverlapEnqueue, cronTemplate(options) })
}

// pair makes two runs, the first active and the second waiting for it.
func (k *kit) pair(options string) (first, second *job.Job) {
	k.t.Helper()
	k.put(queueing(options))
	k.pass(time.Minute)
	first = k.holdLong()
	k.pass(time.Minute)
	second = k.latest()
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	if second.ID == first.ID {
		k.t.Fatal("the second run was not made")
	}
	k.stands(second, job.Pending)
	return first, second
}

func enqueueEnds(k *kit) {
	for name, end := range ends {
		first, second := k.pair(`{"queue":"mail","timeout":259200,"retry":{"max_attempts":1}}`)
		k.none()
		end(k, first)
		k.pass(2 * time.Second)
		if j := k.read(second.ID); j.State != job.Available {
			k.t.Errorf("after %s of the one before the job is %s", name, text(j))
		} else {
			k.complete()
		}
		k.drop("nightly")
	}
}

func enqueueThree(k *kit) {
	k.put(queueing(`{"queue":"mail"}`))
	k.pass(3 * time.Minute)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	jobs := k.ticked("three", at(0, 31), at(0, 32), at(0, 33))
	if len(jobs) != 3 {
		return
	}
	for i, want := range []job.State{job.Available, job.Pending, job.Pending} {
		k.stands(jobs[i], want)
	}
	k.says("three", "triggered", "triggered", "triggered")
	for i, j := range jobs {
		held := k.take()
		if held.ID != j.ID {
			k.t.Errorf("run %d is %s, want %s", i, held.ID, j.ID)
		}
		k.none()
		k.pass(2 * time.Second)
		k.none()
		k.ack(held, "")
		k.pass(2 * time.Second)
	}
	k.none()
	k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.pass(time.Minute)
	k.stands(k.latest(), job.Available)
}

// beside takes the first of three runs, does something to the second, which ends
// it, and makes sure that the third waits for the first.
func (k *kit) beside(options string, do func(second *job.Job)) {
	k.t.Helper()
	first, second := k.pair(options)
	k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.pass(time.Minute)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	third := k.latest()
	k.stands(third, job.Pending)
	do(second)
	if j := k.read(second.ID); !j.State.Terminal() {
		k.t.Fatalf("the second is %s", text(j))
	}
	k.pass(2 * time.Second)
	k.stands(k.read(third.ID), job.Pending)
	k.none()
	k.ack(first, "")
	k.pass(2 * time.Second)
	if got := k.take(); got.ID != third.ID {
		k.t.Errorf("fetched %s, want the third, %s", got.ID, third.ID)
	}
}

func enqueueMiddle(k *kit) {
	k.beside(`{"queue":"mail"}`, func(second *job.Job) { k.cancel(second) })
}

func enqueueExpires(k *kit) {
	k.beside(`{"queue":"mail","ttl_ms":90000}`, func(second *job.Job) { k.pass(second.ExpiresAt.Sub(k.now()) + time.Second) })
}

func enqueueRetries(k *kit) {
	first, second := k.pair(`{"queue":"mail","retry":{"max_attempts":2,"initial_interval":"PT1M","jitter":false}}`)
	k.fail(first, job.Failure{Message: "no"})
	k.pass(2 * time.Second)
	k.stands(k.read(first.ID), job.Retryable)
	k.stands(k.read(second.ID), job.Pending)
	k.pass(time.Minute)
	again := k.take()
	k.stands(k.read(second.ID), job.Pending)
	k.fail(again, job.Failure{Message: "no"})
	k.pass(2 * time.Second)
	k.stands(k.read(again.ID), job.Discarded)
	k.stands(k.read(second.ID), job.Available)
}

func enqueueSurvives(k *kit) {
	for what, do := range map[string]func(){
		"restart":         func() { k.begin(k.now().Add(time.Hour)) },
		"deletion":        func() { k.drop("nightly") },
		"another overlap": func() { k.change("nightly", job.CronPatch{Overlap: ptr(job.OverlapSkip)}) },
		"another queue":   func() { k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"options":{"queue":"zoo"}}`)}) },
	} {
		first, second := k.pair(`{"queue":"mail"}`)
		do()
		k.stands(k.read(second.ID), job.Pending)
		k.ack(first, "")
		k.pass(2 * time.Second)
		if j := k.read(second.ID); j.State != job.Available {
			k.t.Errorf("after %s the second is %s", what, j.State)
		} else {
			k.complete()
		}
		if what != "deletion" {
			k.drop("nightly")
		}
	}
}

// A server that starts must find all runs that wait, not only those that the newest one leads to.
func enqueueBehind(k *kit) {
	for what, do := range map[string]func(){
		"the newest is cancelled": func() {
			k.change("nightly", job.CronPatch{Enabled: ptr(true)})
			k.pass(time.Minute)
			k.change("nightly", job.CronPatch{Enabled: ptr(false)})
			k.cancel(k.latest())
		},
		"the newest does not wait": func() {
			k.change("nightly", job.CronPatch{Overlap: ptr(job.OverlapAllow), Template: json.RawMessage(`{"options":{"queue":"zoo"}}`)})
			k.trigger("nightly")
		},
	} {
		first, second := k.pair(`{"queue":"mail"}`)
		do()
		k.begin(k.now().Add(time.Minute))
		k.stands(k.read(second.ID), job.Pending)
		k.ack(first, "")
		k.pass(2 * time.Second)
		if j := k.read(second.ID); j.State != job.Available {
			k.t.Errorf("%s: the second is %s", what, j.State)
		} else {
			k.complete()
		}
		k.drop("nightly")
	}
}

func enqueueDelayed(k *kit) {
	k.put(queueing(`{"queue":"mail","delay":600}`))
	k.pass(2 * time.Minute)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	jobs := k.ticked("two with a delay", at(0, 31), at(0, 32))
	if len(jobs) != 2 {
		return
	}
	k.stands(jobs[0], job.Scheduled)
	k.stands(jobs[1], job.Pending)
	k.cancel(jobs[0])
	k.pass(2 * time.Second)
	k.stands(k.read(jobs[1].ID), job.Scheduled)
	k.pass(11 * time.Minute)
	k.stands(k.read(jobs[1].ID), job.Available)
}

// enqueueByMeta: pending jobs that clients make stay pending, whatever their meta says.
func enqueueByMeta(k *kit) {
	first, second := k.pair(`{"queue":"mail"}`)
	var held []*job.Job
	for _, meta := range []string{string(second.Meta), `{"cron_name":"nightly","cron_after":"` + string(first.ID) + `"}`,
		`{"cron_after":"01970000-0000-7000-8000-00000000beef","cron_triggered_at":""}`} {
		k.pass(time.Second)
		held = append(held, k.push(func(e *job.Envelope) { e.Hold, e.Meta = true, json.RawMessage(meta) }))
	}
	k.ack(first, "")
	k.pass(2 * time.Second)
	k.stands(k.read(second.ID), job.Available)
	k.begin(at(2, 0))
	k.pass(time.Minute)
	for _, j := range held {
		k.stands(k.read(j.ID), job.Pending)
	}
	if _, err := k.s.Activate(k.ctx(), held[0].ID); err != nil {
		k.t.Error(err)
	}
	k.stands(k.read(held[0].ID), job.Available)
}
