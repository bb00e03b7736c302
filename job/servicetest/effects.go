package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// effects is what a transition writes, to the millisecond, and what is read behind it.
var effects = []verdict{
	{"every transition has the side effects of its row in the table", sideEffects},
	{"what a verb answers is what is read behind it, in every place", answersAreRead},
	{"a beat says when the worker was last heard of", lastHeardOf},
}

// row63 is a row of the table of ojs-core.md §6.3: a way over its edge, and the
// members that the job shows then. "now" is the instant of the transition, "*" any value, "" none.
type row63 struct {
	name  string
	to    job.State
	cross func(*kit) job.ID
	shows map[string]string
}

func rows63() []row63 {
	hour := func(e *job.Envelope) { e.Delay = time.Hour }
	pushed := func(change func(*job.Envelope), then ...func(*kit, *job.Job)) func(*kit) job.ID {
		return func(k *kit) job.ID {
			j := k.push(change)
			k.pass(time.Second) // so that no instant is that of the push
			for _, do := range then {
				do(k, j)
			}
			return j.ID
		}
	}
	activate := func(k *kit, j *job.Job) {
		if _, err := k.s.Activate(k.ctx(), j.ID); err != nil {
			k.t.Fatal(err)
		}
	}
	revive := func(k *kit, j *job.Job) {
		if _, err := k.s.Revive(k.ctx(), j.ID); err != nil {
			k.t.Fatal(err)
		}
	}
	cancel := func(k *kit, j *job.Job) { k.cancel(j) }
	fetch := func(k *kit, _ *job.Job) { k.one(job.FetchRequest{Worker: "w1", Visibility: time.Minute}) }
	say := func(f job.Failure) func(*kit, *job.Job) {
		return func(k *kit, j *job.Job) {
			if _, err := k.s.Fail(k.ctx(), job.Claim{ID: j.ID}, f); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	ack := func(k *kit, j *job.Job) { k.ack(&job.Job{Envelope: j.Envelope}, `{"n":1}`) }
	wait := func(d time.Duration) func(*kit, *job.Job) { return func(k *kit, _ *job.Job) { k.pass(d) } }
	failure := job.Failure{Type: "net.x", Message: "no"}
	dead := job.Failure{Type: "net.x", Message: "no", Code: "DEAD_LETTER"}
	fixed := func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval":"PT1M","jitter":false}`) }
	active := map[string]string{"worker_id": `"w1"`, "visible_until": "*", "started_at": "now", "attempt": "1"}
	over := map[string]string{"cancelled_at": "now", "completed_at": "", "discarded_at": "", "next_retry_at": "", "visible_until": "", "worker_id": "", "error": ""}
	return []row63{
		{"PUSH, scheduled", job.Scheduled, func(k *kit) job.ID { return k.push(hour).ID }, map[string]string{"created_at": "now", "scheduled_at": "*", "attempt": "0", "started_at": ""}},
		{"PUSH, available", job.Available, func(k *kit) job.ID { return k.push(nil).ID }, map[string]string{"created_at": "now", "enqueued_at": "now", "attempt": "0"}},
		{"PUSH, pending", job.Pending, func(k *kit) job.ID { return k.push(func(e *job.Envelope) { e.Hold = true }).ID }, map[string]string{"created_at": "now", "attempt": "0"}},
		{"scheduled, Timer", job.Available, pushed(func(e *job.Envelope) { e.Delay = time.Minute }, wait(59*time.Second)), map[string]string{"enqueued_at": "now", "attempt": "0"}},
		{"pending, ACTIVATE", job.Available, pushed(func(e *job.Envelope) { e.Hold = true }, activate), map[string]string{"activated_at": "now", "enqueued_at": "now"}},
		{"available, FETCH", job.Active, pushed(nil, fetch), active},
		{"available, FETCH again", job.Active, pushed(fixed, fetch, say(failure), wait(time.Minute), fetch),
			map[string]string{"worker_id": `"w1"`, "visible_until": "*", "started_at": "now", "attempt": "2", "error": "*", "errors": "*"}},
		{"active, ACK", job.Completed, pushed(nil, fetch, wait(time.Second), ack), map[string]string{"completed_at": "now", "result": `{"n":1}`, "worker_id": "", "visible_until": "", "error": ""}},
		{"active, FAIL", job.Retryable, pushed(fixed, fetch, wait(time.Second), say(failure)),
			map[string]string{"error": "*", "errors": "*", "next_retry_at": "now+1m", "attempt": "1", "worker_id": "", "discarded_at": ""}},
		{"active, FAIL for good", job.Discarded, pushed(nil, fetch, wait(time.Second), say(dead)),
			map[string]string{"error": "*", "errors": "*", "discarded_at": "now", "completed_at": "now", "next_retry_at": "", "worker_id": ""}},
		{"active, CANCEL", job.Cancelled, pushed(nil, fetch, wait(time.Second), cancel), over},
		{"active, Timeout", job.Available, pushed(nil, fetch, wait(time.Minute)),
			map[string]string{"started_at": "", "error": "*", "errors": "*", "enqueued_at": "now", "worker_id": "", "visible_until": "", "attempt": "1"}},
		{"retryable, Timer", job.Available, pushed(fixed, fetch, say(failure), wait(time.Minute)), map[string]string{"enqueued_at": "now", "next_retry_at": "", "attempt": "1", "error": "*"}},
		{"scheduled, CANCEL", job.Cancelled, pushed(hour, cancel), over},
		{"available, CANCEL", job.Cancelled, pushed(nil, cancel), over},
		{"pending, CANCEL", job.Cancelled, pushed(func(e *job.Envelope) { e.Hold = true }, cancel), over},
		{"retryable, CANCEL", job.Cancelled, pushed(fixed, fetch, say(failure), wait(time.Second), cancel), map[string]string{"cancelled_at": "now", "next_retry_at": "", "completed_at": ""}},
		{"discarded, RETRY", job.Available, pushed(nil, fetch, say(dead), wait(time.Second), revive),
			map[string]string{"attempt": "0", "error": "", "errors": "", "enqueued_at": "now", "discarded_at": "", "completed_at": "", "dead_letter": ""}},
	}
}

func sideEffects(k *kit) {
	for _, r := range rows63() {
		j := k.read(r.cross(k))
		if j.State != r.to {
			k.t.Errorf("%s: the job is %s", r.name, text(j))
		}
		now := k.now()
		for name, want := range r.shows {
			got := member(k.t, []byte(text(j)), name)
			switch want {
			case "now":
				want = `"` + job.FormatTime(now) + `"`
			case "now+1m":
				want = `"` + job.FormatTime(now.Add(time.Minute)) + `"`
			case "*":
				if want = got; got == "" {
					want = "any value"
				}
			}
			if got != want {
				k.t.Errorf("%s: %s is %q, want %q in %s", r.name, name, got, want, text(j))
			}
		}
		k.bin(j)
	}
}

// answersAreRead holds ojs-delivery-guarantees.md §10.4 for every verb: the read
// behind an answer, the list and the counters know of it at once.
func answersAreRead(k *kit) {
	counted := func() map[job.State]int64 {
		q, err := k.s.Queue(k.ctx(), queue)
		if err != nil {
			k.t.Fatal(err)
		}
		return q.Counts
	}
	same := func(verb string, answer *job.Job) *job.Job {
		k.t.Helper()
		shown := *answer
		page, err := k.s.Jobs(k.ctx(), job.Filter{Queue: queue, States: []job.State{answer.State}})
		if err != nil {
			k.t.Fatal(err)
		}
		at := slices.IndexFunc(page.Jobs, func(j *job.Job) bool { return j.ID == answer.ID })
		if got := text(k.read(answer.ID)); got != text(&shown) || at < 0 || text(page.Jobs[at]) != got {
			k.t.Errorf("%s: answered\n%s\nread %s\nlisted at %d of %d", verb, text(&shown), got, at, len(page.Jobs))
		}
		if n := counted()[answer.State]; n != page.Total {
			k.t.Errorf("%s: %d jobs are listed as %s, %d counted", verb, page.Total, answer.State, n)
		}
		return answer
	}
	changed := func(verb string, c job.Change, err error) {
		k.t.Helper()
		if err != nil {
			k.t.Fatal(err)
		}
		same(verb, c.Job)
	}
	same("PUSH", k.push(nil))
	same("PUSH, scheduled", k.push(func(e *job.Envelope) { e.Delay = time.Hour }))
	held := same("PUSH, pending", k.push(func(e *job.Envelope) { e.Hold = true }))
	rs, err := k.s.Enqueue(k.ctx(), batch("a", "b", "c", "d")...)
	if err != nil {
		k.t.Fatal(err)
	}
	for i, r := range rs {
		same(fmt.Sprint("batch ", i), r.Job)
	}
	c, err := k.s.Activate(k.ctx(), held.ID)
	changed("ACTIVATE", c, err)
	var taken []*job.Job
	for range 5 {
		taken = append(taken, same("FETCH", k.take()))
	}
	same("ACK", k.ack(taken[0], `[1]`))
	same("FAIL", k.fail(taken[1], job.Failure{Type: "net.x", Message: "no"}))
	dead := same("FAIL for good", k.fail(taken[2], job.Failure{Type: "net.x", Message: "no", Code: "DEAD_LETTER"}))
	same("REQUEUE", k.fail(taken[3], job.Failure{Requeue: true}))
	c, err = k.s.Cancel(k.ctx(), taken[4].ID, "", "")
	changed("CANCEL", c, err)
	c, err = k.s.Revive(k.ctx(), dead.ID)
	changed("RETRY", c, err)
}

func lastHeardOf(k *kit) {
	for n := range 3 {
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1"}})
		at := k.now()
		k.pass(10 * time.Second)
		one, err := k.s.Worker(k.ctx(), "w1")
		all, err2 := k.s.Workers(k.ctx())
		if err != nil || err2 != nil || len(all) != 1 || !one.BeatAt.Equal(at) || !all[0].BeatAt.Equal(at) || one.Stale {
			k.t.Errorf("beat %d at %s: %+v, %+v, %v, %v", n+1, at, one, all, err, err2)
		}
	}
}
