package job

import (
	"encoding/json"
	"testing"
	"time"
)

// Every edge of the state machine is told by exactly one event, with the state before and
// the one after.
func TestEveryTransitionIsTold(t *testing.T) {
	now := time.UnixMilli(1e12).UTC()
	yes, no := true, false
	claim := Claim{Token: "t"}
	failed := func(retry *bool) func(*Job) error {
		return func(j *Job) error { return j.Fail(now, claim, Failure{Type: "E", Message: "m", Retryable: retry}, 0) }
	}
	lost := func(attempt int, policy string) func(*Job) error {
		return func(j *Job) error {
			j.Attempt = attempt
			if policy != "" {
				j.Retry = json.RawMessage(policy)
			}
			return j.Lose(now, "worker_death", 0)
		}
	}
	late := func(j *Job) error {
		j.Lease.Token = "another"
		j.Lost = &LostLease{Token: "t", At: now, Length: time.Hour, Fetches: 1}
		return j.Complete(now, claim, nil)
	}
	cancel := func(j *Job) error { return j.Cancel(now, "", "") }
	expire := func(j *Job) error { j.ExpiresAt = now; return j.Expire(now) }
	ready := func(j *Job) error { return j.Ready(now) }
	push := func(change func(*Job)) func(*Job) error {
		return func(j *Job) error { change(j); return j.push(now) }
	}
	verbs := map[transition]func(*Job) error{
		{None, onPush, Scheduled}:         push(func(j *Job) { j.ScheduledAt = now.Add(time.Hour) }),
		{None, onPush, Available}:         push(func(*Job) {}),
		{None, onPush, Pending}:           push(func(j *Job) { j.Hold = true }),
		{Scheduled, onTimer, Available}:   ready,
		{Retryable, onTimer, Available}:   ready,
		{Pending, onActivate, Available}:  func(j *Job) error { return j.Activate(now) },
		{Pending, onActivate, Scheduled}:  func(j *Job) error { j.ScheduledAt = now.Add(time.Hour); return j.Activate(now) },
		{Available, onFetch, Active}:      func(j *Job) error { return j.Start(now, Lease{Length: time.Minute}) },
		{Active, onAck, Completed}:        func(j *Job) error { return j.Complete(now, claim, nil) },
		{Active, onLateAck, Completed}:    late,
		{Available, onLateAck, Completed}: late,
		{Retryable, onLateAck, Completed}: late,
		{Active, onFail, Retryable}:       failed(&yes),
		{Active, onFail, Discarded}:       failed(&no),
		{Active, onRequeue, Available}: func(j *Job) error {
			return j.Fail(now, claim, Failure{Type: "E", Message: "m", Requeue: true, Undelivered: true}, 0)
		},
		{Active, onLost, Available}:      lost(1, ""),
		{Active, onLost, Retryable}:      lost(1, `{"max_attempts":3}`),
		{Active, onLost, Discarded}:      lost(3, ""),
		{Active, onOverrun, Retryable}:   func(j *Job) error { return j.Overrun(now, time.Minute, 0) },
		{Active, onOverrun, Discarded}:   func(j *Job) error { j.Attempt = 3; return j.Overrun(now, time.Minute, 0) },
		{Scheduled, onCancel, Cancelled}: cancel,
		{Available, onCancel, Cancelled}: cancel,
		{Pending, onCancel, Cancelled}:   cancel,
		{Active, onCancel, Cancelled}:    cancel,
		{Retryable, onCancel, Cancelled}: cancel,
		{Scheduled, onExpire, Discarded}: expire,
		{Available, onExpire, Discarded}: expire,
		{Pending, onExpire, Discarded}:   expire,
		{Retryable, onExpire, Discarded}: expire,
		{Available, onDrop, Discarded}:   func(j *Job) error { return j.Displace(now, Pressure{Queue: "q", Bound: 1}) },
		{Available, onLimit, Scheduled}:  func(j *Job) error { return j.Defer(now, now.Add(time.Hour)) },
		{Available, onLimit, Discarded}:  func(j *Job) error { return j.Drop(now, "key") },
		{Discarded, onRevive, Available}: func(j *Job) error { return j.Revive(now) },
	}
	for edge := range transitions {
		verb := verbs[edge]
		if verb == nil {
			t.Errorf("nothing in this test goes from %q to %q by %s", edge.from, edge.to, edge.on)
			continue
		}
		j := &Job{Envelope: Envelope{ID: "01970000-0000-7000-8000-000000000001", Type: "a.b", Queue: "q"}, Status: Status{State: edge.from}}
		if edge.from == Active {
			j.Attempt, j.StartedAt, j.Lease = 1, now, Lease{Token: "t", Until: now.Add(time.Hour), Length: time.Hour}
		}
		if err := verb(j); err != nil || j.State != edge.to {
			t.Errorf("from %q by %s: %q, %v; want %q", edge.from, edge.on, j.State, err, edge.to)
			continue
		}
		told := 0
		for _, e := range j.TakeEvents() {
			from, to, ok := e.Transition()
			if !ok {
				continue
			}
			if told++; from != edge.from || to != edge.to {
				t.Errorf("%s: %s tells %q to %q, and it was %q to %q: %s", edge.on, e.Type, from, to, edge.from, edge.to, e.Data)
			}
		}
		if told != 1 {
			t.Errorf("from %q to %q by %s: %d events tell of it", edge.from, edge.to, edge.on, told)
		}
	}
}
