package job

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file under testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and read the diff. got:\n%s", path, got)
	}
}

// The matrix shows every pair of states and the triggers between them, so that
// a change of the machine is a diff that a reviewer sees.
func TestStateMatrix(t *testing.T) {
	all := append([]State{None}, States...)
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s", "from \\ to")
	for _, to := range all[1:] {
		fmt.Fprintf(&b, " | %-26s", to)
	}
	b.WriteString("\n")
	for _, from := range all {
		name := string(from)
		if from == None {
			name = "(none)"
		}
		fmt.Fprintf(&b, "%-10s", name)
		for _, to := range all[1:] {
			var on []string
			for _, tr := range triggers {
				if transitions[transition{from, tr, to}] {
					on = append(on, string(tr))
				}
			}
			fmt.Fprintf(&b, " | %-26s", strings.Join(on, " "))
		}
		b.WriteString("\n")
	}
	golden(t, "matrix.golden", b.String())
}

var triggers = []trigger{onPush, onTimer, onActivate, onFetch, onAck, onLateAck, onFail, onRequeue, onLost, onOverrun, onCancel, onExpire, onRevive}

// verbs drives every verb from a job in a given state.
var verbs = map[trigger]func(*Job, time.Time) error{
	onPush:     func(j *Job, now time.Time) error { return j.push(now) },
	onTimer:    func(j *Job, now time.Time) error { return j.Ready(now) },
	onActivate: func(j *Job, now time.Time) error { return j.Activate(now) },
	onFetch:    func(j *Job, now time.Time) error { return j.Start(now, Lease{Token: "new", Length: time.Minute}) },
	onAck:      func(j *Job, now time.Time) error { return j.Complete(now, Claim{ID: j.ID, Token: j.Lease.Token}, nil) },
	onFail: func(j *Job, now time.Time) error {
		return j.Fail(now, Claim{ID: j.ID}, Failure{Message: "no"}, 0.5)
	},
	onRequeue: func(j *Job, now time.Time) error {
		return j.Fail(now, Claim{ID: j.ID}, Failure{Requeue: true}, 0.5)
	},
	onLost:    func(j *Job, now time.Time) error { return j.Lose(now, "visibility_timeout", 0.5) },
	onOverrun: func(j *Job, now time.Time) error { return j.Overrun(now, 0, 0.5) },
	onCancel:  func(j *Job, now time.Time) error { return j.Cancel(now, "", "") },
	onExpire:  func(j *Job, now time.Time) error { return j.Expire(now) },
	onRevive:  func(j *Job, now time.Time) error { return j.Revive(now) },
}

// A verb from a state that the table does not give it is refused, names the
// state, and leaves every field as it was.
func TestRefusedVerbChangesNothing(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	for on, verb := range verbs {
		for _, from := range States {
			allowed := false
			for _, to := range States {
				allowed = allowed || transitions[transition{from, on, to}]
			}
			if allowed || on == onCancel && from == Cancelled {
				continue
			}
			j := &Job{Envelope: Envelope{ID: "0197f6a0-0000-7000-8000-000000000001", Type: "a.b", MaxAttempts: 3,
				ExpiresAt: now.Add(-time.Second)}}
			j.State, j.CreatedAt = from, now.Add(-time.Hour)
			before := fmt.Sprintf("%+v", j)
			err := verb(j, now)
			if err == nil {
				t.Errorf("%s from %s succeeded, the table does not hold it", on, from)
				continue
			}
			if k := KindOf(err); k != Conflict && k != Finished && k != NotFound {
				t.Errorf("%s from %s is kind %d: %v", on, from, k, err)
			}
			if on != onRevive && !strings.Contains(err.Error(), string(from)) && on != onFetch {
				t.Errorf("%s from %s does not name the state: %v", on, from, err)
			}
			if after := fmt.Sprintf("%+v", j); after != before {
				t.Errorf("%s from %s changed the job to %s, attempt %d", on, from, j.State, j.Attempt)
			}
		}
	}
}

// A job of the time before a state must still be refused where only the clock
// forbids the step.
func TestReadyBeforeItsTime(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	j := &Job{Envelope: Envelope{ID: "x", Type: "a.b", ScheduledAt: now.Add(time.Minute)}}
	if err := j.push(now); err != nil || j.State != Scheduled {
		t.Fatalf("push: %v, state %s", err, j.State)
	}
	if err := j.Ready(now.Add(59 * time.Second)); KindOf(err) != Conflict || err == nil {
		t.Errorf("a second early: %v", err)
	}
	if err := j.Ready(now.Add(time.Minute)); err != nil || j.State != Available {
		t.Errorf("in time: %v, state %s", err, j.State)
	}
}

// Who looks for a discarded job among the dead letters is told where it is.
func TestBuriedTellsTheWayBack(t *testing.T) {
	for state, want := range map[State]bool{Discarded: true, Completed: false, Active: false} {
		var e *Error
		if err := (&Job{Envelope: Envelope{ID: "01970000-0000-7000-8000-000000000001"}, Status: Status{State: state}}).CheckDead(); !errors.As(err, &e) || e.Kind != NotFound {
			t.Fatalf("%s: %v", state, err)
		}
		hint, _ := e.Details["hint"].(string)
		if told := strings.Contains(hint, "/ojs/v1/admin/jobs/"); told != want {
			t.Errorf("%s: %q", state, hint)
		}
	}
	if err := (&Job{Status: Status{State: Discarded, Dead: true}}).CheckDead(); err != nil {
		t.Error(err)
	}
}
