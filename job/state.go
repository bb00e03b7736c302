package job

import (
	"slices"
	"time"
)

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

// StateCode is a state's place among [States], by which it is stored; -1 for none.
func StateCode(st State) int64 { return int64(slices.Index(States, st)) }

// mark is a state in one byte: a job has several, and its size is memory of every verb.
// The zero mark is None.
type mark uint8

func markOf(st State) mark { return mark(StateCode(st) + 1) }

func (m mark) state() State {
	if m == 0 {
		return None
	}
	return States[m-1]
}

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

// trigger is what makes a job change its state.
type trigger string

// The triggers of the state machine, named after the operations of ojs-core.md §7.
const (
	onPush     trigger = "PUSH"
	onTimer    trigger = "TIMER"    // a schedule or a backoff delay has passed
	onActivate trigger = "ACTIVATE" // somebody released a pending job
	onFetch    trigger = "FETCH"
	onAck      trigger = "ACK"
	onLateAck  trigger = "LATE-ACK" // from the holder before this one, ojs-delivery-guarantees.md §8
	onFail     trigger = "FAIL"
	onRequeue  trigger = "REQUEUE" // the holder gives the job back untouched
	onLost     trigger = "LOST"    // no heartbeat: visibility timeout or dead worker
	onOverrun  trigger = "OVERRUN" // the execution timeout passed
	onCancel   trigger = "CANCEL"
	onExpire   trigger = "EXPIRE" // expires_at passed before the job started
	onLimit    trigger = "LIMIT"  // it came up, its rate limit was exhausted, and it does not wait
	onRevive   trigger = "REVIVE" // manual retry out of the dead letters
	onDrop     trigger = "DROP"   // to make room in a queue that is full, contract §4.13
)

type transition struct {
	from State
	on   trigger
	to   State
}

// transitions is the whole state machine: ojs-core.md §6.3 row by row, and
// behind it the edges that the other documents add. What is not written here
// cannot happen.
var transitions = map[transition]bool{
	{None, onPush, Scheduled}:         true,
	{None, onPush, Available}:         true,
	{None, onPush, Pending}:           true,
	{Scheduled, onTimer, Available}:   true,
	{Pending, onActivate, Available}:  true,
	{Available, onFetch, Active}:      true,
	{Active, onAck, Completed}:        true,
	{Active, onFail, Retryable}:       true,
	{Active, onFail, Discarded}:       true,
	{Active, onCancel, Cancelled}:     true,
	{Active, onLost, Available}:       true,
	{Retryable, onTimer, Available}:   true,
	{Scheduled, onCancel, Cancelled}:  true,
	{Available, onCancel, Cancelled}:  true,
	{Pending, onCancel, Cancelled}:    true,
	{Retryable, onCancel, Cancelled}:  true,
	{Discarded, onRevive, Available}:  true,
	{Pending, onActivate, Scheduled}:  true, // activated before its scheduled_at
	{Active, onRequeue, Available}:    true, // the reservation ends early, by its holder's wish
	{Active, onLost, Retryable}:       true, // ojs-retry.md §9.2: a stall is a failure
	{Active, onLost, Discarded}:       true, // ojs-retry.md §9.2(5)
	{Active, onOverrun, Retryable}:    true, // ojs-core.md §5.2 timeout
	{Active, onOverrun, Discarded}:    true,
	{Active, onLateAck, Completed}:    true, // ojs-delivery-guarantees.md §8, DG-012
	{Available, onLateAck, Completed}: true,
	{Retryable, onLateAck, Completed}: true,
	{Scheduled, onExpire, Discarded}:  true, // ojs-core.md §5.2 expires_at
	{Available, onExpire, Discarded}:  true,
	{Pending, onExpire, Discarded}:    true,
	{Retryable, onExpire, Discarded}:  true,
	{Available, onDrop, Discarded}:    true, // contract §4.13 drop_oldest
	{Available, onLimit, Scheduled}:   true, // contract §4.12, on_limit reschedule
	{Available, onLimit, Discarded}:   true, // and drop
}

// move is the only place in the program that assigns State. It refuses what the
// table does not hold with a Conflict that names the present state, and then
// nothing has changed.
func (j *Job) move(on trigger, to State, now time.Time) error {
	if !transitions[transition{j.State, on, to}] {
		return j.refuse(on)
	}
	if !j.moved {
		j.was, j.moved = markOf(j.State), true
	}
	j.left = markOf(j.State)
	j.State = to
	if to == Available && on != onRequeue {
		j.Seq = 0 // the store gives the next position in the queue
	}
	if to.Terminal() {
		j.FinishedAt = now
	}
	if to != Available {
		j.Behind = false
	}
	if !j.Holds.Has(to) {
		j.Holds = 0 // and it never takes its unique key again (ojs-unique-jobs.md §9.2)
	}
	j.DueAt = j.due()
	return nil
}

// refuse is the Conflict for a trigger that the present state does not allow.
func (j *Job) refuse(on trigger) *Error {
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
	return Errorf(Conflict, "job %s is %s, expected %s for %s", j.ID, j.State, want, on).
		With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "expected_state": want})
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
	case Pending, Available:
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
