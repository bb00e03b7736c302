package servicetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

var pushing = []verdict{
	{"a job is available, scheduled or pending at once", pushedStates},
	{"what was sent comes back byte for byte", byteForByte},
	{"the server makes ids, and keeps those of clients", ids},
	{"an id that is stored is Existing for the same content and Duplicate for another", sameID},
	{"a bad envelope is refused with the name of the field", badEnvelopes},
	{"a bad retry policy is refused", badPolicies},
	{"an envelope that nobody has checked is refused, and all beside it", uncheckedEnvelope},
}

func uncheckedEnvelope(k *kit) {
	good, err := envelope(nil).Check()
	if err != nil {
		k.t.Fatal(err)
	}
	for _, cs := range [][]job.Checked{{{}}, {good, {}}} {
		_, err := k.s.EnqueueChecked(k.ctx(), cs...)
		k.is("the zero Checked", err, job.Invalid)
	}
	k.empty()
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7()).String()) }

func pushedStates(k *kit) {
	for _, tt := range []struct {
		name     string
		change   func(*job.Envelope)
		want     job.State
		enqueued bool
	}{
		{"plain", nil, job.Available, true},
		{"past schedule", func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(-time.Hour) }, job.Available, true},
		{"future schedule", func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(time.Hour) }, job.Scheduled, false},
		{"delay", func(e *job.Envelope) { e.Delay = time.Hour }, job.Scheduled, false},
		{"hold", func(e *job.Envelope) { e.Hold = true }, job.Pending, false},
		{"hold beats schedule", func(e *job.Envelope) { e.Hold, e.Delay = true, time.Hour }, job.Pending, false},
	} {
		pushed := k.push(tt.change)
		for _, j := range []*job.Job{pushed, k.read(pushed.ID)} {
			if j.State != tt.want || j.Attempt != 0 || j.CreatedAt.IsZero() || j.EnqueuedAt.IsZero() == tt.enqueued {
				k.t.Errorf("%s: %s", tt.name, text(j))
			}
		}
		if got, want := text(k.read(pushed.ID)), text(pushed); got != want {
			k.t.Errorf("%s: reading gives\n%s, pushing gave\n%s", tt.name, got, want)
		}
		if tt.enqueued && !pushed.EnqueuedAt.Equal(pushed.CreatedAt) {
			k.t.Errorf("%s: enqueued at %s, created at %s", tt.name, pushed.EnqueuedAt, pushed.CreatedAt)
		}
	}
}

// odd is JSON that a careless server would write in another way.
const odd = `{"b":1.10,"a":1e2,"B":-0.0,"n":9007199254740993,"dup":1,"dup":2,"esc":"\u00e9\/é\ud83d\ude00\n","deep":[[],{}, null ]}`

func byteForByte(k *kit) {
	sent := map[string]string{
		"args":  "[1.10, 1e2, 9007199254740993, 1.0,\n" + odd + "]",
		"meta":  odd,
		"retry": `{"max_attempts" : 7, "initial_interval":"PT1H","max_interval":"PT2H"}`,
		"x_own": odd, "version": "2.0", "tags": `["x", "y"]`,
	}
	j := k.push(func(e *job.Envelope) {
		e.Args, e.Meta, e.Retry = json.RawMessage(sent["args"]), json.RawMessage(sent["meta"]), json.RawMessage(sent["retry"])
		e.Extra = json.RawMessage(`{"x_own":` + odd + `,"version":2.0,"tags":["x", "y"]}`)
	})
	same := func(when string, j *job.Job) {
		k.t.Helper()
		for name, want := range sent {
			if got := member(k.t, []byte(text(j)), name); got != want {
				k.t.Errorf("%s, %s:\n got %q\nwant %q", when, name, got, want)
			}
		}
	}
	same("pushed", j)
	same("read", k.read(j.ID))
	same("failed", k.fail(k.take(), job.Failure{Message: "no", RetryAfter: ptr(time.Duration(0)), Details: json.RawMessage(odd)}))
	k.expect(k.read(j.ID).Error, "details", odd)
	again := k.take()
	same("fetched", again)
	result := "{\n  \"r\" : " + odd + "\n}"
	same("acknowledged", k.ack(again, result))
	done := k.read(j.ID)
	same("done", done)
	k.shows(done, "result", result)
	page, err := k.s.Jobs(k.ctx(), job.Filter{Queue: queue})
	if err != nil || len(page.Jobs) != 1 {
		k.t.Fatalf("list: %+v, %v", page, err)
	}
	same("listed", page.Jobs[0])
	if n := len(k.told(j.ID)); n == 0 { // the result travels in an event, too
		k.t.Error("the job has no events")
	}
}

func ids(k *kit) {
	if made := k.push(nil); !job.ValidID(string(made.ID)) {
		k.t.Errorf("made %q", made.ID)
	}
	id := newID()
	if kept := k.push(func(e *job.Envelope) { e.ID = id }); kept.ID != id || k.read(id).ID != id {
		k.t.Errorf("sent %q, got %q", id, kept.ID)
	}
	for _, bad := range []string{"x", strings.ToUpper(string(newID())), uuid.NewString(), string(newID()) + "0", " " + string(newID())[1:]} {
		_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID = job.ID(bad) }))
		if e := k.is("id "+bad, err, job.Invalid); e.Details["field"] != "id" {
			k.t.Errorf("id %q: details %v", bad, e.Details)
		}
	}
}

func sameID(k *kit) {
	first := k.push(func(e *job.Envelope) { e.ID = newID() })
	k.take()
	rs, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID, e.Priority = first.ID, 7 }))
	if err != nil || len(rs) != 1 || !rs[0].Existing || rs[0].ID != first.ID || rs[0].State != job.Active || rs[0].Priority != 0 {
		k.t.Errorf("the same again: %+v, %v; want the stored job", rs, err)
	}
	for name, change := range map[string]func(*job.Envelope){
		"other args": func(e *job.Envelope) { e.Args = json.RawMessage(`["bob@example.com"]`) },
		"other type": func(e *job.Envelope) { e.Type = "email.other" },
	} {
		err := k.untouched(name, first, func() error {
			_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID = first.ID; change(e) }))
			return err
		})
		e := k.is(name, err, job.Duplicate)
		if e.Details["existing_job_id"] != string(first.ID) || e.Details["existing_job_state"] != "active" {
			k.t.Errorf("%s: details %v", name, e.Details)
		}
	}
}

func badEnvelopes(k *kit) {
	for _, tt := range []struct {
		field  string
		change func(*job.Envelope)
	}{
		{"type", func(e *job.Envelope) { e.Type = "" }},
		{"type", func(e *job.Envelope) { e.Type = "Email.Send" }},
		{"type", func(e *job.Envelope) { e.Type = "email..send" }},
		{"type", func(e *job.Envelope) { e.Type = "email-send" }},
		{"type", func(e *job.Envelope) { e.Type = strings.Repeat("a", 256) }},
		{"args", func(e *job.Envelope) { e.Args = nil }},
		{"args", func(e *job.Envelope) { e.Args = json.RawMessage(`{}`) }},
		{"args", func(e *job.Envelope) { e.Args = json.RawMessage(`[1,]`) }},
		{"queue", func(e *job.Envelope) { e.Queue = "Mail" }},
		{"queue", func(e *job.Envelope) { e.Queue = "-mail" }},
		{"queue", func(e *job.Envelope) { e.Queue = strings.Repeat("q", 129) }},
		{"meta", func(e *job.Envelope) { e.Meta = json.RawMessage(`[]`) }},
		{"priority", func(e *job.Envelope) { e.Priority = 101 }},
		{"priority", func(e *job.Envelope) { e.Priority = -101 }},
		{"timeout", func(e *job.Envelope) { e.Timeout = -time.Second }},
	} {
		_, err := k.s.Enqueue(k.ctx(), envelope(tt.change))
		e := k.is(tt.field, err, job.Invalid)
		if !strings.Contains(e.Message, tt.field) || e.Details["field"] != tt.field {
			k.t.Errorf("%s: %q, details %v", tt.field, e.Message, e.Details)
		}
	}
	_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) {
		e.Meta = json.RawMessage(`{"x":"` + strings.Repeat("m", job.MaxMetaBytes) + `"}`)
	}))
	k.is("meta of 64 KiB and more", err, job.TooLarge)
	k.empty()
}

// empty makes sure that nothing was stored.
func (k *kit) empty() {
	k.t.Helper()
	if page, err := k.s.Jobs(k.ctx(), job.Filter{}); err != nil || page.Total != 0 {
		k.t.Errorf("stored %d jobs, %v; want none", page.Total, err)
	}
}

func badPolicies(k *kit) {
	for _, tt := range []struct{ field, policy string }{
		{"max_attempts", `{"max_attempts":-1}`}, {"max_attempts", `{"max_attempts":"3"}`}, {"max_attempts", `{"max_attempts":1.5}`},
		{"initial_interval", `{"initial_interval":"PT0S"}`}, {"initial_interval", `{"initial_interval":"soon"}`},
		{"backoff_coefficient", `{"backoff_coefficient":0.9}`}, {"max_interval", `{"initial_interval":"PT10M"}`},
		{"jitter", `{"jitter":"yes"}`}, {"non_retryable_errors", `{"non_retryable_errors":[""]}`},
		{"on_exhaustion", `{"on_exhaustion":"retry"}`}, {"backoff_strategy", `{"backoff_strategy":"random"}`}, {"mystery", `{"mystery":1}`},
	} {
		_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.Retry = json.RawMessage(tt.policy) }))
		if e := k.is(tt.policy, err, job.BadRetry); !strings.Contains(e.Message, tt.field) ||
			e.Details["error_type"] != "validation.retry_policy_invalid" {
			k.t.Errorf("%s: %q, details %v", tt.policy, e.Message, e.Details)
		}
	}
	k.empty()
}
