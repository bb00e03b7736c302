package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var telling = []verdict{
	{"every verb tells its events, in order, with their data", eventsOfVerbs},
	{"clocks tell their events, too", eventsOfClocks},
	{"one failure tells job.failed and exactly one of job.retrying and job.discarded", eventsOfFailures},
	{"the log is ordered, filtered and continued", eventLog},
	{"what was refused tells nothing", eventsOfRefusals},
	{"the history of a job is all its lives, and no other job's", tellsHistory},
	{"the events of a job carry the trace of its meta", eventTrace},
}

// fact is an event: its type, and members of its data as JSON.
type fact struct {
	kind string
	data map[string]string
}

// tells compares all events of a job.
func (k *kit) tells(id job.ID, want ...fact) {
	k.t.Helper()
	es := k.events(id)
	var kinds []string
	for _, w := range want {
		kinds = append(kinds, w.kind)
	}
	if got := k.told(id); !slices.Equal(got, kinds) {
		k.t.Errorf("told %q, want %q", got, kinds)
		return
	}
	for i, e := range es {
		if e.JobID != id || e.JobType == "" || e.Queue != queue || e.Time.IsZero() || i > 0 && e.Seq <= es[i-1].Seq {
			k.t.Errorf("%+v", e)
		}
		for name, value := range want[i].data {
			if got := member(k.t, e.Data, name); got != value && (value != "*" || got == "") {
				k.t.Errorf("%s, %s: got %q, want %q", e.Type, name, got, value)
			}
		}
	}
}

var (
	enqueued = fact{"job.enqueued", map[string]string{"state": `"available"`, "priority": "0"}}
	started  = fact{"job.started", map[string]string{"worker_id": `"w1"`, "attempt": "1"}}
	discard  = fact{"job.discarded", map[string]string{"total_attempts": "1", "dead_letter": "false", "last_error": "*"}}
)

func failedFact(attempt int) fact {
	return fact{"job.failed", map[string]string{"attempt": fmt.Sprint(attempt), "duration_ms": "*", "error": "*"}}
}

func eventsOfVerbs(k *kit) {
	k.push(nil)
	j := k.take()
	k.ack(j, `{"n":1}`)
	k.tells(j.ID, enqueued, started, fact{"job.completed", map[string]string{"attempt": "1", "duration_ms": "*", "result": `{"n":1}`}})

	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":5,"initial_interval":"PT1H","max_interval":"PT1H"}`)
	})
	j = k.fail(k.take(), job.Failure{Type: "net.x", Message: "no", Retryable: ptr(true)})
	at := `"` + job.FormatTime(j.NextRetryAt) + `"`
	k.cancel(j)
	k.tells(j.ID, enqueued, started, failedFact(1),
		fact{"job.retrying", map[string]string{"attempt": "1", "max_attempts": "5", "next_retry_at": at, "error": "*"}},
		fact{"job.cancelled", map[string]string{"previous_state": `"retryable"`}})
	for name, want := range map[string]string{"type": `"net.x"`, "message": `"no"`, "retryable": "true"} {
		k.expect([]byte(member(k.t, k.events(j.ID)[2].Data, "error")), name, want)
	}

	k.push(nil)
	j = k.fail(k.take(), job.Failure{Code: "DISCARD"})
	k.tells(j.ID, enqueued, started, failedFact(1), discard)

	k.push(nil)
	j = k.fail(k.take(), job.Failure{Code: "DEAD_LETTER"})
	if _, err := k.s.Revive(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.s.Cancel(k.ctx(), j.ID, "ada", "enough"); err != nil {
		k.t.Fatal(err)
	}
	k.tells(j.ID, enqueued, started, failedFact(1),
		fact{"job.discarded", map[string]string{"total_attempts": "1", "dead_letter": "true", "last_error": "*"}},
		fact{"job.retried", nil}, enqueued,
		fact{"job.cancelled", map[string]string{"previous_state": `"available"`, "cancelled_by": `"ada"`, "reason": `"enough"`}})

	j = k.push(func(e *job.Envelope) { e.Hold = true })
	if _, err := k.s.Activate(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	k.tells(j.ID, fact{"job.enqueued", map[string]string{"state": `"pending"`}}, fact{"job.activated", nil}, enqueued)
}

func eventsOfClocks(k *kit) {
	j := k.push(func(e *job.Envelope) { e.Delay = blink })
	k.ack(k.take(), "")
	k.tells(j.ID, fact{"job.scheduled", map[string]string{"scheduled_at": `"` + job.FormatTime(j.ScheduledAt) + `"`}}, enqueued, started,
		fact{"job.completed", nil})

	j = k.push(func(e *job.Envelope) { e.TTL, e.Hold = blink, true })
	end := k.until(j.ID, job.Discarded)
	k.tells(j.ID, fact{"job.enqueued", map[string]string{"state": `"pending"`}}, fact{"job.expired", map[string]string{"created_at": `"` + job.FormatTime(end.CreatedAt) + `"`,
		"expired_at": `"` + job.FormatTime(end.ExpiresAt) + `"`, "ttl_ms": fmt.Sprint(blink.Milliseconds())}},
		fact{"job.discarded", map[string]string{"total_attempts": "0", "dead_letter": "false", "last_error": "*"}})
}

// eventsOfFailures holds the sentence of contract §4.18 against every way to fail.
func eventsOfFailures(k *kit) {
	hour := json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`)
	for _, tt := range []struct {
		name   string
		change func(*job.Envelope)
		want   job.State
	}{
		{"lost without a policy", func(e *job.Envelope) { e.Visibility = blink }, job.Available},
		{"lost with a policy", func(e *job.Envelope) { e.Visibility, e.Retry = blink, hour }, job.Retryable},
		{"lost for the last time", func(e *job.Envelope) { e.Visibility, e.Retry = blink, json.RawMessage(`{"max_attempts":1}`) }, job.Discarded},
		{"ran over", func(e *job.Envelope) { e.Timeout, e.Retry = blink, hour }, job.Retryable},
	} {
		j := k.push(tt.change)
		k.take()
		k.clear(k.until(j.ID, tt.want))
		count := map[string]int{}
		for _, kind := range k.told(j.ID) {
			count[kind]++
		}
		if count["job.failed"] != 1 || count["job.retrying"]+count["job.discarded"] != 1 {
			k.t.Errorf("%s: told %q", tt.name, k.told(j.ID))
		}
	}
}

func eventLog(k *kit) {
	begin := time.Now().Add(-time.Second)
	a := k.named("a.one")
	b := k.push(func(e *job.Envelope) { e.Type, e.Queue = "b.two", "zoo" })
	k.cancel(a)
	all, err := k.s.Events(k.ctx(), job.EventFilter{})
	if err != nil || len(all) != 3 {
		k.t.Fatalf("%+v, %v", all, err)
	}
	for _, tt := range []struct {
		f    job.EventFilter
		want []int
	}{
		{job.EventFilter{Types: []string{"job.enqueued"}}, []int{0, 1}}, {job.EventFilter{Types: []string{"job.*"}}, []int{0, 1, 2}},
		{job.EventFilter{Types: []string{"*"}}, []int{0, 1, 2}}, {job.EventFilter{Types: []string{"worker.*", "job.cancelled"}}, []int{2}},
		{job.EventFilter{Queues: []string{"zoo"}}, []int{1}}, {job.EventFilter{JobTypes: []string{"a.one"}}, []int{0, 2}},
		{job.EventFilter{JobID: b.ID}, []int{1}}, {job.EventFilter{After: all[0].Seq}, []int{1, 2}}, {job.EventFilter{After: all[2].Seq}, nil},
		{job.EventFilter{Limit: 2}, []int{0, 1}}, {job.EventFilter{Since: begin}, []int{0, 1, 2}},
		{job.EventFilter{Since: time.Now().Add(time.Hour)}, nil}, {job.EventFilter{Until: begin}, nil},
	} {
		got, err := k.s.Events(k.ctx(), tt.f)
		if err != nil || len(got) != len(tt.want) {
			k.t.Errorf("%+v: %d events, %v; want %d", tt.f, len(got), err, len(tt.want))
			continue
		}
		for i, at := range tt.want {
			if got[i].Seq != all[at].Seq || got[i].Type != all[at].Type || got[i].JobID != all[at].JobID {
				k.t.Errorf("%+v: event %d is %+v, want %+v", tt.f, i, got[i], all[at])
			}
		}
	}
}

func eventsOfRefusals(k *kit) {
	k.push(nil)
	j := k.take()
	k.ack(j, "")
	before, err := k.s.Events(k.ctx(), job.EventFilter{})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, a := range attempts() {
		k.is(a.name, a.do(k, j), job.KindOf(a.do(k, j)))
	}
	_, err = k.s.Enqueue(k.ctx(), append(batch("a", "b"), job.Envelope{Type: "No", Args: json.RawMessage(`[]`)})...)
	k.is("a bad batch", err, job.Invalid)
	if after, err := k.s.Events(k.ctx(), job.EventFilter{}); err != nil || len(after) != len(before) {
		k.t.Errorf("%d events after %d, %v", len(after), len(before), err)
	}
}

func eventTrace(k *kit) {
	j := k.push(func(e *job.Envelope) { e.Meta = json.RawMessage(`{"trace_id":"t-1","tenant_id":"acme","other":1}`) })
	for _, e := range k.events(j.ID) {
		k.expect(e.Data, "trace_id", `"t-1"`)
		k.expect(e.Data, "tenant_id", `"acme"`)
		k.expect(e.Data, "other", "")
	}
}

func tellsHistory(k *kit) {
	dead := k.bury("dead", "net.x")
	k.named("other")
	if _, err := k.s.Revive(k.ctx(), dead.ID); err != nil {
		k.t.Fatal(err)
	}
	k.fetch(job.FetchRequest{Worker: "w1", Count: 9})
	es, err := k.s.History(k.ctx(), dead.ID)
	var kinds []string
	for _, e := range es {
		kinds = append(kinds, e.Type)
	}
	want := []string{"job.enqueued", "job.started", "job.failed", "job.discarded", "job.retried", "job.enqueued", "job.started"}
	if err != nil || !slices.Equal(kinds, want) {
		k.t.Errorf("history %q, %v", kinds, err)
	}
	if all := k.events(dead.ID); fmt.Sprint(all) != fmt.Sprint(es) {
		k.t.Errorf("history\n%+v\nlog\n%+v", es, all)
	}
	_, err = k.s.History(k.ctx(), newID())
	k.is("of a job that never was", err, job.NotFound)
}
