package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// script is what happened to some jobs before ACKs come, in a form that can be played in
// several worlds: they differ in nothing but their lease tokens.
type script []scene

// scene is a step: jobs are numbered, tokens are told by their number among the job's own.
type scene struct {
	verb string
	job  int
}

const scriptJobs = 8

func newScript(r *rand.Rand) (s script) {
	verbs := []string{"fetch", "fetch", "fetch", "ack", "fail", "requeue", "cancel", "lose", "wait"}
	for range 2 * scriptJobs {
		s = append(s, scene{"fetch", 0})
	}
	for range r.IntN(30) {
		s = append(s, scene{verbs[r.IntN(len(verbs))], r.IntN(scriptJobs)})
	}
	return s
}

// scripted is a world in which a script was played.
type scripted struct {
	*world
	ids    []job.ID
	tokens map[job.ID][]string
}

func (s script) play(t *testing.T) *scripted {
	w := &scripted{world: newWorld(t, Retention{}), tokens: map[job.ID][]string{}}
	for i := range scriptJobs {
		j := w.push(func(e *job.Envelope) {
			e.ID = job.ID(fmt.Sprintf("01970000-0000-7000-8000-%012d", i))
			if i%2 == 0 {
				e.Retry = json.RawMessage(`{"max_attempts":5,"initial_interval":"PT1S"}`)
			}
		})
		w.ids = append(w.ids, j.ID)
	}
	for n, step := range s {
		w.step(n, step)
	}
	return w
}

func (w *scripted) step(n int, s scene) {
	id := w.ids[s.job]
	last := job.Claim{ID: id}
	if all := w.tokens[id]; len(all) > 0 {
		last.Token = all[len(all)-1]
	}
	switch s.verb {
	case "fetch":
		for _, j := range w.fetch([]string{"w1", "w2"}[n%2], 1, 10*time.Second) {
			w.tokens[j.ID] = append(w.tokens[j.ID], j.Lease.Token)
		}
	case "ack":
		_, _ = w.Ack(w.t.Context(), last, nil) // refused where the job is not active
	case "fail":
		_, _ = w.Fail(w.t.Context(), last, job.Failure{Type: "E"})
	case "requeue":
		_, _ = w.Fail(w.t.Context(), last, job.Failure{Requeue: true})
	case "cancel":
		_, _ = w.Cancel(w.t.Context(), id, "", "")
	case "lose":
		w.pass(10 * time.Second)
	case "wait":
		w.pass(time.Second)
	}
}

// ackPlan is one ACK as a script tells it.
type ackPlan struct {
	id     job.ID
	job    int // of which the token is
	token  int // counted from the last; -1 is none, and more than there are is a wrong one
	worker string
	result json.RawMessage
}

func newAckPlan(r *rand.Rand, ids []job.ID) ackPlan {
	p := ackPlan{job: r.IntN(scriptJobs), token: []int{0, 0, 0, 1, 99, -1}[r.IntN(6)], worker: []string{"", "", "w1", "w2"}[r.IntN(4)]}
	p.id = ids[p.job]
	switch r.IntN(12) {
	case 0:
		p.id = "01970000-0000-7000-8000-00000000dead"
	case 1:
		p.id = "no id"
	case 2:
		p.result = json.RawMessage(`{"a":}`)
	case 3:
		p.result = json.RawMessage(`"` + strings.Repeat("x", job.MaxResultBytes) + `"`)
	case 4, 5:
		p.result = json.RawMessage(`null`)
	case 6, 7:
		p.result = json.RawMessage(`{"n":1e2}`)
	}
	return p
}

func (p ackPlan) in(w *scripted) job.AckRequest {
	c := job.Claim{ID: p.id, Worker: p.worker}
	if tokens := w.tokens[w.ids[p.job]]; p.token >= len(tokens) {
		c.Token = "wrong"
	} else if p.token >= 0 {
		c.Token = tokens[len(tokens)-1-p.token]
	}
	return job.AckRequest{Claim: c, Result: p.result}
}

// said is a verdict in words.
func said(at time.Time, err error) string {
	var e *job.Error
	if errors.As(err, &e) {
		return fmt.Sprint("kind ", e.Kind, ": ", e.Message, " ", e.Details)
	}
	return fmt.Sprint(at, err)
}

// seen is all that can be seen of the jobs.
func (w *scripted) seen() string {
	var b strings.Builder
	for _, id := range w.ids {
		fmt.Fprintf(&b, "%s\n", w.read(id).AppendJSON(nil, job.View{}))
		es, err := w.Events(w.t.Context(), job.EventFilter{JobID: id, Limit: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range es {
			fmt.Fprintf(&b, "  %s %s %s\n", e.Type, e.Time, e.Data)
		}
	}
	return b.String()
}

// Any mix of good and bad ACKs comes to the same, one by one or many at once, alone or
// beside a FETCH: the same verdicts, the same jobs, the same events (contract §3.9, §3.27).
func TestManyAcksAreAsManyInTurn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 27))
			s := newScript(r)
			alone, together := s.play(t), s.play(t)
			var plans []ackPlan
			for range 1 + r.IntN(25) {
				plans = append(plans, newAckPlan(r, alone.ids))
			}
			var want, got []string
			var many []job.AckRequest
			for _, p := range plans {
				a := p.in(alone)
				var at time.Time
				j, err := alone.Ack(t.Context(), a.Claim, a.Result)
				if err == nil {
					at = j.FinishedAt
				}
				want = append(want, said(at, err))
				many = append(many, p.in(together))
			}
			for len(many) > 0 {
				n := 1 + r.IntN(len(many))
				send := together.AckAll
				if r.IntN(2) == 0 {
					send = func(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
						acked, _, err := together.Next(ctx, acks, job.FetchRequest{Queues: []string{"other"}})
						return acked, err
					}
				}
				verdicts, err := send(t.Context(), many[:n])
				if err != nil || len(verdicts) != n {
					t.Fatalf("%d verdicts on %d acks, %v", len(verdicts), n, err)
				}
				for _, v := range verdicts {
					got = append(got, said(v.FinishedAt, v.Err))
				}
				many = many[n:]
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%+v:\ngot  %s\nwant %s", plans[i], got[i], want[i])
				}
			}
			if got, want := together.seen(), alone.seen(); got != want {
				t.Errorf("afterwards, got\n%swant\n%s", got, want)
			}
		})
	}
}

// odd is a store some of whose calls fail, and which counts its transactions.
type odd struct {
	job.Store
	available, save, begin func() error
	waiting                func(job.ID) error
	began                  int
}

type oddTx struct {
	job.Tx
	of *odd
}

func (o *odd) Update(ctx context.Context, fn func(job.Tx) error) error {
	o.began++
	if o.begin != nil {
		if err := o.begin(); err != nil {
			return err
		}
	}
	return o.Store.Update(ctx, func(tx job.Tx) error { return fn(oddTx{tx, o}) })
}

func (x oddTx) Available(queues []string, n int) ([]*job.Job, error) {
	if x.of.available != nil {
		if err := x.of.available(); err != nil {
			return nil, err
		}
	}
	return x.Tx.Available(queues, n)
}

func (x oddTx) Waiting(id job.ID) ([]*job.Job, error) {
	if x.of.waiting != nil {
		if err := x.of.waiting(id); err != nil {
			return nil, err
		}
	}
	return x.Tx.Waiting(id)
}

func (x oddTx) UpdateJob(j *job.Job) error {
	if x.of.save != nil && j.State == job.Completed && j.Priority == 1 {
		if err := x.of.save(); err != nil {
			return err
		}
	}
	return x.Tx.UpdateJob(j)
}

// three are three jobs that a worker holds, the middle one of priority 1, in a world with
// an odd store, and a job that waits.
func three(t *testing.T) (w *world, o *odd, acks []job.AckRequest, waiting *job.Job) {
	w = newWorld(t, Retention{})
	for _, p := range []int{2, 1, 0} {
		w.push(func(e *job.Envelope) { e.Priority = p })
	}
	for _, j := range w.fetch("w", 3, time.Minute) {
		acks = append(acks, job.AckRequest{Claim: job.Claim{ID: j.ID, Token: j.Lease.Token}})
	}
	waiting = w.push(nil)
	o = &odd{Store: w.store}
	w.Sidecar.store = o
	return w, o, acks, waiting
}

func (w *world) nextOf(acks []job.AckRequest, wait time.Duration) ([]job.Acked, []*job.Job, error) {
	return w.Next(w.t.Context(), acks, job.FetchRequest{Queues: []string{mail}, Worker: "w", Count: 9, Wait: wait})
}

// states are the states of the jobs of ACKs, and the verdicts on them.
func (w *world) states(acks []job.AckRequest, acked []job.Acked) string {
	w.t.Helper()
	var b strings.Builder
	for i, a := range acks {
		fmt.Fprintf(&b, "%s ", w.read(a.ID).State)
		if acked != nil {
			fmt.Fprintf(&b, "%v ", acked[i].Err == nil)
		}
	}
	return strings.TrimSpace(b.String())
}

const allDone = "completed true completed true completed true"

// ACKs and the claim behind them are one commit.
func TestManyAcksAreOneTransaction(t *testing.T) {
	t.Parallel()
	w, o, acks, waiting := three(t)
	acked, err := w.AckAll(t.Context(), acks[:2])
	if err != nil || o.began != 1 || w.states(acks[:2], acked) != "completed true completed true" {
		t.Errorf("%d transactions, %v, %s", o.began, err, w.states(acks[:2], acked))
	}
	acked, jobs, err := w.nextOf(acks[2:], 0)
	if err != nil || o.began != 2 || len(jobs) != 1 || jobs[0].ID != waiting.ID || acked[0].Err != nil {
		t.Errorf("%d transactions, %d jobs, %v, %v", o.began, len(jobs), acked, err)
	}
}

// A claim that fails takes no ACK with it.
func TestAClaimThatFailsTakesNoAckWithIt(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"a damaged row": job.Errorf(job.Internal, "a row is damaged"), "a busy disk": job.Errorf(job.Unavailable, "not now")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, wait := range []time.Duration{0, time.Minute} {
				w, o, acks, waiting := three(t)
				o.available = func() error { return why }
				acked, jobs, err := w.nextOf(acks, wait)
				if !errors.Is(err, why) || len(jobs) != 0 || w.states(acks, acked) != allDone {
					t.Errorf("got %v and %d jobs, %s", err, len(jobs), w.states(acks, acked))
				}
				w.is("after a claim that failed", waiting.ID, job.Available)
			}
		})
	}
}

// A job that cannot be stored is no fault of its neighbours.
func TestAJobThatCannotBeStoredIsAlone(t *testing.T) {
	t.Parallel()
	for bad := range 3 {
		w, o, acks, waiting := three(t)
		acks[1], acks[bad] = acks[bad], acks[1]
		o.save = func() error { return job.Errorf(job.Internal, "this row is damaged") }
		acked, jobs, err := w.nextOf(acks, 0)
		if err != nil || len(jobs) != 1 || jobs[0].ID != waiting.ID {
			t.Errorf("at %d: got %d jobs, %v", bad, len(jobs), err)
		}
		for i, v := range acked {
			if want := i != bad; (v.Err == nil) != want || (w.read(acks[i].ID).State == job.Completed) != want {
				t.Errorf("at %d: ack %d: %v", bad, i, v.Err)
			}
		}
		if job.KindOf(acked[bad].Err) != job.Internal {
			t.Errorf("got %v", acked[bad].Err)
		}
	}
}

// A store that fails has stored nothing, and says so; where transactions before it are on
// disk, each ACK has its own verdict.
func TestAcksWhoseStoreFails(t *testing.T) {
	t.Parallel()
	w, o, acks, waiting := three(t)
	down := job.Errorf(job.Unavailable, "the disk is full")
	o.begin = func() error { return down }
	for range 2 {
		if acked, err := w.AckAll(t.Context(), acks); !errors.Is(err, down) || acked != nil {
			t.Errorf("got %v, %v", acked, err)
		}
		if acked, jobs, err := w.nextOf(acks, time.Minute); !errors.Is(err, down) || acked != nil || jobs != nil {
			t.Errorf("got %v, %v, %v", acked, jobs, err)
		}
		if got := w.states(acks, nil); got != "active active active" {
			t.Errorf("got %s", got)
		}
	}
	// Where nobody knows which cannot be stored, each ACK is a transaction of its own; then the disk is full.
	o.waiting = func(id job.ID) error {
		if id == acks[1].ID {
			return job.Errorf(job.Internal, "this row is damaged")
		}
		return nil
	}
	o.began, o.begin = 0, func() error {
		if o.began > 3 { // all, the first, the second; the third
			return down
		}
		return nil
	}
	acked, jobs, err := w.nextOf(acks, 0)
	if got := w.states(acks, acked); !errors.Is(err, down) || len(jobs) != 0 || got != "completed true active false active false" {
		t.Errorf("got %v, %d jobs, %s", err, len(jobs), got)
	}
	if job.KindOf(acked[1].Err) != job.Internal || !errors.Is(acked[2].Err, down) {
		t.Errorf("got %v and %v", acked[1].Err, acked[2].Err)
	}
	w.is("after all that", waiting.ID, job.Available)
}

// A store that goes away behind a claim that failed ends the call.
func TestAStoreThatFailsBehindAClaim(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		w, o, acks, _ := three(t)
		down := job.Errorf(job.Unavailable, "the disk is gone")
		o.available = func() error {
			o.begin = func() error { return down }
			return job.Errorf(job.Unavailable, "a page cannot be read")
		}
		acked, jobs, err := w.nextOf(acks, wait)
		if !errors.Is(err, down) || acked != nil || jobs != nil || w.states(acks, nil) != "active active active" {
			t.Errorf("got %v, %d jobs, %v", acked, len(jobs), err)
		}
	}
}

// Jobs whose claim is undone with the last ACK are not handed out; the claim comes again.
func TestAClaimThatIsUndoneWithAnAck(t *testing.T) {
	t.Parallel()
	w, o, acks, waiting := three(t)
	o.waiting = func(job.ID) error { return job.Errorf(job.Internal, "a row is damaged") }
	acked, jobs, err := w.nextOf(acks[:1], 0)
	if err != nil || job.KindOf(acked[0].Err) != job.Internal || len(jobs) != 1 || jobs[0].ID != waiting.ID {
		t.Fatalf("got %v, %d jobs, %v", acked, len(jobs), err)
	}
	w.is("handed out", waiting.ID, job.Active)
	if w.read(waiting.ID).Lease.Token != jobs[0].Lease.Token {
		t.Errorf("the job is another's")
	}
}

// Jobs too large to be in memory together are ended in several transactions.
func TestAcksOfLargeJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	var acks []job.AckRequest
	for range 10 {
		w.push(func(e *job.Envelope) { e.Args = json.RawMessage(`["` + strings.Repeat("x", 1<<20-2000) + `"]`) })
		j := w.take("w", time.Minute)
		acks = append(acks, job.AckRequest{Claim: job.Claim{ID: j.ID, Token: j.Lease.Token}})
	}
	waiting := w.push(nil)
	o := &odd{Store: w.store}
	w.Sidecar.store = o
	acked, jobs, err := w.nextOf(acks, 0)
	if err != nil || o.began != 2 || len(jobs) != 1 || jobs[0].ID != waiting.ID { // five each: together about 4 MiB
		t.Errorf("%d transactions, %d jobs, %v", o.began, len(jobs), err)
	}
	if got, want := w.states(acks, acked), strings.TrimSpace(strings.Repeat("completed true ", 10)); got != want {
		t.Errorf("got %s", got)
	}
}

// none is a room without room.
type none struct{}

func (none) Take(int) bool { return false }
func (none) Reset()        {}

// What is in the way of a FETCH is not in the way of the ACKs beside it: no memory, a
// server that stops, a caller that leaves while it waits.
func TestAcksCountWhateverBecomesOfTheFetch(t *testing.T) {
	t.Parallel()
	t.Run("no memory", func(t *testing.T) {
		t.Parallel()
		w, _, acks, waiting := three(t)
		acked, jobs, err := w.Next(t.Context(), acks, job.FetchRequest{Queues: []string{mail}, Wait: time.Minute, Room: none{}})
		if got := w.states(acks, acked); job.KindOf(err) != job.Unavailable || len(jobs) != 0 || got != allDone {
			t.Errorf("got %v, %d jobs, %s", err, len(jobs), got)
		}
		w.is("without memory", waiting.ID, job.Available)
	})
	t.Run("a server that stops", func(t *testing.T) {
		t.Parallel()
		w, o, acks, waiting := three(t)
		w.Quiet()
		acked, jobs, err := w.nextOf(acks, time.Minute)
		if got := w.states(acks, acked); err != nil || len(jobs) != 0 || got != allDone || o.began != 1 {
			t.Errorf("got %v, %d jobs, %s, %d transactions", err, len(jobs), got, o.began)
		}
		w.is("of a server that stops", waiting.ID, job.Available)
	})
	t.Run("a caller that leaves", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.push(nil)
			j := w.take("w", time.Minute)
			acks := []job.AckRequest{{Claim: job.Claim{ID: j.ID, Token: j.Lease.Token}}}
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan bool)
			go func() {
				defer close(done)
				acked, jobs, err := w.Next(ctx, acks, job.FetchRequest{Queues: []string{mail}, Wait: 20 * time.Second})
				if got := w.states(acks, acked); !errors.Is(err, context.Canceled) || len(jobs) != 0 || got != "completed true" {
					t.Errorf("got %v, %d jobs, %s", err, len(jobs), got)
				}
			}()
			synctest.Wait()
			w.is("while its worker waits", j.ID, job.Completed)
			leave()
			<-done
			next := w.push(nil)
			w.is("after the caller left", next.ID, job.Available)
		})
	})
}
