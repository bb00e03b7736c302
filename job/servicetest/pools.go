package servicetest

import (
	"maps"
	"reflect"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// pooling is contract §4.22 and the pools of §3.23.
var pooling = []verdict{
	{"a pool is stored, listed, replaced and removed", poolKept},
	{"the queues of a pool take turns by their weights", poolShares},
	{"without a pool, or without all of its queues, they come in the order of the FETCH", poolOrder},
	{"a pool bounds the active jobs of its queues", poolBound},
	{"a pool that is none is refused, and its member is named", poolRefused},
	{"what was started of each queue is counted", poolCounted},
}

func (k *kit) pool(p job.Pool) (fresh bool) {
	k.t.Helper()
	fresh, err := k.s.PutPool(k.ctx(), p)
	if err != nil {
		k.t.Fatal(err)
	}
	return fresh
}

// fill pushes n jobs to each of some queues.
func (k *kit) fill(n int, queues ...string) {
	k.t.Helper()
	for _, q := range queues {
		for range n {
			k.push(func(e *job.Envelope) { e.Queue = q })
		}
	}
}

// from counts the jobs that some FETCHes get, by their queue.
func (k *kit) from(times int, f job.FetchRequest) map[string]int {
	k.t.Helper()
	got := map[string]int{}
	for range times {
		jobs, err := k.s.Fetch(k.ctx(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, j := range jobs {
			got[j.Queue]++
		}
	}
	return got
}

func (k *kit) counted(what string, got, want map[string]int) {
	k.t.Helper()
	if !maps.Equal(got, want) {
		k.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func poolKept(k *kit) {
	one := job.Pool{Name: "p", Strategy: "weighted_fair", Queues: []job.PoolQueue{{Name: "b", Weight: 0.5}, {Name: "a", Weight: 3}}}
	two := job.Pool{Name: "A.1", Strategy: job.PoolStrict, Concurrency: 2}
	if !k.pool(one) || !k.pool(two) {
		k.t.Error("a new pool is said to be an old one")
	}
	one.Queues = append(one.Queues, job.PoolQueue{Name: "c", Weight: 1})
	if k.pool(one) {
		k.t.Error("a pool that was there is said to be new")
	}
	_, err := k.s.PutPool(k.ctx(), job.Pool{Name: "other", Strategy: job.PoolWeighted, Queues: []job.PoolQueue{{Name: "c", Weight: 1}}})
	k.is("a queue of another pool", err, job.Conflict)
	all, err := k.s.Pools(k.ctx())
	if err != nil || !reflect.DeepEqual(all, []job.Pool{two, one}) {
		k.t.Fatalf("%+v, %v", all, err)
	}
	if err := k.s.DeletePool(k.ctx(), "p"); err != nil {
		k.t.Error(err)
	}
	k.is("to remove it twice", k.s.DeletePool(k.ctx(), "p"), job.NotFound)
	if all, err = k.s.Pools(k.ctx()); err != nil || !reflect.DeepEqual(all, []job.Pool{two}) {
		k.t.Errorf("%+v, %v", all, err)
	}
}

func poolShares(k *kit) {
	k.fill(20, "low", "high")
	k.fill(1, "high.urgent")
	k.pool(job.Pool{Name: "p", Strategy: job.PoolWeighted, Queues: []job.PoolQueue{{Name: "low", Weight: 1}, {Name: "high", Weight: 3}}})
	both := job.FetchRequest{Queues: []string{"low", "high"}}
	k.counted("one by one", k.from(8, both), map[string]int{"low": 2, "high": 6})
	both.Count = 8
	k.counted("eight at once", k.from(1, both), map[string]int{"low": 2, "high": 6})
	both.Queues = []string{"high.urgent", "low", "high"}
	k.counted("beside another queue", k.from(1, both), map[string]int{"high.urgent": 1, "low": 2, "high": 5})
	k.pool(job.Pool{Name: "p", Strategy: job.PoolRoundRobin, Queues: []job.PoolQueue{{Name: "low", Weight: 1}, {Name: "high", Weight: 3}}})
	both.Count = 6
	k.counted("in turn", k.from(1, both), map[string]int{"low": 3, "high": 3})
	both.Count = 100
	k.counted("all", k.from(1, both), map[string]int{"low": 11})
}

func poolOrder(k *kit) {
	k.fill(6, "a", "b", "c")
	three := job.FetchRequest{Queues: []string{"b", "a"}, Count: 3}
	k.counted("without a pool", k.from(1, three), map[string]int{"b": 3})
	queues := []job.PoolQueue{{Name: "a", Weight: 9}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}}
	k.pool(job.Pool{Name: "p", Strategy: job.PoolWeighted, Queues: queues})
	k.counted("some of the queues of a pool", k.from(1, three), map[string]int{"b": 3})
	k.pool(job.Pool{Name: "p", Strategy: job.PoolStrict, Queues: queues})
	three.Queues = []string{"c", "a", "b"}
	k.counted("a strict pool", k.from(2, three), map[string]int{"c": 6})
}

func poolBound(k *kit) {
	k.fill(3, "a", "b")
	k.pool(job.Pool{Name: "p", Strategy: job.PoolWeighted, Concurrency: 4, Queues: []job.PoolQueue{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}})
	k.counted("one of its queues", k.from(1, job.FetchRequest{Queues: []string{"a"}, Count: 3}), map[string]int{"a": 3})
	jobs, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{"b"}, Count: 3})
	if err != nil || len(jobs) != 1 {
		k.t.Fatalf("of the other: %d jobs, %v", len(jobs), err)
	}
	k.counted("when it is full", k.from(1, job.FetchRequest{Queues: []string{"b", "a"}, Count: 3}), map[string]int{})
	got := make(chan int)
	go func() {
		more, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{"b"}, Count: 3, Wait: patience})
		if err != nil {
			k.t.Error(err)
		}
		got <- len(more)
	}()
	k.pause(blink)
	k.ack(jobs[0], "null")
	if n := <-got; n != 1 {
		k.t.Errorf("once one has ended: %d jobs", n)
	}
	if err := k.s.DeletePool(k.ctx(), "p"); err != nil {
		k.t.Error(err)
	}
	k.counted("without the pool", k.from(1, job.FetchRequest{Queues: []string{"b"}, Count: 3}), map[string]int{"b": 1})
}

func poolRefused(k *kit) {
	a := job.PoolQueue{Name: "a", Weight: 1}
	for field, p := range map[string]job.Pool{
		"name":             {Name: "-", Strategy: "weighted"},
		"strategy":         {Name: "p"},
		"concurrency":      {Name: "p", Strategy: "weighted", Concurrency: -1},
		"queues[1].name":   {Name: "p", Strategy: "weighted", Queues: []job.PoolQueue{a, a}},
		"queues[0].name":   {Name: "p", Strategy: "weighted", Queues: []job.PoolQueue{{Name: "A", Weight: 1}}},
		"queues[0].weight": {Name: "p", Strategy: "weighted", Queues: []job.PoolQueue{{Name: "a"}}},
		"queues[1].weight": {Name: "p", Strategy: "weighted", Queues: []job.PoolQueue{a, {Name: "b", Weight: 2e6}}},
	} {
		_, err := k.s.PutPool(k.ctx(), p)
		k.is(field, err, job.Invalid)
		if err == nil || !strings.Contains(err.Error(), field) {
			k.t.Errorf("%v does not name %s", err, field)
		}
	}
	if all, err := k.s.Pools(k.ctx()); err != nil || len(all) != 0 {
		k.t.Errorf("%v, %v", all, err)
	}
}

func poolCounted(k *kit) {
	k.fill(3, "a")
	k.fill(2, "b")
	k.pool(job.Pool{Name: "p", Strategy: job.PoolWeighted, Queues: []job.PoolQueue{{Name: "b", Weight: 2.5}}})
	k.from(1, job.FetchRequest{Queues: []string{"a"}, Count: 2})
	r, err := k.s.Dispatch(k.ctx())
	if err != nil || len(r.Pools) != 1 {
		k.t.Fatalf("%+v, %v", r, err)
	}
	got := map[string]job.Dispatched{}
	for _, d := range r.Queues {
		got[d.Queue] = d
	}
	for _, want := range []job.Dispatched{
		{Queue: "a", Started: 2, Minute: 2, Waiting: 1},
		{Queue: "b", Pool: "p", Weight: 2.5, Waiting: 2},
	} {
		if got[want.Queue] != want {
			k.t.Errorf("got %+v, want %+v", got[want.Queue], want)
		}
	}
	if n := got["a"].Starved(); n != 0 {
		t := got["a"]
		k.t.Errorf("%+v starves %d", t, n)
	}
	if n := got["b"].Starved(); n != 2 {
		k.t.Errorf("%+v starves %d", got["b"], n)
	}
}
