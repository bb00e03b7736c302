package sidecar

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// limiter plays jobs with limits, and judges each FETCH by a look at all jobs and at all
// starts there ever were.
type limiter struct {
	*Sidecar
	disk      *sqlitestore.Store
	now       time.Time
	held      []*job.Job // by whoever fetched them, also where they were lost since
	pace      map[string]job.Pace
	overrides map[string]job.Pace
	starts    map[string][]time.Time
	queues    map[string]job.Pace // those that limit whole queues
	gates     map[string]*gate
}

// limitShapes are by key, but for "a", whose concurrency changes with each job.
var limitShapes = map[string]string{
	"a": `{"key":"a","concurrency":N,ON}`,
	"b": `{"key":"b","rate":{"limit":3,"period":1},ON}`,
	"c": `{"key":"c","throttle":{"limit":2,"period":1},ON}`,
	"d": `{"key":"d","concurrency":2,"rate":{"limit":2,"period":"PT0.5S"},ON}`,
	"@": `{"max_per_second":4,ON}`,
}

var limitQueues = []string{"mail", "other"}

func (x *limiter) restart(*rapid.T) {
	x.Sidecar = New(x.disk, Options{Now: func() time.Time { return x.now }, Rand: func() float64 { return 0.5 }})
}

func (x *limiter) push(r *rapid.T) {
	var es []job.Envelope
	for range rapid.IntRange(1, 3).Draw(r, "jobs") {
		e := job.Envelope{Type: "a.b", Args: json.RawMessage(`[]`), Queue: rapid.SampledFrom(limitQueues).Draw(r, "queue"),
			Priority: rapid.SampledFrom([]int{0, 0, 5}).Draw(r, "priority")}
		if rapid.IntRange(0, 4).Draw(r, "delayed") == 0 {
			e.Delay = time.Duration(rapid.IntRange(1, 900).Draw(r, "delay")) * time.Millisecond
		}
		if rapid.IntRange(0, 7).Draw(r, "expires") == 0 {
			e.TTL = time.Duration(rapid.IntRange(100, 3000).Draw(r, "ttl")) * time.Millisecond
		}
		if key := rapid.SampledFrom([]string{"", "a", "a", "b", "c", "d", "@"}).Draw(r, "key"); key != "" {
			on := rapid.SampledFrom([]string{"", "", "", `,"on_limit":"drop"`, `,"on_limit":"reschedule"`}).Draw(r, "on limit")
			e.RateLimit = json.RawMessage(strings.NewReplacer(":N", fmt.Sprint(":", rapid.IntRange(1, 3).Draw(r, "concurrency")), ",ON", on).Replace(limitShapes[key]))
			ask := e.LimitAsk()
			x.pace[ask.Key] = ask.Pace
		}
		if rapid.IntRange(0, 9).Draw(r, "unique") == 0 {
			e.Unique = json.RawMessage(`{"keys":["queue"],"on_conflict":"replace"}`)
		}
		es = append(es, e)
	}
	if _, err := x.Enqueue(context.Background(), es...); err != nil {
		r.Fatal(err)
	}
}

// may is the law of contract §4.12 by its words.
func (x *limiter) may(key string, active int) bool {
	p, ok := x.overrides[key]
	if !ok {
		p = x.pace[key]
	}
	starts := x.starts[key]
	in := 0
	for _, s := range starts {
		if p.Rate.Limit > 0 && s.After(x.now.Add(-p.Rate.Period)) {
			in++
		}
	}
	return (p.Concurrency == 0 || active < p.Concurrency) && (p.Rate.Limit == 0 || in < p.Rate.Limit) &&
		(p.Throttle.Limit == 0 || len(starts) == 0 || !x.now.Before(starts[len(starts)-1].Add(p.Throttle.Period/time.Duration(p.Throttle.Limit))))
}

func (x *limiter) all(r *rapid.T) (all []*job.Job) {
	for f := (job.Filter{Limit: 1000}); ; {
		var page job.Page
		if err := x.disk.View(context.Background(), func(tx job.ReadTx) (err error) {
			page, err = tx.Jobs(f)
			return err
		}); err != nil {
			r.Fatal(err)
		}
		all = append(all, page.Jobs...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// fetch claims, and compares with what the words say.
func (x *limiter) fetch(r *rapid.T) {
	queues := rapid.SampledFrom([][]string{{"mail"}, {"other"}, {"mail", "other"}, {"other", "mail"}}).Draw(r, "queues")
	count := rapid.IntRange(1, 5).Draw(r, "count")
	active := map[string]int{} // by key, and by queue
	lines := map[string][]*job.Job{}
	for _, j := range x.all(r) {
		if j.State == job.Active {
			active[job.QueueLimitKey(j.Queue)]++
		}
		switch {
		case j.State == job.Active && j.Asks():
			active[j.LimitAsk().Key]++
		case j.State == job.Available:
			lines[j.Queue] = append(lines[j.Queue], j)
		}
	}
	var want []job.ID
	away := map[job.ID]job.State{}
	for _, q := range queues {
		line := lines[q]
		slices.SortFunc(line, func(a, b *job.Job) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		p, g := x.paceOf(q), x.gates[q]
		for _, j := range line {
			if len(want) == count || g != nil && !g.open(p, active[job.QueueLimitKey(q)], x.now) {
				break
			}
			if j.Expired(x.now) {
				continue
			}
			if ask := j.LimitAsk(); j.Asks() {
				if !x.may(ask.Key, active[ask.Key]) {
					switch ask.OnLimit {
					case job.DropOnLimit:
						away[j.ID] = job.Discarded
					case job.RescheduleOnLimit:
						away[j.ID] = job.Scheduled
					}
					continue
				}
				active[ask.Key]++
				x.starts[ask.Key] = append(x.starts[ask.Key], x.now)
			}
			if want = append(want, j.ID); g != nil {
				active[job.QueueLimitKey(q)]++
				g.started(p, x.now)
				g.judge(r, q)
			}
		}
	}
	got, err := x.Fetch(context.Background(), job.FetchRequest{Queues: queues, Count: count, Worker: "w", Visibility: time.Second})
	if err != nil {
		r.Fatal(err)
	}
	var ids []job.ID
	for _, j := range got {
		ids = append(ids, j.ID)
	}
	if !slices.Equal(ids, want) {
		r.Fatalf("fetched %v, want %v", ids, want)
	}
	x.held = append(x.held, got...)
	for id, state := range away {
		if j, err := x.Job(context.Background(), id); err != nil || j.State != state {
			r.Fatalf("%s was put away as %v, %v; want %s", id, j.State, err, state)
		}
	}
}

func (x *limiter) end(verb func(j *job.Job, c job.Claim) error) func(*rapid.T) {
	return func(r *rapid.T) {
		if len(x.held) == 0 {
			r.Skip("nobody holds a job")
		}
		i := rapid.IntRange(0, len(x.held)-1).Draw(r, "which")
		j := x.held[i]
		if rapid.IntRange(0, 4).Draw(r, "again") > 0 {
			x.held = slices.Delete(x.held, i, i+1)
		}
		if err := verb(j, job.Claim{ID: j.ID, Token: j.Lease.Token}); err != nil && job.KindOf(err) != job.Conflict && job.KindOf(err) != job.Finished {
			r.Fatal(err)
		}
	}
}

func (x *limiter) any(verb func(id job.ID) error) func(*rapid.T) {
	return func(r *rapid.T) {
		all := x.all(r)
		if len(all) == 0 {
			r.Skip("there is no job")
		}
		err := verb(all[rapid.IntRange(0, len(all)-1).Draw(r, "which")].ID)
		if err != nil && job.KindOf(err) != job.Conflict && job.KindOf(err) != job.Finished && job.KindOf(err) != job.NotFound {
			r.Fatal(err)
		}
	}
}

// prefer gives a job another priority.
func (x *limiter) prefer(r *rapid.T) {
	x.any(func(id job.ID) error {
		_, err := x.Reprioritize(context.Background(), id, rapid.SampledFrom([]int{-1, 0, 5, 7}).Draw(r, "priority"))
		return err
	})(r)
	storetest.Audit(r, x.disk)
}

// pass lets time pass; the duties may see to it, or not before the next FETCH.
func (x *limiter) pass(r *rapid.T) {
	x.now = x.now.Add(time.Duration(rapid.IntRange(0, 700).Draw(r, "ms")) * time.Millisecond)
	for range rapid.IntRange(0, 3).Draw(r, "rounds") {
		x.Recover(context.Background())
	}
}

func (x *limiter) override(r *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "d"}).Draw(r, "key")
	if rapid.Bool().Draw(r, "drop") {
		if _, err := x.DropLimitOverride(context.Background(), key); err != nil && job.KindOf(err) != job.NotFound {
			r.Fatal(err)
		}
		delete(x.overrides, key)
		return
	}
	p := job.Pace{Concurrency: rapid.IntRange(1, 4).Draw(r, "concurrency")}
	if key == "d" {
		p.Rate = job.Quota{Limit: 2, Period: 500 * time.Millisecond} // of what was before a rate nobody knows
	}
	if _, err := x.OverrideLimit(context.Background(), key, p); err != nil {
		r.Fatal(err)
	}
	x.overrides[key] = p
}

func (x *limiter) verbs() map[string]func(*rapid.T) {
	ctx := context.Background()
	return map[string]func(*rapid.T){
		"push": x.push, "more": x.push, "fetch": x.fetch, "fetch again": x.fetch, "time": x.pass, "restart": x.restart, "override": x.override,
		"ack": x.end(func(_ *job.Job, c job.Claim) error { _, err := x.Ack(ctx, c, nil); return err }),
		"fail": x.end(func(_ *job.Job, c job.Claim) error {
			_, err := x.Fail(ctx, c, job.Failure{Type: "E", Message: "m"})
			return err
		}),
		"requeue": x.end(func(_ *job.Job, c job.Claim) error {
			_, err := x.Fail(ctx, c, job.Failure{Requeue: true})
			return err
		}),
		"cancel": x.any(func(id job.ID) error { _, err := x.Cancel(ctx, id, "", ""); return err }),
		"prefer": x.prefer,
		"retry":  x.any(func(id job.ID) error { _, err := x.Retry(ctx, id); return err }),
	}
}

// In any sequence of verbs, of time and of restarts each FETCH gets the jobs that the
// words of contract §4.12 let start, in the order of §4.2, and no others.
func TestLimitsByTheirWords(t *testing.T) {
	chooseSequences(t, 200, 12)
	playSequences(t, func(_ *testing.T, r *rapid.T, store *sqlitestore.Store) {
		x := &limiter{disk: store, now: genesis, pace: map[string]job.Pace{}, overrides: map[string]job.Pace{}, starts: map[string][]time.Time{}}
		x.restart(r)
		r.Repeat(x.verbs())
		storetest.Audit(r, store)
	})
}

func limited(limit string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.RateLimit = json.RawMessage(limit) }
}

// limitedStore audits a limit in each transaction, before it is committed.
type limitedStore struct {
	job.Store
	t       storetest.Reporter
	key     string
	most    int
	commits atomic.Int64
}

func (s *limitedStore) Update(ctx context.Context, fn func(job.Tx) error) error {
	return s.Store.Update(ctx, func(tx job.Tx) error {
		err := fn(tx)
		if err == nil {
			storetest.AuditLimit(s.t, tx, s.key, s.most)
			s.commits.Add(1)
		}
		return err
	})
}

// Under sixty-four workers no more than five of a key are ever active in what is stored, and
// all run in the end.
func TestManyWorkersUnderOneLimit(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Open(t.Context(), t.TempDir()+"/o.db", sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	audited := &limitedStore{Store: store, t: t, key: "k", most: 5}
	s := New(audited, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	const n = 300
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), RateLimit: json.RawMessage(`{"key":"k","concurrency":5}`), Priority: i % 3}
	}
	if _, err := s.Enqueue(ctx, es...); err != nil {
		t.Fatal(err)
	}
	var active, most, done atomic.Int64
	for i := range 64 {
		running.Go(func() {
			for done.Load() < n {
				jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{mail}, Count: 1 + i%3, Wait: time.Second})
				if err != nil {
					return // stopped
				}
				for now := active.Add(int64(len(jobs))); now > most.Load(); {
					most.Store(now)
				}
				for _, j := range jobs {
					active.Add(-1)
					if _, err := s.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, nil); err != nil {
						t.Error(err)
					}
					if done.Add(1) == n {
						stop()
					}
				}
			}
		})
	}
	running.Wait()
	if most.Load() > 5 || done.Load() != n {
		t.Errorf("%d ran at once, %d in all", most.Load(), done.Load())
	}
	if t.Logf("%d audits", audited.commits.Load()); audited.commits.Load() < n {
		t.Errorf("%d audits of %d jobs", audited.commits.Load(), n)
	}
	storetest.Audit(t, store)
}

// A key, or a queue, of a hundred a second starts a hundred a second: workers that wait are
// woken when it lets the next one go, and none comes too early.
func TestRateOverHalfAMinute(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct{ job, queue string }{
		"key":   {`{"key":"k","rate":{"limit":100,"period":"second"}}`, `{}`},
		"queue": {"", `{"rate_limit":{"limit":100,"period":"second"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rateOverHalfAMinute(t, json.RawMessage(limit.job), json.RawMessage(limit.queue))
		})
	}
}

func rateOverHalfAMinute(t *testing.T, limit, config json.RawMessage) {
	bubble(t, func(t *testing.T, w *world) {
		if _, err := w.SetQueueConfig(t.Context(), mail, config, false); err != nil {
			t.Fatal(err)
		}
		const n = 3500
		es := make([]job.Envelope, n)
		for i := range es {
			es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}
			if len(limit) > 0 {
				es[i].RateLimit = limit
			}
		}
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var mu sync.Mutex
		var starts []time.Time
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for time.Since(began) < 30*time.Second {
					jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: 20 * time.Second, Count: 3})
					if err != nil {
						t.Error(err)
						return
					}
					for _, j := range jobs {
						mu.Lock()
						starts = append(starts, j.StartedAt)
						mu.Unlock()
						w.ack(j)
					}
				}
			})
		}
		workers.Wait()
		slices.SortFunc(starts, time.Time.Compare)
		for i := 100; i < len(starts); i++ {
			if d := starts[i].Sub(starts[i-100]); d < time.Second {
				t.Fatalf("101 starts within %s", d)
			}
		}
		in := 0
		for _, s := range starts {
			if s.Sub(began) < 30*time.Second {
				in++
			}
		}
		if in < 2900 || in > 3100 {
			t.Errorf("%d starts in 30 s", in)
		}
	})
}

// A FETCH that waits is answered at the very moment when a throttle lets the next job go.
func TestWaitingFetchAndAThrottle(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		for range 4 {
			w.push(limited(`{"max_per_second":2}`))
		}
		began := time.Now()
		for i := range 4 {
			jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: 10 * time.Second})
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			if at, want := time.Since(began), time.Duration(i)*500*time.Millisecond; at < want || at > want+20*time.Millisecond {
				t.Errorf("job %d came after %s, want %s", i, at, want)
			}
		}
	})
}

// A job that ends lets the next of its key go to whoever waits.
func TestWaitingFetchAndTheEndOfAJob(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		for range 3 {
			w.push(limited(`{"key":"k","concurrency":1}`))
		}
		j := w.take("w", time.Hour)
		for range 2 {
			time.AfterFunc(time.Second, func() { w.ack(j) })
			began := time.Now()
			next, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: 10 * time.Second, Visibility: time.Hour})
			if err != nil || len(next) != 1 || time.Since(began) != time.Second {
				t.Fatal(next, err, time.Since(began))
			}
			j = next[0]
		}
	})
}

var limitedAhead = flag.Int("limited", 20_000, "jobs behind a limit that wait ahead of a free one")

// However many wait behind a limit, two jobs are in line: the claim looks at no more.
func TestManyBehindALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	n := *limitedAhead
	if raced {
		n = min(n, 2000)
	}
	es := make([]job.Envelope, 0, 1000)
	for range n / cap(es) {
		for es = es[:0]; len(es) < cap(es); {
			es = append(es, job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Priority: 5, RateLimit: json.RawMessage(`{"key":"k","concurrency":1}`)})
		}
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
	}
	w.take("w", time.Hour)
	free := w.push(nil)
	w.restart()
	began := time.Now()
	if j := w.take("w", time.Hour); j.ID != free.ID {
		t.Errorf("got %s", j.ID)
	}
	t.Logf("claimed in %s past %d, the first after a restart", time.Since(began), n)
	took := make([]time.Duration, 21)
	for i := range took {
		free := w.push(nil)
		began := time.Now()
		if j := w.take("w", time.Hour); j.ID != free.ID {
			t.Errorf("got %s", j.ID)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	t.Logf("then in %s (p50), %s at most", took[len(took)/2], took[len(took)-1])
	info, err := w.Limit(t.Context(), "k")
	if err != nil || info.Waiting != int64(n-1) || info.Active != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	var found []*job.Job
	if err := w.store.Update(t.Context(), func(tx job.Tx) (err error) {
		found, err = tx.Available([]string{mail}, 1000)
		return err
	}); err != nil || len(found) != 0 {
		t.Errorf("%d in line, %v", len(found), err)
	}
}

// Many keys with a job each cost a claim what one does: all are in line.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const keys = 1000
	var want []job.ID
	for i := range keys {
		for range 2 {
			if j := w.push(limited(fmt.Sprintf(`{"key":"k%d","concurrency":1}`, i))); !j.Behind {
				want = append(want, j.ID)
			}
		}
	}
	if len(want) != keys {
		t.Fatalf("%d are in line", len(want))
	}
	for len(want) > 0 {
		got := w.fetch("w", 100, time.Hour)
		for i, j := range got {
			if j.ID != want[i] {
				t.Fatalf("got %s, want %s", j.ID, want[i])
			}
		}
		if want = want[len(got):]; len(got) != 100 {
			t.Fatalf("%d at once", len(got))
		}
	}
}

// What nobody needs any more is forgotten, and what somebody set stays.
func TestLimitsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	for _, key := range []string{"done", "active", "waits", "set"} {
		w.push(limited(`{"key":"` + key + `","concurrency":1}`))
	}
	for _, j := range w.fetch("w", 10, 100*24*time.Hour) {
		if key := j.LimitAsk().Key; key != "active" && key != "waits" {
			w.ack(j)
		}
	}
	w.push(limited(`{"key":"waits","concurrency":1}`))
	if _, err := w.OverrideLimit(t.Context(), "set", job.Pace{Concurrency: 3}); err != nil {
		t.Fatal(err)
	}
	w.pass(3 * 24 * time.Hour)
	if err := w.forgetLimits(t.Context(), w.time()); err != nil {
		t.Fatal(err)
	}
	page, err := w.Limits(t.Context(), job.LimitFilter{})
	keys := []string{}
	for _, l := range page.Limits {
		keys = append(keys, l.Key)
	}
	if err != nil || !slices.Equal(keys, []string{"active", "set", "waits"}) {
		t.Errorf("%v, %v", keys, err)
	}
}

// Jobs without a key that are moved with their queue share the limit of the other one from
// then on: those that wait stand in its lane, and those that run count there.
func TestMovedJobsChangeTheirLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	in := func(queue string, priority int) func(*job.Envelope) {
		return func(e *job.Envelope) {
			limited(`{"max_per_second":1}`)(e)
			e.Queue, e.Priority = queue, priority
		}
	}
	w.push(in("old", 0))
	runs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"old"}, Visibility: time.Hour})
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	w.push(in(mail, 0))
	w.push(in("old", 0))
	urgent := w.push(in("old", 5))
	w.push(func(e *job.Envelope) { in("old", 0)(e); e.Delay = time.Minute })
	if n, err := w.DeleteQueue(t.Context(), "old", job.QueueDeletion{Strategy: job.DeleteMove, Target: mail}); err != nil || n != 4 {
		t.Fatal(n, err)
	}
	storetest.Audit(t, w.store)
	if l, err := w.Limit(t.Context(), "@old"); err != nil || l.Active != 0 || l.Waiting != 0 {
		t.Errorf("left behind: %+v, %v", l, err)
	}
	if l, err := w.Limit(t.Context(), "@mail"); err != nil || l.Active != 1 || l.Waiting != 3 {
		t.Errorf("moved: %+v, %v", l, err)
	}
	if got := w.fetch("w", 9, time.Hour); len(got) != 1 || got[0].ID != urgent.ID {
		t.Errorf("got %v", got)
	}
	w.ack(runs[0])
	for range 2 {
		w.pass(time.Second)
		if got := w.fetch("w", 9, time.Hour); len(got) != 1 {
			t.Errorf("got %v", got)
		}
	}
	w.pass(time.Minute)
	if got := w.fetch("w", 9, time.Hour); len(got) != 1 {
		t.Errorf("put off: %v", got)
	}
	storetest.Audit(t, w.store)
}

// A job whose new priority puts it first takes the place of who was in line, and one that
// falls back gives it up.
func TestOvertakenInALane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	first, second := w.push(limited(`{"key":"k","concurrency":5}`)), w.push(limited(`{"key":"k"}`))
	inLine := func(want job.ID) {
		t.Helper()
		storetest.Audit(t, w.store)
		if err := w.store.Update(t.Context(), func(tx job.Tx) error {
			found, err := tx.Available([]string{mail}, 9)
			if len(found) != 1 || found[0].ID != want {
				t.Errorf("in line are %v, want %s alone", found, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	inLine(first.ID)
	for _, step := range []struct {
		of       job.ID
		priority int
		want     job.ID
	}{{second.ID, 5, second.ID}, {second.ID, 7, second.ID}, {second.ID, -1, first.ID}, {first.ID, -2, second.ID}, {second.ID, -2, first.ID}} {
		if _, err := w.Reprioritize(t.Context(), step.of, step.priority); err != nil {
			t.Fatal(err)
		}
		inLine(step.want)
	}
}

// An audit that finds nothing proves nothing unless it finds this.
func TestTheAuditOfALimitHasTeeth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	for range 3 {
		w.push(limited(`{"key":"k","concurrency":2}`))
		w.push(limited(`{"key":"other","concurrency":1}`))
	}
	if n := len(w.fetch("w", 9, time.Hour)); n != 3 {
		t.Fatalf("%d are active", n)
	}
	if err := w.store.View(t.Context(), func(tx job.ReadTx) error {
		for most := range 3 {
			heard := &hearing{}
			if storetest.AuditLimit(heard, tx, "k", most); (heard.n > 0) != (most < 2) {
				t.Errorf("%d reports where %d may be active", heard.n, most)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// hearing counts what an audit reports.
type hearing struct{ n int }

func (h *hearing) Helper()               {}
func (h *hearing) Errorf(string, ...any) { h.n++ }
