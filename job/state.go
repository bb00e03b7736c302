package job

import "time"

// State is where a job stands in its life (ojs-core.md §6.1).
type State string

// The eight states. [None] is the place before a job exists; no stored job has it.
const (
	None      State = ""
	Scheduled State = "scheduled"
	Available State = "available"
	Pending   State = "pending"
	Active    State = "active"
	Completed State = "completed"
	Retryable State = "retryable"
	Cancelled State = "cancelled"
	Discarded State = "discarded"
)

// States lists the eight states in the order in which they are printed. It must
// never change: a state's place is its bit in the sets that are stored.
var States = []State{Scheduled, Available, Pending, Active, Retryable, Completed, Cancelled, Discarded}

// Terminal reports whether s is final: completed, cancelled or discarded.
func (s State) Terminal() bool { return s == Completed || s == Cancelled || s == Discarded }

// StateSet is a set of states.
type StateSet uint16

// SetOf is the set of the given states. What is no state is not in it.
func SetOf(states ...State) StateSet {
	var set StateSet
	for _, s := range states {
		set |= bit(s)
	}
	return set
}

// Has reports whether st is in the set.
func (s StateSet) Has(st State) bool { return s&bit(st) != 0 }

// List is the states of the set in the order of [States].
func (s StateSet) List() []State {
	var list []State
	for _, st := range States {
		if s.Has(st) {
			list = append(list, st)
		}
	}
	return list
}

// bit is the set of one state, as it is stored: see [States].
func bit(st State) StateSet {
	for i, s := range States {
		if s == st {
			return 1 << i
		}
	}
	return 0
}

// Trigger is what makes a job change its state.
type Trigger string

// The triggers of the state machine, named after the operations of ojs-core.md §7.
const (
	Push     Trigger = "PUSH"
	Timer    Trigger = "TIMER"    // a schedule or a backoff delay has passed
	Activate Trigger = "ACTIVATE" // somebody released a pending job
	Fetch    Trigger = "FETCH"
	Ack      Trigger = "ACK"
	LateAck  Trigger = "LATE-ACK" // from the holder before this one, ojs-delivery-guarantees.md §8
	Fail     Trigger = "FAIL"
	Requeue  Trigger = "REQUEUE" // the holder gives the job back untouched
	Lost     Trigger = "LOST"    // no heartbeat: visibility timeout or dead worker
	Overrun  Trigger = "OVERRUN" // the execution timeout passed
	Cancel   Trigger = "CANCEL"
	Expire   Trigger = "EXPIRE" // expires_at passed before the job started
	Revive   Trigger = "REVIVE" // manual retry out of the dead letters
)

type transition struct {
	from State
	on   Trigger
	to   State
}

// transitions is the whole state machine: ojs-core.md §6.3 row by row, and
// behind it the edges that the other documents add. What is not written here
// cannot happen.
var transitions = map[transition]bool{
	{None, Push, Scheduled}:         true,
	{None, Push, Available}:         true,
	{None, Push, Pending}:           true,
	{Scheduled, Timer, Available}:   true,
	{Pending, Activate, Available}:  true,
	{Available, Fetch, Active}:      true,
	{Active, Ack, Completed}:        true,
	{Active, Fail, Retryable}:       true,
	{Active, Fail, Discarded}:       true,
	{Active, Cancel, Cancelled}:     true,
	{Active, Lost, Available}:       true,
	{Retryable, Timer, Available}:   true,
	{Scheduled, Cancel, Cancelled}:  true,
	{Available, Cancel, Cancelled}:  true,
	{Pending, Cancel, Cancelled}:    true,
	{Retryable, Cancel, Cancelled}:  true,
	{Discarded, Revive, Available}:  true,
	{Pending, Activate, Scheduled}:  true, // activated before its scheduled_at
	{Active, Requeue, Available}:    true, // the reservation ends early, by its holder's wish
	{Active, Lost, Retryable}:       true, // ojs-retry.md §9.2: a stall is a failure
	{Active, Lost, Discarded}:       true, // ojs-retry.md §9.2(5)
	{Active, Overrun, Retryable}:    true, // ojs-core.md §5.2 timeout
	{Active, Overrun, Discarded}:    true,
	{Active, LateAck, Completed}:    true, // ojs-delivery-guarantees.md §8, DG-012
	{Available, LateAck, Completed}: true,
	{Retryable, LateAck, Completed}: true,
	{Scheduled, Expire, Discarded}:  true, // ojs-core.md §5.2 expires_at
	{Available, Expire, Discarded}:  true,
	{Pending, Expire, Discarded}:    true,
	{Retryable, Expire, Discarded}:  true,
}

// move is the only place in the program that assigns State. It refuses what the
// table does not hold with a Conflict that names the present state, and then
// nothing has changed.
func (j *Job) move(on Trigger, to State, now time.Time) error {
	if !transitions[transition{j.State, on, to}] {
		return j.refuse(on)
	}
	if !j.moved {
		j.was, j.moved = j.State, true
	}
	j.State = to
	if to == Available && on != Requeue {
		j.Seq = 0 // the store gives the next position in the queue
	}
	if to.Terminal() {
		j.FinishedAt = now
	}
	if !j.Holds.Has(to) {
		j.Holds = 0 // and it never takes its unique key again (ojs-unique-jobs.md §9.2)
	}
	j.DueAt = j.due()
	return nil
}

// refuse is the Conflict for a trigger that the present state does not allow.
func (j *Job) refuse(on Trigger) *Error {
	want := ""
	for _, s := range States {
		for _, to := range States {
			if transitions[transition{s, on, to}] {
				if want != "" {
					want += " or "
				}
				want += string(s)
				break
			}
		}
	}
	e := Errorf(Conflict, "job %s is %s, expected %s for %s", j.ID, j.State, want, on)
	e.Details = map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "expected_state": want}
	return e
}

// due is the instant at which a clock must look at the job again, or zero.
// A finished job is due for pruning counted from FinishedAt; a dead letter is
// found by its own index and is never due.
func (j *Job) due() time.Time {
	switch j.State {
	case Scheduled:
		return earlier(j.ScheduledAt, j.ExpiresAt)
	case Retryable:
		return earlier(j.NextRetryAt, j.ExpiresAt)
	case Pending:
		if j.ExpiresAt.IsZero() && j.WaitsFor() != "" {
			return Forever // so that it is found after a restart
		}
		return j.ExpiresAt
	case Available:
		return j.ExpiresAt
	case Active:
		if j.Timeout > 0 {
			return earlier(j.Lease.Until, j.StartedAt.Add(j.Timeout))
		}
		return j.Lease.Until
	}
	if j.Dead {
		return time.Time{}
	}
	return j.FinishedAt
}

// earlier is the earlier of two instants, where zero means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
