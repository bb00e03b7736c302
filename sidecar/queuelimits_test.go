package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// gate is what the words of contract §3.13 say of one queue: what its rate remembers, and
// from when its throttle lets the next one start. The starts under the present pace judge
// the words themselves.
type gate struct {
	known  []time.Time
	next   time.Time
	pace   job.Pace
	starts []time.Time
}

// open reports whether one more may start at now, with so many active.
func (g *gate) open(p job.Pace, active int, now time.Time) bool {
	within := 0
	for _, s := range g.known {
		if s.After(now.Add(-p.Rate.Period)) {
			within++
		}
	}
	return (p.Concurrency == 0 || active < p.Concurrency) && (p.Rate.Limit == 0 || within < p.Rate.Limit) &&
		(p.Throttle.Limit == 0 || !g.next.After(now))
}

// started notes a start. A rate and a throttle count from when they were set.
func (g *gate) started(p job.Pace, now time.Time) {
	if p.Remembers() && p.Rate.Limit == 0 {
		g.known = nil
	}
	if p.Remembers() && p.Throttle.Limit == 0 {
		g.next = time.Time{}
	}
	if p.Rate.Limit > 0 {
		g.known = append(g.known, now)
		oldest := g.known[max(0, len(g.known)-p.Rate.Limit)] // of those that a window with room for one more can hold
		g.known = slices.DeleteFunc(g.known, oldest.After)
	}
	if p.Throttle.Limit > 0 {
		g.next = later(g.next, now).Add(p.Throttle.Period / time.Duration(p.Throttle.Limit))
	}
	if p != g.pace {
		g.pace, g.starts = p, nil
	}
	g.starts = append(g.starts, now)
}

// judge looks at all starts under the present pace.
func (g *gate) judge(r *rapid.T, queue string) {
	for i, at := range g.starts {
		if q := g.pace.Rate; q.Limit > 0 && i >= q.Limit && at.Sub(g.starts[i-q.Limit]) < q.Period {
			r.Fatalf("%s: %d starts within %s", queue, q.Limit+1, at.Sub(g.starts[i-q.Limit]))
		}
		if q := g.pace.Throttle; q.Limit > 0 && i > 0 && at.Sub(g.starts[i-1]) < q.Period/time.Duration(q.Limit) {
			r.Fatalf("%s: a start %s behind another", queue, at.Sub(g.starts[i-1]))
		}
	}
}

// paceOf is what holds for a queue: its own members over those of the template.
func (x *limiter) paceOf(queue string) job.Pace {
	p, template := x.queues[queue], x.queues[job.TemplateQueue]
	if p.Concurrency == 0 {
		p.Concurrency = template.Concurrency
	}
	if p.Rate.Limit == 0 {
		p.Rate = template.Rate
	}
	if p.Throttle.Limit == 0 {
		p.Throttle = template.Throttle
	}
	return p
}

// configure limits a queue, or all of them, in another way, through the whole configuration
// or a part of it.
func (x *limiter) configure(r *rapid.T) {
	name := rapid.SampledFrom([]string{limitQueues[0], limitQueues[0], limitQueues[1], job.TemplateQueue}).Draw(r, "of")
	var p job.Pace
	var members []string
	for _, m := range [...]struct {
		name string
		set  func() string
	}{
		{"concurrency", func() string {
			p.Concurrency = rapid.IntRange(1, 4).Draw(r, "concurrency")
			return fmt.Sprint(p.Concurrency)
		}},
		{"rate_limit", func() string {
			p.Rate = job.Quota{Limit: rapid.IntRange(1, 4).Draw(r, "limit"), Period: time.Duration(rapid.SampledFrom([]int{1, 2}).Draw(r, "period")) * time.Second}
			return fmt.Sprintf(`{"limit":%d,"period":%d}`, p.Rate.Limit, int(p.Rate.Period.Seconds()))
		}},
		{"throttle", func() string {
			p.Throttle = job.Quota{Limit: rapid.SampledFrom([]int{1, 2, 4, 5}).Draw(r, "throttle"), Period: time.Second}
			return fmt.Sprintf(`{"limit":%d,"period":"second"}`, p.Throttle.Limit)
		}},
	} {
		value := "null"
		if rapid.IntRange(0, 2).Draw(r, m.name) == 0 {
			value = m.set()
		}
		members = append(members, fmt.Sprintf("%q:%s", m.name, value))
	}
	patch := rapid.Bool().Draw(r, "patch")
	if _, err := x.SetQueueConfig(context.Background(), name, json.RawMessage("{"+strings.Join(members, ",")+"}"), patch); err != nil {
		r.Fatal(err)
	}
	x.queues[name] = p
}

// In any sequence of verbs, of configurations, of time and of restarts each FETCH gets of
// each queue the jobs that the words of contract §3.13 and §4.12 let start, and of its other
// queues what it gets without them.
func TestLimitsOfQueuesByTheirWords(t *testing.T) {
	chooseSequences(t, 200, 14)
	playSequences(t, func(t *testing.T, r *rapid.T, _ *sqlitestore.Store) {
		x := &limiter{now: genesis, pace: map[string]job.Pace{}, overrides: map[string]job.Pace{}, starts: map[string][]time.Time{},
			queues: map[string]job.Pace{}, gates: map[string]*gate{limitQueues[0]: {}, limitQueues[1]: {}}}
		path := filepath.Join(t.TempDir(), "o.db")
		restart := func(r *rapid.T) {
			if x.disk != nil {
				if err := x.disk.Close(); err != nil {
					r.Fatal(err)
				}
			}
			var err error
			if x.disk, err = sqlitestore.Open(context.Background(), path, sqlitestore.Options{}); err != nil {
				r.Fatal(err)
			}
			x.restart(r)
		}
		restart(r)
		defer func() { _ = x.disk.Close() }() // it is only to be gone
		verbs := x.verbs()
		verbs["restart"], verbs["configure"], verbs["configure again"] = restart, x.configure, x.configure
		verbs["fetch once more"] = x.fetch
		r.Repeat(verbs)
		storetest.Audit(r, x.disk)
	})
}

// audited counts what is active in a queue at the end of each transaction.
type audited struct {
	job.Store
	most    atomic.Int64
	commits atomic.Int64
}

func (s *audited) Update(ctx context.Context, fn func(job.Tx) error) error {
	return s.Store.Update(ctx, func(tx job.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		page, err := tx.Jobs(job.Filter{Queue: mail, States: []job.State{job.Active}, Limit: 100})
		for now := int64(len(page.Jobs)); err == nil && now > s.most.Load(); {
			s.most.Store(now)
		}
		s.commits.Add(1)
		return err
	})
}

// Under sixty-four workers no more than five of a queue are ever active, at any commit, and
// all come to their turn; a fifth of them fail, and come back at once.
func TestManyWorkersUnderOneQueue(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Open(t.Context(), t.TempDir()+"/o.db", sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	audit := &audited{Store: store}
	s := New(audit, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	if _, err := s.SetQueueConfig(ctx, mail, json.RawMessage(`{"concurrency":5}`), false); err != nil {
		t.Fatal(err)
	}
	const n = 400
	var done atomic.Int64
	for i := range 64 {
		running.Go(func() {
			for done.Load() < n {
				jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{mail}, Count: 1 + i%3, Wait: 20 * time.Second})
				if err != nil {
					return // stopped
				}
				for _, j := range jobs {
					c := job.Claim{ID: j.ID, Token: j.Lease.Token}
					if i%5 == 0 && j.Attempt == 1 {
						if _, err := s.Fail(ctx, c, job.Failure{Requeue: true}); err != nil {
							t.Error(err)
						}
						continue
					}
					if _, err := s.Ack(ctx, c, nil); err != nil {
						t.Error(err)
					}
					if done.Add(1) == n {
						stop()
					}
				}
			}
		})
	}
	for i := range 4 { // some come together, others while the queue is full
		es := make([]job.Envelope, n/4)
		for k := range es {
			es[k] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Priority: (i + k) % 3}
		}
		if _, err := s.Enqueue(ctx, es...); err != nil {
			t.Fatal(err)
		}
	}
	running.Wait()
	if audit.most.Load() != 5 || done.Load() != n {
		t.Errorf("%d were active at once, %d ended", audit.most.Load(), done.Load())
	}
	t.Logf("%d transactions", audit.commits.Load())
	storetest.Audit(t, store)
}

// Whoever waits for a limited queue gets each job at the instant in which the words let it
// start: nobody polls, and no wake-up is lost.
func TestLimitedQueuesWithholdNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) { withholdRound(t, w, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func withholdRound(t *testing.T, w *world, r *rand.Rand) {
	const n, workers = 60, 12
	pace := job.Pace{Concurrency: 1 + r.IntN(4)}
	config := fmt.Sprintf(`{"concurrency":%d`, pace.Concurrency)
	if r.IntN(2) == 0 {
		pace.Rate = job.Quota{Limit: 1 + r.IntN(5), Period: time.Second}
		config += fmt.Sprintf(`,"rate_limit":{"limit":%d,"period":1}`, pace.Rate.Limit)
	}
	if r.IntN(2) == 0 {
		pace.Throttle = job.Quota{Limit: 4, Period: time.Second}
		config += `,"throttle":{"limit":4,"period":1}`
	}
	of := []string{mail, job.TemplateQueue}[r.IntN(2)]
	if _, err := w.SetQueueConfig(t.Context(), of, json.RawMessage(config+"}"), false); err != nil {
		t.Fatal(err)
	}
	tenant := []string{"", "acme"}[r.IntN(2)]
	lasts := time.Duration(100+100*r.IntN(5)) * time.Millisecond
	type run struct{ began, ended time.Time }
	var mu sync.Mutex
	var runs []run
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"none", mail}, Wait: 5 * time.Second, Tenant: tenant})
				if err != nil || len(jobs) == 0 {
					return // all is done
				}
				began := time.Now()
				time.Sleep(lasts)
				mu.Lock()
				runs = append(runs, run{began, time.Now()})
				mu.Unlock()
				w.ack(jobs[0])
			}
		})
	}
	if r.IntN(2) == 0 {
		synctest.Wait() // all wait before the first comes
	}
	begin := time.Now()
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}
	}
	ctx := t.Context()
	if tenant != "" {
		ctx = job.WithTenant(ctx, tenant)
	}
	if _, err := w.Enqueue(ctx, es...); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if len(runs) != n {
		t.Fatalf("%d of %d jobs ran under %s", len(runs), n, config)
	}
	slices.SortFunc(runs, func(a, b run) int { return a.began.Compare(b.began) })
	for i, is := range runs {
		may := begin
		if c := pace.Concurrency; i >= c { // all last as long
			may = later(may, runs[i-c].ended)
		}
		if q := pace.Rate; q.Limit > 0 && i >= q.Limit {
			may = later(may, runs[i-q.Limit].began.Add(q.Period))
		}
		if q := pace.Throttle; q.Limit > 0 && i > 0 {
			may = later(may, runs[i-1].began.Add(q.Period/time.Duration(q.Limit)))
		}
		if off := is.began.Sub(may); off < -time.Millisecond || off > 5*time.Millisecond {
			t.Fatalf("job %d of %d began %s off under %s, each of %s", i, n, off, config, lasts)
		}
	}
}

// Whatever lets the next job of a full queue go wakes who waits, at once.
func TestWaitingFetchAndAFullQueue(t *testing.T) {
	t.Parallel()
	set := func(name, config string) func(w *world, j *job.Job) error {
		return func(w *world, _ *job.Job) error {
			_, err := w.SetQueueConfig(w.t.Context(), name, json.RawMessage(config), true)
			return err
		}
	}
	for name, free := range map[string]func(w *world, j *job.Job) error{
		"ack": func(w *world, j *job.Job) error {
			_, err := w.Ack(w.t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, nil)
			return err
		},
		"fail": func(w *world, j *job.Job) error {
			_, err := w.Fail(w.t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, job.Failure{Type: "E", Message: "m"})
			return err
		},
		"cancel":                   func(w *world, j *job.Job) error { _, err := w.Cancel(w.t.Context(), j.ID, "", ""); return err },
		"its reservation runs out": func(*world, *job.Job) error { time.Sleep(time.Second); return nil },
		"the limit is raised":      set(mail, `{"concurrency":2}`),
		"the limit is removed":     set(mail, `{"concurrency":null}`),
		"the limit of all":         set(job.TemplateQueue, `{"concurrency":null}`),
	} {
		for _, tenant := range []string{"", "acme"} {
			t.Run(name+" "+tenant, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T, w *world) {
					w.t = t
					of := mail
					if name == "the limit of all" {
						of = job.TemplateQueue
					}
					if err := set(of, `{"concurrency":1}`)(w, nil); err != nil {
						t.Fatal(err)
					}
					for range 2 {
						w.push(func(e *job.Envelope) {
							if tenant != "" {
								e.Meta = json.RawMessage(`{"tenant_id":"` + tenant + `"}`)
							}
						})
					}
					first := w.take("w", time.Second)
					var began time.Time
					got := make(chan time.Duration)
					go func() {
						began = time.Now()
						jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"none", mail}, Wait: 15 * time.Second, Tenant: tenant})
						if err != nil || len(jobs) != 1 || name != "its reservation runs out" && jobs[0].ID == first.ID {
							t.Errorf("%v, %v", jobs, err)
						}
						got <- time.Since(began)
					}()
					synctest.Wait()
					if err := free(w, first); err != nil {
						t.Error(err)
					}
					most := time.Duration(0)
					if name == "its reservation runs out" {
						most = 1300 * time.Millisecond // the sweep of contract §4.6
					}
					if after := <-got; after > most {
						t.Errorf("it came after %s", after)
					}
				})
			})
		}
	}
}

// A FETCH of several queues gets the jobs of the others, however many wait in one that is full.
func TestAFullQueueHidesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, err := w.SetQueueConfig(t.Context(), mail, json.RawMessage(`{"concurrency":1,"rate_limit":{"limit":1,"period":"hour"}}`), false); err != nil {
		t.Fatal(err)
	}
	es := make([]job.Envelope, 2000)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}
	}
	if _, err := w.Enqueue(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	w.take("w", time.Hour)
	free := w.push(func(e *job.Envelope) { e.Queue = "other" })
	got, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail, "other"}, Count: 10})
	if err != nil || len(got) != 1 || got[0].ID != free.ID {
		t.Errorf("%v, %v", got, err)
	}
}

// What the limit of a queue remembers is no limit of a key: nobody sees or sets it, and it
// goes when its queue does, or nothing depends on it.
func TestTheLimitOfAQueueIsNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	ctx := t.Context()
	for _, q := range []string{mail, "other"} {
		if _, err := w.SetQueueConfig(ctx, q, json.RawMessage(`{"throttle":{"limit":1,"period":"second"}}`), false); err != nil {
			t.Fatal(err)
		}
		w.push(func(e *job.Envelope) { e.Queue = q })
		got, err := w.Fetch(ctx, job.FetchRequest{Queues: []string{q}})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		w.ack(got[0])
	}
	kept := func() (keys []string) {
		if err := w.store.View(ctx, func(tx job.ReadTx) error {
			all, _, err := tx.Limits("", 10)
			for _, l := range all {
				keys = append(keys, l.Key)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	if got := kept(); !slices.Equal(got, []string{"#mail", "#other"}) {
		t.Errorf("kept %v", got)
	}
	if page, err := w.Limits(ctx, job.LimitFilter{}); err != nil || len(page.Limits) != 0 || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := w.Limit(ctx, "#mail"); job.KindOf(err) != job.NotFound {
		t.Errorf("read: %v", err)
	}
	if _, err := w.DropLimitOverride(ctx, "#mail"); job.KindOf(err) != job.NotFound {
		t.Errorf("reset: %v", err)
	}
	if _, err := w.OverrideLimit(ctx, "#mail", job.Pace{Concurrency: 1}); job.KindOf(err) != job.Invalid {
		t.Errorf("set: %v", err)
	}
	if _, err := w.DeleteQueue(ctx, mail, job.QueueDeletion{Strategy: job.DeleteReject}); err != nil {
		t.Fatal(err)
	}
	if got := kept(); !slices.Equal(got, []string{"#other"}) {
		t.Errorf("kept %v", got)
	}
	w.pass(3 * 24 * time.Hour)
	if err := w.forgetLimits(ctx, w.time()); err != nil || len(kept()) != 0 {
		t.Errorf("kept %v, %v", kept(), err)
	}
}
