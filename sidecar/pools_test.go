package sidecar

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

var poolQueues = []string{"a", "b", "c", "d", "e"}

// pooler is what contract §4.22 says of FETCHes: what waits in each queue, in its order, and
// what each queue of a pool was given since all of that pool had a share in each FETCH.
type pooler struct {
	s       *Sidecar
	pools   []job.Pool
	waiting map[string][]*job.Job
	active  []*job.Job
	shares  map[string]map[string]float64 // by pool and queue: starts by weight, since both waited
}

func (x *pooler) of(queue string) *job.Pool {
	for i := range x.pools {
		if x.pools[i].In(queue) {
			return &x.pools[i]
		}
	}
	return nil
}

func (x *pooler) room(p *job.Pool) int {
	if p.Concurrency == 0 {
		return math.MaxInt
	}
	n := p.Concurrency
	for _, j := range x.active {
		if p.In(j.Queue) {
			n--
		}
	}
	return max(0, n)
}

func (x *pooler) put(r *rapid.T) {
	p := job.Pool{Name: rapid.SampledFrom([]string{"p", "q"}).Draw(r, "name"),
		Strategy:    rapid.SampledFrom([]string{job.PoolWeighted, job.PoolWeighted, job.PoolRoundRobin, job.PoolStrict, "fair"}).Draw(r, "strategy"),
		Concurrency: rapid.SampledFrom([]int{0, 0, 1, 3, 20}).Draw(r, "concurrency")}
	for _, q := range poolQueues {
		if rapid.Bool().Draw(r, q) {
			p.Queues = append(p.Queues, job.PoolQueue{Name: q, Weight: rapid.SampledFrom([]float64{1, 2, 3, 0.5, 7}).Draw(r, "weight")})
		}
	}
	taken := false
	for _, o := range x.pools {
		taken = taken || o.Name != p.Name && slices.ContainsFunc(p.Queues, func(q job.PoolQueue) bool { return o.In(q.Name) })
	}
	before := len(x.pools)
	fresh, err := x.s.PutPool(context.Background(), p)
	if taken != (err != nil && job.KindOf(err) == job.Conflict) {
		r.Fatalf("%+v beside %+v: %v", p, x.pools, err)
	}
	if err != nil {
		return
	}
	x.pools = append(slices.DeleteFunc(x.pools, func(o job.Pool) bool { return o.Name == p.Name }), p)
	if delete(x.shares, p.Name); fresh != (len(x.pools) > before) {
		r.Fatalf("%s: fresh is %t", p.Name, fresh)
	}
}

func (x *pooler) remove(r *rapid.T) {
	name := rapid.SampledFrom([]string{"p", "q"}).Draw(r, "name")
	known := slices.ContainsFunc(x.pools, func(p job.Pool) bool { return p.Name == name })
	if err := x.s.DeletePool(context.Background(), name); known != (err == nil) || err != nil && job.KindOf(err) != job.NotFound {
		r.Fatal(err)
	}
	x.pools = slices.DeleteFunc(x.pools, func(p job.Pool) bool { return p.Name == name })
	delete(x.shares, name)
}

func (x *pooler) push(r *rapid.T) {
	q := rapid.SampledFrom(poolQueues).Draw(r, "queue")
	es := make([]job.Envelope, rapid.SampledFrom([]int{1, 3, 30}).Draw(r, "jobs"))
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: q, Args: json.RawMessage(`[]`), Priority: rapid.IntRange(0, 2).Draw(r, "priority")}
	}
	rs, err := x.s.Enqueue(context.Background(), es...)
	if err != nil {
		r.Fatal(err)
	}
	for _, t := range rs {
		x.waiting[q] = append(x.waiting[q], t.Job)
	}
	slices.SortStableFunc(x.waiting[q], func(a, b *job.Job) int { return cmp.Compare(b.Priority, a.Priority) })
}

func (x *pooler) end(r *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(r, "ends") {
		if len(x.active) == 0 {
			return
		}
		i := rapid.IntRange(0, len(x.active)-1).Draw(r, "which")
		j := x.active[i]
		c := job.Claim{ID: j.ID, Token: j.Lease.Token}
		var err error
		if back := rapid.Bool().Draw(r, "back"); back {
			j, err = x.s.Fail(context.Background(), c, job.Failure{Requeue: true})
			if err == nil && j.State == job.Available {
				x.waiting[j.Queue] = append(x.waiting[j.Queue], j)
				slices.SortFunc(x.waiting[j.Queue], func(a, b *job.Job) int {
					return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
				})
			}
		} else {
			_, err = x.s.Ack(context.Background(), c, nil)
		}
		if err != nil {
			r.Fatal(err)
		}
		x.active = slices.Delete(x.active, i, i+1)
	}
}

func (x *pooler) fetch(r *rapid.T) {
	queues := rapid.SliceOfN(rapid.SampledFrom(poolQueues), 1, 7).Draw(r, "queues")
	if rapid.Bool().Draw(r, "all") {
		queues = rapid.Permutation(poolQueues).Draw(r, "order")
	}
	f := job.FetchRequest{Queues: queues, Count: rapid.SampledFrom([]int{1, 1, 2, 5, 40}).Draw(r, "count")}
	got, err := x.s.Fetch(context.Background(), f)
	if err != nil {
		r.Fatal(err)
	}
	all, taken := got, 0
	for i, q := range queues {
		p := x.of(q)
		shared := p != nil && p.Shares() && p.Within(queues)
		if slices.Contains(queues[:i], q) || shared && slices.ContainsFunc(queues[:i], p.In) {
			continue
		}
		named, room := []string{q}, math.MaxInt
		if p != nil {
			room = x.room(p)
			for _, j := range all[:taken] {
				if p.In(j.Queue) {
					room--
				}
			}
		}
		if shared {
			named = nil
			for _, q := range p.Queues {
				named = append(named, q.Name)
			}
		}
		could := 0
		for _, q := range named {
			could += len(x.waiting[q])
		}
		n := max(0, min(f.Count-taken, room, could))
		if len(all)-taken < n {
			r.Fatalf("%v of %v: %d more, want %d of %v", f.Count, queues, len(all)-taken, n, named)
		}
		x.took(r, p, shared, named, all[taken:taken+n])
		taken += n
	}
	if len(all) > taken {
		r.Fatalf("%d jobs more than may start", len(all)-taken)
	}
	x.active = append(x.active, all...)
}

// took compares the jobs of a queue, or of a pool, with those that waited.
func (x *pooler) took(r *rapid.T, p *job.Pool, shared bool, named []string, mine []*job.Job) {
	for _, j := range mine {
		from := j.Queue
		if !shared {
			from = named[0]
		}
		if j.Queue != from || len(x.waiting[from]) == 0 || x.waiting[from][0].ID != j.ID {
			r.Fatalf("%s of %s came before its time", j.ID, j.Queue)
		}
		x.waiting[from] = x.waiting[from][1:]
	}
	if !shared {
		if p != nil && len(mine) > 0 {
			delete(x.shares, p.Name)
		}
		return
	}
	if x.shares == nil {
		x.shares = map[string]map[string]float64{}
	}
	if x.shares[p.Name] == nil {
		x.shares[p.Name] = map[string]float64{}
	}
	had := x.shares[p.Name]
	for _, j := range mine {
		i := slices.IndexFunc(p.Queues, func(q job.PoolQueue) bool { return q.Name == j.Queue })
		had[j.Queue] += 1 / p.Weight(i)
	}
	for _, q := range p.Queues {
		if len(x.waiting[q.Name]) == 0 {
			delete(x.shares, p.Name) // from here on anew
			return
		}
	}
	for i, a := range p.Queues {
		for k, b := range p.Queues[:i] {
			if d := math.Abs(had[a.Name] - had[b.Name]); d > 1/p.Weight(i)+1/p.Weight(k)+1e-9 {
				r.Fatalf("%s got %v and %s %v, by their weights", a.Name, had[a.Name], b.Name, had[b.Name])
			}
		}
	}
}

// In any sequence of verbs, of pools and of restarts a FETCH gets all that may start, of each
// queue in its order; and of the queues of a pool, as long as all wait, none gets ahead of
// another by more than one job of each.
func TestPoolsByTheirWords(t *testing.T) {
	chooseSequences(t, 300, 20)
	playSequences(t, func(t *testing.T, r *rapid.T, store *sqlitestore.Store) {
		x := &pooler{s: New(store, Options{}), waiting: map[string][]*job.Job{}}
		again := func(*rapid.T) {
			x.s, x.shares = New(store, Options{}), nil
		}
		r.Repeat(map[string]func(*rapid.T){"put": x.put, "remove": x.remove, "push": x.push, "push more": x.push, "end": x.end,
			"fetch": x.fetch, "fetch more": x.fetch, "fetch again": x.fetch, "restart": again})
		storetest.Audit(r, store)
	})
}

// The shares of queues that always wait come to their weights, one by one and many at once.
func TestSharesComeToTheirWeights(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 7, 100} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Retention{})
			weights := map[string]float64{"a": 1, "b": 2.5, "c": 6.5}
			p := job.Pool{Name: "p", Strategy: job.PoolWeighted}
			for _, q := range []string{"c", "a", "b"} {
				p.Queues = append(p.Queues, job.PoolQueue{Name: q, Weight: weights[q]})
				es := make([]job.Envelope, 700)
				for i := range es {
					es[i] = job.Envelope{Type: "a.b", Queue: q, Args: json.RawMessage(`[]`)}
				}
				if _, err := w.Enqueue(t.Context(), es...); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.PutPool(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			got, n := map[string]float64{}, 0
			for n < 700 {
				jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"a", "b", "c"}, Count: count})
				if err != nil || len(jobs) != count {
					t.Fatalf("%d jobs, %v", len(jobs), err)
				}
				for _, j := range jobs {
					got[j.Queue]++
				}
				n += len(jobs)
			}
			for q, weight := range weights {
				if want := float64(n) * weight / 10; math.Abs(got[q]-want) > 1.5 {
					t.Errorf("of %s %v jobs, want about %v", q, got[q], want)
				}
			}
		})
	}
}

// A queue that had nothing while others started jobs gets its part from now on, and none of
// what it has missed.
func TestAnEmptyQueueSavesNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, err := w.PutPool(t.Context(), job.Pool{Name: "p", Strategy: job.PoolRoundRobin, Queues: []job.PoolQueue{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}}); err != nil {
		t.Fatal(err)
	}
	got := func(count int) map[string]int {
		jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"a", "b"}, Count: count})
		if err != nil || len(jobs) != count {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		of := map[string]int{}
		for _, j := range jobs {
			of[j.Queue]++
		}
		return of
	}
	for range 40 {
		w.push(func(e *job.Envelope) { e.Queue = "b" })
	}
	if of := got(20); of["b"] != 20 {
		t.Fatal(of)
	}
	for range 20 {
		w.push(func(e *job.Envelope) { e.Queue = "a" })
	}
	if of := got(10); of["a"] < 5 || of["a"] > 6 {
		t.Errorf("once both have jobs: %v, want one of each in turn", of)
	}
}
