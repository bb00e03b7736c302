package servicetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// enduring is what takes hours: what time does to jobs, and what it does not.
var enduring = []verdict{
	{"no time moves a job out of a state but as the table says", closedToTime},
	{"whatever ends the attempts, max_attempts is an exact bound", boundOfAllEnds},
	{"every way to fail leaves an error with a type and a message", structuredFailures},
}

// rest is a way to a state, with every instant set that a job can have, and how
// long nothing may happen there.
type rest struct {
	name  string
	state job.State
	quiet time.Duration
	reach func(*kit) *job.Job
}

// times sets all of a job's instants: none of them may move it where the table does not say so.
func times(schedule, expiry time.Duration) func(*job.Envelope) {
	return func(e *job.Envelope) {
		e.Delay, e.TTL, e.Timeout, e.Visibility = schedule, expiry, time.Minute, 2*time.Minute
		e.Retry = json.RawMessage(`{"initial_interval":"PT3H","max_interval":"PT3H","jitter":false}`)
	}
}

func rests() []rest {
	const hour = time.Hour
	taken := func(change func(*job.Envelope), then func(*kit, *job.Job)) func(*kit) *job.Job {
		return func(k *kit) *job.Job {
			k.push(change)
			j := k.one(job.FetchRequest{Worker: "w1", Wait: patience})
			then(k, j)
			return j
		}
	}
	end := func(f job.Failure) func(*kit, *job.Job) { return func(k *kit, j *job.Job) { k.fail(j, f) } }
	soon := times(0, 5*time.Minute)
	return []rest{
		{"scheduled", job.Scheduled, 3*hour - time.Millisecond, func(k *kit) *job.Job { return k.push(times(3*hour, 4*hour)) }},
		{"available", job.Available, 3*hour - time.Millisecond, func(k *kit) *job.Job { return k.push(times(0, 3*hour)) }},
		{"pending, its schedule past", job.Pending, 3*hour - time.Millisecond, func(k *kit) *job.Job {
			return k.push(func(e *job.Envelope) { times(time.Minute, 3*hour)(e); e.Hold = true })
		}},
		{"active, its schedule and its expiry past", job.Active, 3*hour - time.Millisecond,
			taken(func(e *job.Envelope) { e.TTL, e.Visibility, e.Timeout = time.Minute, 3*hour, 4*hour }, func(*kit, *job.Job) {})},
		{"retryable", job.Retryable, 3*hour - time.Millisecond, taken(times(0, 5*hour), end(job.Failure{Type: "net.x", Message: "no"}))},
		{"completed", job.Completed, 5 * hour, taken(soon, func(k *kit, j *job.Job) { k.ack(j, `1`) })},
		{"cancelled", job.Cancelled, 5 * hour, func(k *kit) *job.Job { j := k.push(times(time.Minute, 5*time.Minute)); k.cancel(j); return j }},
		{"cancelled while it was active", job.Cancelled, 5 * hour, taken(soon, func(k *kit, j *job.Job) { k.cancel(j) })},
		{"cancelled while it waited for its retry", job.Cancelled, 5 * hour, taken(times(0, 9*hour), func(k *kit, j *job.Job) {
			k.cancel(k.fail(j, job.Failure{Type: "net.x", Message: "no"}))
		})},
		{"discarded", job.Discarded, 5 * hour, taken(soon, end(job.Failure{Type: "net.x", Message: "no", Code: "DISCARD"}))},
		{"dead", job.Discarded, 5 * hour, taken(soon, end(job.Failure{Type: "net.x", Message: "no", Code: "DEAD_LETTER"}))},
		{"expired", job.Discarded, 5 * hour, func(k *kit) *job.Job {
			j := k.push(func(e *job.Envelope) { times(time.Minute, time.Millisecond)(e) })
			k.pass(time.Second)
			return j
		}},
	}
}

// closedToTime lets hours pass, in one server and over restarts: in none of them
// does a job change whose time has not come, or will never come again.
func closedToTime(k *kit) {
	for _, r := range rests() {
		j := r.reach(k)
		end := k.now().Add(r.quiet)
		k.stands(k.read(j.ID), r.state)
		_ = k.untouched("time, of a job that is "+r.name, j, func() error {
			k.pass(r.quiet / 3)
			k.begin(k.now()) // a server that starts looks at all clocks
			k.reach(end)
			return nil
		})
		k.clear(j)
	}
}

// spendings are the ways in which an attempt is spent.
var spendings = map[string]func(*kit, *job.Job){
	"f": func(k *kit, j *job.Job) { k.fail(j, job.Failure{Type: "net.x", Message: "no"}) },
	"r": func(k *kit, j *job.Job) {
		k.fail(j, job.Failure{Type: "net.x", Message: "no", Code: "RETRY", Retryable: ptr(true), RetryAfter: ptr(time.Duration(0))})
	},
	"l": func(k *kit, _ *job.Job) { k.pass(11 * time.Second) }, // the reservation of 10 s runs out
	"o": func(k *kit, j *job.Job) { // beaten for, and still running when its 20 s are over
		for range 3 {
			k.beat(job.Beat{Worker: job.WorkerInfo{ID: j.Lease.Worker}, Jobs: []job.Claim{claimOf(j)}, Visibility: time.Minute})
			k.pass(7 * time.Second)
		}
	},
}

// boundOfAllEnds counts what matters: how often a job is given out. Whatever ends
// its attempts, and in whatever order, it is as often as max_attempts says, and
// what is given back untouched is no attempt.
func boundOfAllEnds(k *kit) {
	for _, tt := range []struct {
		retry string
		max   int
		ends  string
	}{
		{`{"max_attempts":0}`, 1, "f"}, {`{"max_attempts":0}`, 1, "r"}, {`{"max_attempts":0}`, 1, "l"}, {`{"max_attempts":0}`, 1, "o"},
		{`{"max_attempts":1}`, 1, "f"}, {`{"max_attempts":1}`, 1, "r"}, {`{"max_attempts":1}`, 1, "l"}, {`{"max_attempts":1}`, 1, "o"},
		{``, 3, "fff"}, {``, 3, "lll"}, {``, 3, "ooo"}, {``, 3, "flo"}, {``, 3, "lof"}, {``, 3, "orl"}, {``, 3, "rlf"},
		{`{"max_attempts":2}`, 2, "lf"}, {`{"max_attempts":2}`, 2, "of"}, {`{"max_attempts":2}`, 2, "fl"}, {`{"max_attempts":2}`, 2, "fo"},
		{`{"max_attempts":4,"on_exhaustion":"dead_letter"}`, 4, "frlo"}, {`{"max_attempts":4,"on_exhaustion":"dead_letter"}`, 4, "olrf"},
	} {
		what := fmt.Sprintf("%s that ends as %s", tt.retry, tt.ends)
		pushed := k.push(func(e *job.Envelope) {
			if e.Visibility, e.Timeout = 10*time.Second, 20*time.Second; tt.retry != "" {
				e.Retry = json.RawMessage(tt.retry)
			}
		})
		for n, sort := range tt.ends {
			j := k.one(job.FetchRequest{Worker: fmt.Sprint("w", n)})
			if n == 0 { // given back, it is as if it had not been given out
				k.fail(j, job.Failure{Requeue: true})
				j = k.one(job.FetchRequest{Worker: "w0"})
			}
			if j.ID != pushed.ID || j.State != job.Active {
				k.t.Fatalf("%s: run %d is %s", what, n+1, text(j))
			}
			spendings[string(sort)](k, j)
			k.pass(6 * time.Minute) // longer than any backoff
		}
		j := k.read(pushed.ID)
		if j.State != job.Discarded || len(k.history(j)) != tt.max {
			k.t.Errorf("%s: after %d runs it is %s", what, tt.max, text(j))
		}
		if dead := strings.Contains(tt.retry, "dead_letter"); j.Dead != dead {
			k.t.Errorf("%s: dead %v", what, j.Dead)
		}
		k.pass(time.Hour)
		k.none()
		if again := text(k.read(pushed.ID)); again != text(j) {
			k.t.Errorf("%s: an hour after its end it is %s, it was %s", what, again, text(j))
		}
	}
}

// structuredFailures holds ojs-core.md §8.1 against every way to fail, whoever noticed.
func structuredFailures(k *kit) {
	for _, tt := range []struct {
		name, kind string
		change     func(*job.Envelope)
		end        func(*job.Job)
	}{
		{"FAIL", `"net.x"`, nil, func(j *job.Job) {
			k.fail(j, job.Failure{Type: "net.x", Message: "refused", Backtrace: []string{"a:1", "b:2"}})
		}},
		{"the reservation", `"visibility_timeout"`, func(e *job.Envelope) { e.Visibility = time.Second }, func(*job.Job) { k.pass(time.Second) }},
		{"the execution timeout", `"timeout"`, func(e *job.Envelope) { e.Timeout = time.Second }, func(*job.Job) { k.pass(time.Second) }},
		{"the worker's death", `"worker_death"`, nil, func(j *job.Job) {
			k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(j)}})
			k.pass(10 * time.Minute)
		}},
		{"the expiry", `"expired"`, func(e *job.Envelope) { e.TTL = time.Minute }, func(j *job.Job) {
			k.fail(j, job.Failure{Requeue: true})
			k.pass(time.Hour)
		}},
	} {
		pushed := k.push(func(e *job.Envelope) {
			if e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`); tt.change != nil {
				tt.change(e)
			}
		})
		tt.end(k.one(job.FetchRequest{Worker: "w1"}))
		j := k.read(pushed.ID)
		k.stands(j, job.Discarded)
		k.expect(j.Error, "type", tt.kind)
		if message := member(k.t, j.Error, "message"); len(message) < len(`"no"`) || message[0] != '"' {
			k.t.Errorf("%s: the message is %s", tt.name, message)
		}
		for _, e := range k.history(j) { // it has all the members of ojs-retry.md §10.1
			for _, name := range []string{"type", "message", "code", "attempt"} {
				if k.expect(e, name, member(k.t, j.Error, name)); member(k.t, e, name) == "" {
					k.t.Errorf("%s: there is no %s in %s", tt.name, name, e)
				}
			}
			k.expect(e, "timestamp", member(k.t, j.Error, "occurred_at"))
			if details := member(k.t, e, "details"); details == "" || details[0] != '{' {
				k.t.Errorf("%s: the details are %q in %s", tt.name, details, e)
			}
		}
		if tt.name == "FAIL" {
			k.expect(j.Error, "backtrace", `["a:1","b:2"]`)
		}
	}
}
