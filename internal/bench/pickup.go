package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	waitMS     = 10_000                // how long a FETCH of the pickup workloads waits
	settle     = 20 * time.Millisecond // until the server surely has the FETCH; up to twice as long, so that nothing keeps step with it
	maxPickups = 2_000
)

// pickup is the time from a PUSH that is sent to the answer of a FETCH that waits for it.
func (b *bench) pickup(ctx context.Context) ([]Result, error) {
	cs, hangUp, err := b.dial(ctx, 2)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	body := b.jobJSON("bench-pickup")
	r, err := b.wakeUps(ctx, "pickup", "PUSH to FETCH answered", cs[0], "bench-pickup", func() (time.Time, error) {
		sent := time.Now()
		_, err := cs[1].post(pathPush, body)
		return sent, err
	})
	return []Result{r}, err
}

// arrival is when a waiting FETCH was answered.
type arrival struct {
	at  time.Time
	err error
}

// wakeUps has worker wait for a job again and again; cause makes one and says when.
func (b *bench) wakeUps(ctx context.Context, name, what string, worker *caller, queue string, cause func() (time.Time, error)) (Result, error) {
	limit := maxPickups
	if b.cfg.Jobs > 0 {
		limit = min(limit, b.cfg.Jobs)
	}
	fetch := fetchJSON(queue, 1, waitMS)
	s, err := b.span(name)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	for worker.jobs < limit && time.Since(began) < b.cfg.Duration {
		arrived := make(chan arrival, 1)
		go func() { arrived <- worker.await(fetch) }() // ends when the connection is hung up, at the latest
		select {
		case <-time.After(settle + rand.N(settle)):
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
		caused, err := cause()
		if err != nil {
			return Result{}, err
		}
		a := <-arrived
		if a.err == nil {
			a.err = worker.ackLast()
		}
		if a.err != nil {
			return Result{}, a.err
		}
		worker.samples = append(worker.samples, a.at.Sub(caused))
		worker.jobs++
	}
	r := sum(name, what, []*caller{worker}, time.Since(began))
	r.PerSecond = 0 // paced, so a rate would say nothing
	return r, s.end(&r)
}

func (c *caller) await(fetch []byte) arrival {
	n, err := c.claim(fetch)
	at := time.Now()
	if err == nil && n == 0 {
		err = errors.New("no job came to a waiting worker")
	}
	return arrival{at, err}
}
