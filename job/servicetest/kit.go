package servicetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	patience = 10 * time.Second      // for what must happen; far more than it needs
	soon     = 3 * time.Second       // what was woken comes before this, what polls late does not
	blink    = 40 * time.Millisecond // a reservation or a delay that a case waits out
	queue    = "mail"
)

// kit is what a case works with.
type kit struct {
	t    *testing.T
	s    job.Service
	time *timed // of a case of RunTimed
}

func (k *kit) ctx() context.Context { return k.t.Context() }

// envelope is a valid envelope in the queue of the tests; change may be nil.
func envelope(change func(*job.Envelope)) job.Envelope {
	e := job.Envelope{Type: "email.send", Queue: queue, Args: json.RawMessage(`["ada@example.com"]`)}
	if change != nil {
		change(&e)
	}
	return e
}

func (k *kit) push(change func(*job.Envelope)) *job.Job {
	k.t.Helper()
	rs, err := k.s.Enqueue(k.ctx(), envelope(change))
	if err != nil || len(rs) != 1 || rs[0].Existing {
		k.t.Fatalf("enqueue: %+v, %v", rs, err)
	}
	return rs[0].Job
}

// named pushes a job of the given type, which the tests use as its name.
func (k *kit) named(name string) *job.Job {
	k.t.Helper()
	return k.push(func(e *job.Envelope) { e.Type = name })
}

func (k *kit) fetch(f job.FetchRequest) []*job.Job {
	k.t.Helper()
	if f.Queues == nil {
		f.Queues = []string{queue}
	}
	jobs, err := k.s.Fetch(k.ctx(), f)
	if err != nil {
		k.t.Fatalf("fetch %+v: %v", f, err)
	}
	return jobs
}

// one fetches exactly one job, and waits for it.
func (k *kit) one(f job.FetchRequest) *job.Job {
	k.t.Helper()
	f.Wait = patience
	jobs := k.fetch(f)
	if len(jobs) != 1 {
		k.t.Fatalf("fetched %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

func (k *kit) take() *job.Job {
	k.t.Helper()
	return k.one(job.FetchRequest{Worker: "w1"})
}

// none makes sure that nothing can be fetched.
func (k *kit) none() {
	k.t.Helper()
	if jobs := k.fetch(job.FetchRequest{Count: 100}); len(jobs) != 0 {
		k.t.Errorf("fetched %d jobs, want none", len(jobs))
	}
}

func claimOf(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: j.Lease.Token} }

func (k *kit) ack(j *job.Job, result string) *job.Job {
	k.t.Helper()
	var raw json.RawMessage
	if result != "" {
		raw = json.RawMessage(result)
	}
	done, err := k.s.Ack(k.ctx(), claimOf(j), raw)
	if err != nil {
		k.t.Fatalf("ack: %v", err)
	}
	return done
}

func (k *kit) fail(j *job.Job, f job.Failure) *job.Job {
	k.t.Helper()
	failed, err := k.s.Fail(k.ctx(), claimOf(j), f)
	if err != nil {
		k.t.Fatalf("fail %+v: %v", f, err)
	}
	return failed
}

func (k *kit) read(id job.ID) *job.Job {
	k.t.Helper()
	j, err := k.s.Job(k.ctx(), id)
	if err != nil {
		k.t.Fatalf("read %s: %v", id, err)
	}
	return j
}

// text is a job as everybody sees it.
func text(j *job.Job) string { return string(j.AppendJSON(nil, job.View{})) }

// member is one member of a job as everybody sees it, empty if there is none.
func member(t *testing.T, raw []byte, name string) (value string) {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	if err := job.Members(raw, func(n string, v json.RawMessage) error {
		if n == name {
			value = string(v)
		}
		return nil
	}); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	return value
}

// expect compares a member of a JSON object; an empty want is a member that must not be there.
func (k *kit) expect(raw []byte, name, want string) {
	k.t.Helper()
	if got := member(k.t, raw, name); got != want {
		k.t.Errorf("%s: got %q, want %q in %s", name, got, want, raw)
	}
}

// shows compares a member of a job as everybody sees it.
func (k *kit) shows(j *job.Job, name, want string) {
	k.t.Helper()
	k.expect([]byte(text(j)), name, want)
}

// stands compares the state.
func (k *kit) stands(j *job.Job, want job.State) {
	k.t.Helper()
	if j.State != want {
		k.t.Errorf("job is %s, want %s: %s", j.State, want, text(j))
	}
}

// until reads a job until it is in a state. A read changes nothing.
func (k *kit) until(id job.ID, want job.State) *job.Job {
	k.t.Helper()
	end := time.Now().Add(patience)
	for {
		j := k.read(id)
		if j.State == want {
			return j
		}
		if time.Now().After(end) {
			k.t.Fatalf("job is %s and never became %s", j.State, want)
		}
		k.pause(2 * time.Millisecond)
	}
}

// pause waits, and not longer than the test lives.
func (k *kit) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.ctx().Done():
	}
}

// is checks that err is an *Error of a kind, and returns it.
func (k *kit) is(what string, err error, want job.Kind) *job.Error {
	k.t.Helper()
	var e *job.Error
	if !errors.As(err, &e) || e.Kind != want {
		k.t.Errorf("%s: got kind %d (%v), want %d", what, job.KindOf(err), err, want)
		return &job.Error{}
	}
	if strings.TrimSpace(e.Message) == "" {
		k.t.Errorf("%s: the error says nothing", what)
	}
	return e
}

// picture is all that can be seen of a job: itself, its events, its queue.
func (k *kit) picture(j *job.Job) string {
	k.t.Helper()
	q, err := k.s.Queue(k.ctx(), j.Queue)
	if err != nil {
		k.t.Fatal(err)
	}
	var told strings.Builder
	for _, e := range k.events(j.ID) {
		fmt.Fprintf(&told, "%d %s %s %s\n", e.Seq, e.Type, job.FormatTime(e.Time), e.Data)
	}
	return fmt.Sprintf("%s\n%s%v dead %d", text(k.read(j.ID)), told.String(), q.Counts, q.Dead)
}

// untouched makes sure that what do tries leaves the job as it is.
func (k *kit) untouched(what string, j *job.Job, do func() error) error {
	k.t.Helper()
	before := k.picture(j)
	err := do()
	if after := k.picture(j); after != before {
		k.t.Errorf("%s: changed the job\nbefore %s\nafter  %s", what, before, after)
	}
	return err
}

// events reads the events of a job.
func (k *kit) events(id job.ID) []job.Event {
	k.t.Helper()
	es, err := k.s.Events(k.ctx(), job.EventFilter{JobID: id, Limit: 1000})
	if err != nil {
		k.t.Fatalf("events of %s: %v", id, err)
	}
	return es
}

// told is the types of a job's events, in order.
func (k *kit) told(id job.ID) (types []string) {
	k.t.Helper()
	for _, e := range k.events(id) {
		types = append(types, e.Type)
	}
	return types
}

func ptr[T any](v T) *T { return &v }
