package servicetest

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/outrider-jobs/outrider/job"
)

var batching = []verdict{
	{"a batch is answered in its order and keeps it in the queue", batchOrder},
	{"a batch is stored whole or not at all", batchAllOrNothing},
	{"an id twice in one batch counts once", batchTwins},
	{"a batch over 10,000 is refused whole", batchTooLong},
	{"one id pushed by many at once is stored once", sameIDAtOnce},
}

// batch is one envelope for each name.
func batch(names ...string) (es []job.Envelope) {
	for _, n := range names {
		es = append(es, envelope(func(e *job.Envelope) { e.Type = n }))
	}
	return es
}

func batchOrder(k *kit) {
	rs, err := k.s.Enqueue(k.ctx(), batch("c", "a", "b")...)
	if err != nil || len(rs) != 3 {
		k.t.Fatalf("%d receipts, %v", len(rs), err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "c", "a", "b")
	for i, want := range []string{"c", "a", "b"} {
		if rs[i].Type != want || k.read(rs[i].ID).Type != want {
			k.t.Errorf("receipt %d is of %s, want %s", i, rs[i].Type, want)
		}
	}
}

// order compares the names of jobs.
func (k *kit) order(jobs []*job.Job, want ...string) {
	k.t.Helper()
	var got []string
	for _, j := range jobs {
		got = append(got, j.Type)
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("got %q, want %q", got, want)
	}
}

func batchAllOrNothing(k *kit) {
	for name, tt := range map[string]struct {
		spoil func(*job.Envelope)
		kind  job.Kind
	}{
		"bad type":  {func(e *job.Envelope) { e.Type = "No" }, job.Invalid},
		"bad args":  {func(e *job.Envelope) { e.Args = json.RawMessage(`1`) }, job.Invalid},
		"bad retry": {func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":-1}`) }, job.BadRetry},
	} {
		es := batch("a", "b", "c", "d")
		tt.spoil(&es[2])
		_, err := k.s.Enqueue(k.ctx(), es...)
		if e := k.is(name, err, tt.kind); e.Details["index"] != 2 {
			k.t.Errorf("%s: details %v, want index 2", name, e.Details)
		}
	}
	k.empty()
	stored := k.named("a.stored")
	es := batch("a", "b", "c", "d")
	es[3].ID = stored.ID
	_, err := k.s.Enqueue(k.ctx(), es...)
	if e := k.is("taken id", err, job.Duplicate); e.Details["index"] != 3 || e.Details["existing_job_id"] != string(stored.ID) {
		k.t.Errorf("taken id: details %v, want index 3", e.Details)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "a.stored")
}

func batchTwins(k *kit) {
	stored := k.named("a")
	es := batch("b", "a", "c", "c")
	es[1].ID = stored.ID
	es[2].ID = newID()
	es[3].ID = es[2].ID
	rs, err := k.s.Enqueue(k.ctx(), es...)
	if err != nil || len(rs) != 4 {
		k.t.Fatalf("%d receipts, %v", len(rs), err)
	}
	for i, want := range []bool{false, true, false, true} {
		if rs[i].Existing != want || rs[i].Type != es[i].Type || es[i].ID != "" && rs[i].ID != es[i].ID {
			k.t.Errorf("receipt %d: existing %v, %s %s", i, rs[i].Existing, rs[i].Type, rs[i].ID)
		}
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "a", "b", "c")
	other := batch("d", "e")
	other[0].ID = newID()
	other[1].ID = other[0].ID
	_, err = k.s.Enqueue(k.ctx(), other...)
	if e := k.is("one id, two contents", err, job.Duplicate); e.Details["index"] != 1 {
		k.t.Errorf("details %v, want index 1", e.Details)
	}
	k.none()
}

func batchTooLong(k *kit) {
	es := slices.Repeat([]job.Envelope{envelope(nil)}, job.MaxBatch+1)
	_, err := k.s.Enqueue(k.ctx(), es...)
	if e := k.is("10,001 jobs", err, job.TooLarge); e.Details["max_batch_size"] != job.MaxBatch {
		k.t.Errorf("details %v, want the limit", e.Details)
	}
	k.empty()
}

func sameIDAtOnce(k *kit) {
	const callers = 20
	var mu sync.Mutex
	var wg sync.WaitGroup
	fresh, id := 0, newID()
	for range callers {
		wg.Go(func() {
			rs, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.ID = id }))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || rs[0].ID != id {
				k.t.Errorf("%+v, %v", rs, err)
			} else if !rs[0].Existing {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh > 1 {
		k.t.Errorf("%d callers were told that they stored the job", fresh)
	}
	if got := k.fetch(job.FetchRequest{Count: 100}); len(got) != 1 {
		k.t.Errorf("the job is there %d times", len(got))
	}
}
