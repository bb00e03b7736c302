package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// word is an ACK or a FAIL that the fake took.
type word struct {
	verb    string // "ack", "fail" or "requeue"
	claim   job.Claim
	result  string
	failure job.Failure
	at      time.Duration // since the fake was made
}

// sent is a request with ACKs: its verb, how many they are, and when it came.
type sent struct {
	verb string
	n    int
	at   time.Duration
}

func (s sent) String() string { return fmt.Sprint(s.verb, " ", s.n, " at ", s.at) }

// fake is a job.Worker in memory. Its hooks, all optional, force what a real
// server does seldom.
type fake struct {
	onFetch func(job.FetchRequest) error
	onWord  func(word) error
	onBeat  func(job.Beat) (job.BeatReply, error)

	onFarewell func() error

	lag time.Duration // how long an answer to ACKs takes

	mu      sync.Mutex // guards the rest
	began   time.Time
	waiting []*job.Job
	came    chan struct{}
	fetches []job.FetchRequest
	words   []word
	sent    []sent
	beats   []job.Beat
	tokens  int

	farewells []string // the workers that deregistered
	told      []told
}

func newFake(jobs ...*job.Job) *fake {
	f := &fake{began: time.Now(), came: make(chan struct{}, 1)}
	f.add(jobs...)
	return f
}

// newJob is an available job with a number as its id.
func newJob(n int, jobType string) *job.Job {
	return &job.Job{
		Envelope: job.Envelope{ID: job.ID(fmt.Sprintf("019539a4-b68c-7def-8000-%012d", n)), Type: jobType, Queue: "default", Args: json.RawMessage("[]")},
		Status:   job.Status{State: job.Available},
	}
}

func (f *fake) add(jobs ...*job.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, jobs...)
	select {
	case f.came <- struct{}{}:
	default:
	}
}

func (f *fake) Fetch(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
	f.mu.Lock()
	f.fetches = append(f.fetches, r)
	f.mu.Unlock()
	if f.onFetch != nil {
		if err := f.onFetch(r); err != nil {
			return nil, err
		}
	}
	timeout := time.NewTimer(r.Wait)
	defer timeout.Stop()
	for {
		if jobs := f.claim(r); len(jobs) > 0 {
			return jobs, nil
		}
		select {
		case <-f.came:
		case <-timeout.C:
			return nil, nil
		case <-ctx.Done():
			return nil, job.Errorf(job.Unavailable, "gone: %w", ctx.Err())
		}
	}
}

func (f *fake) claim(r job.FetchRequest) []*job.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(r.Count, len(f.waiting))
	var out []*job.Job
	for _, j := range f.waiting[:n] {
		c := j.Clone()
		f.tokens++
		c.State, c.Attempt = job.Active, c.Attempt+1
		c.Lease = job.Lease{Token: fmt.Sprintf("t%d", f.tokens), Worker: r.Worker, Length: r.Visibility, Until: time.Now().Add(r.Visibility)}
		out = append(out, c)
	}
	f.waiting = f.waiting[n:]
	return out
}

func (f *fake) say(ctx context.Context, w word) (*job.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, job.Errorf(job.Unavailable, "gone: %w", err)
	}
	if f.onWord != nil {
		if err := f.onWord(w); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.at = time.Since(f.began)
	f.words = append(f.words, w)
	return newJob(0, "a.b"), nil
}

func (f *fake) Ack(ctx context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
	return f.say(ctx, word{verb: "ack", claim: c, result: string(result)})
}

// AckAll takes many as Ack takes one, in their order. Trouble with one is trouble with all.
func (f *fake) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	f.send("ack", len(acks))
	return f.ackAll(ctx, acks)
}

// send notes a request with ACKs, and takes its time.
func (f *fake) send(verb string, n int) {
	f.mu.Lock()
	f.sent = append(f.sent, sent{verb, n, time.Since(f.began)})
	f.mu.Unlock()
	time.Sleep(f.lag)
}

func (f *fake) ackAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	acked := make([]job.Acked, len(acks))
	for i, a := range acks {
		_, err := f.Ack(ctx, a.Claim, a.Result)
		if k := job.KindOf(err); err != nil && (k == job.Unavailable || k == job.Internal) {
			return nil, err
		}
		acked[i] = job.Acked{FinishedAt: time.Now(), Err: err}
	}
	return acked, nil
}

func (f *fake) Next(ctx context.Context, acks []job.AckRequest, r job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	f.send("next", len(acks))
	acked, err := f.ackAll(ctx, acks)
	if err != nil {
		return nil, nil, err
	}
	jobs, err := f.Fetch(ctx, r)
	return acked, jobs, err
}

func (f *fake) Fail(ctx context.Context, c job.Claim, failure job.Failure) (*job.Job, error) {
	verb := "fail"
	if failure.Requeue {
		verb = "requeue"
	}
	return f.say(ctx, word{verb: verb, claim: c, failure: failure})
}

func (f *fake) Beat(_ context.Context, b job.Beat) (job.BeatReply, error) {
	f.mu.Lock()
	f.beats = append(f.beats, b)
	f.mu.Unlock()
	if f.onBeat != nil {
		return f.onBeat(b)
	}
	return job.BeatReply{Directive: "running"}, nil
}

func (f *fake) Register(context.Context, job.WorkerInfo) (job.Registration, error) {
	return job.Registration{}, nil
}

func (f *fake) Deregister(_ context.Context, id string) ([]job.ID, error) {
	f.mu.Lock()
	f.farewells = append(f.farewells, id)
	f.mu.Unlock()
	if f.onFarewell != nil {
		return nil, f.onFarewell()
	}
	return nil, nil
}

func (f *fake) said() []word {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.words)
}

func (f *fake) beaten() []job.Beat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.beats)
}

func (f *fake) requests() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

func (f *fake) asked() []job.FetchRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.fetches)
}

// verbs is what was said, in short, in order.
func verbs(ws []word) string {
	out := ""
	for _, w := range ws {
		out += w.verb + " "
	}
	return out
}

// quietly are options that log nothing.
func quietly() client.WorkerOptions {
	return client.WorkerOptions{ID: "w1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// bubble runs fn in virtual time with a worker that runs until fn returns. All
// goroutines of the worker must end by then: synctest fails otherwise.
func bubble(t *testing.T, f func() *fake, o client.WorkerOptions, handle func(*client.Worker), fn func(*fake, *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := f()
		w := client.NewWorker(fake, o)
		handle(w)
		ctx, cancel := context.WithCancel(t.Context())
		r := &running{stop: cancel, done: make(chan error, 1)}
		go func() { r.done <- w.Run(ctx) }()
		synctest.Wait()
		fn(fake, r)
		cancel()
		if !r.joined {
			if err := <-r.done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
}

// running is a worker under test.
type running struct {
	stop   func()
	done   chan error
	joined bool
}

// wait waits for Run to return.
func (r *running) wait() error {
	r.joined = true
	return <-r.done
}
