package servicetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var fetching = []verdict{
	{"a fetch starts an attempt and makes a lease", fetchLease},
	{"a queue is first in, first out, higher priority first", fetchOrder},
	{"queues are taken in the order asked", fetchQueues},
	{"a fetch gives as many as asked, and at most 100", fetchCount},
	{"a fetch without queues is Invalid", fetchNoQueues},
	{"fifty fetchers share two hundred jobs without taking one twice", fetchExclusive},
	{"the reservation is as long as request, job or server say", fetchVisibility},
}

func fetchLease(k *kit) {
	pushed := k.push(nil)
	before := time.Now().Add(-time.Second)
	j := k.one(job.FetchRequest{Worker: "w1", Visibility: time.Minute})
	if j.ID != pushed.ID || j.State != job.Active || j.Attempt != 1 || j.Lease.Token == "" || j.Lease.Worker != "w1" || j.StartedAt.Before(before) {
		k.t.Errorf("fetched %s with %+v", text(j), j.Lease)
	}
	if got := j.Lease.Until.Sub(j.StartedAt); got != time.Minute {
		k.t.Errorf("reserved for %s", got)
	}
	k.shows(k.read(j.ID), "worker_id", `"w1"`)
	k.shows(k.read(j.ID), "lease_token", "")
	k.none()
	k.fail(j, job.Failure{Requeue: true})
	second := k.take()
	if second.Lease.Token == j.Lease.Token || second.Lease.Token == "" {
		k.t.Errorf("the second lease has the token %q, the first %q", second.Lease.Token, j.Lease.Token)
	}
}

func fetchOrder(k *kit) {
	for _, p := range []struct {
		name     string
		priority int
	}{{"low", -100}, {"mid.one", 0}, {"high", 100}, {"mid.two", 0}, {"one", 1}} {
		k.push(func(e *job.Envelope) { e.Type, e.Priority = p.name, p.priority })
	}
	k.order(k.fetch(job.FetchRequest{Count: 2}), "high", "one")
	k.order(k.fetch(job.FetchRequest{Count: 9}), "mid.one", "mid.two", "low")
	for i := range 5 { // ids that run backwards must not decide
		id := fmt.Sprintf("0197f6a0-0000-7000-8000-%012d", 9-i)
		k.push(func(e *job.Envelope) { e.Type, e.ID = fmt.Sprint("n", i), job.ID(id) })
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "n0", "n1", "n2", "n3", "n4")
}

func fetchQueues(k *kit) {
	in := func(q, name string, priority int) {
		k.push(func(e *job.Envelope) { e.Queue, e.Type, e.Priority = q, name, priority })
	}
	in("b", "b1", 100)
	in("a", "a1", 0)
	in("a", "a2", 0)
	in("c", "c1", 0)
	got := k.fetch(job.FetchRequest{Queues: []string{"a", "never", "a", "b"}, Count: 9})
	k.order(got, "a1", "a2", "b1")
	k.order(k.fetch(job.FetchRequest{Queues: []string{"c", "c"}, Count: 9}), "c1")
}

func fetchCount(k *kit) {
	var es []job.Envelope
	for range 120 {
		es = append(es, envelope(nil))
	}
	if _, err := k.s.Enqueue(k.ctx(), es...); err != nil {
		k.t.Fatal(err)
	}
	for _, tt := range []struct{ ask, want int }{{0, 1}, {3, 3}, {100, 100}, {100, 16}} {
		if got := len(k.fetch(job.FetchRequest{Count: tt.ask})); got != tt.want {
			k.t.Errorf("asked for %d, got %d, want %d", tt.ask, got, tt.want)
		}
	}
}

func fetchNoQueues(k *kit) {
	for name, queues := range map[string][]string{"none": {}, "an empty name": {""}, "an empty name behind": {queue, ""}} {
		_, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: queues})
		if e := k.is(name, err, job.Invalid); e.Details["field"] != "queues" {
			k.t.Errorf("%s: details %v", name, e.Details)
		}
	}
}

func fetchExclusive(k *kit) {
	const jobs, fetchers = 200, 50
	var es []job.Envelope
	for range jobs {
		es = append(es, envelope(nil))
	}
	if _, err := k.s.Enqueue(k.ctx(), es...); err != nil {
		k.t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	holder := map[job.ID]string{}
	for f := range fetchers {
		wg.Go(func() {
			for {
				got, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Count: 1 + f%4, Worker: fmt.Sprint("w", f)})
				if err != nil || len(got) == 0 {
					if err != nil {
						k.t.Error(err)
					}
					return
				}
				mu.Lock()
				for _, j := range got {
					if holder[j.ID] != "" || j.Attempt != 1 {
						k.t.Errorf("%s goes to w%d in attempt %d, and %s holds it", j.ID, f, j.Attempt, holder[j.ID])
					}
					holder[j.ID] = j.Lease.Worker
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(holder) != jobs {
		k.t.Errorf("%d jobs were handed out, want %d", len(holder), jobs)
	}
}

func fetchVisibility(k *kit) {
	length := func(own, asked time.Duration) time.Duration {
		k.push(func(e *job.Envelope) { e.Visibility = own })
		j := k.one(job.FetchRequest{Visibility: asked})
		return j.Lease.Until.Sub(j.StartedAt)
	}
	for _, tt := range []struct{ own, asked, want time.Duration }{
		{0, 0, 30 * time.Minute}, {time.Minute, 0, time.Minute}, {time.Minute, time.Hour, time.Hour}, {0, time.Second, time.Second},
	} {
		if got := length(tt.own, tt.asked); got != tt.want {
			k.t.Errorf("job %s, request %s: reserved for %s, want %s", tt.own, tt.asked, got, tt.want)
		}
	}
}
