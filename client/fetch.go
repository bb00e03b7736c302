package client

import (
	"context"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// fetchAll fetches as many jobs as there are free slots, and starts an attempt
// for each, until ctx ends or the server refuses.
func (r *run) fetchAll(ctx context.Context) {
	defer r.leave()
	var backoff pauses
	for {
		n, acks := r.takeSlots(ctx)
		if n+len(acks) == 0 {
			return
		}
		hasty, err := r.fetch(ctx, n, acks)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && permanent(err):
			r.refused <- err
			return
		case err != nil:
			if backoff.n == 0 {
				r.log.Warn("fetch failed, will try again", "error", err)
			}
			if !r.pause(ctx, backoff.next()) {
				return
			}
			continue
		case hasty:
			if !r.pause(ctx, pollTime) {
				return
			}
		}
		if backoff.n > 0 {
			r.log.Info("fetching again")
			backoff = pauses{}
		}
	}
}

// pause is sleep for the fetcher, whose ACKs do not wait for it.
func (r *run) pause(ctx context.Context, d time.Duration) bool {
	r.leave()
	return sleep(ctx, d)
}

// fetch asks for jobs, for n slots that are free and those of the ACKs that it sends with
// it. Without ACKs it waits for a job; hasty means that there was none and that the server
// did not wait. When ctx ends fetch returns, and what came too late is given back.
func (r *run) fetch(ctx context.Context, n int, acks []*ack) (hasty bool, err error) {
	if len(acks) > 0 {
		answer := make(chan error, 1)
		go func() { answer <- r.next(ctx, acks, n) }()
		select {
		case err = <-answer:
		case <-ctx.Done():
		}
		return false, err
	}
	r.leave()
	began := time.Now()
	jobs, err := r.svc.Fetch(ctx, r.request(n, r.o.Wait))
	again := r.take(ctx, jobs, n)
	return err == nil && (again || len(jobs) == 0 && time.Since(began) < r.o.Wait/2), err
}

func (r *run) request(n int, wait time.Duration) job.FetchRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return job.FetchRequest{Queues: r.o.Queues, Count: min(n, maxFetch), Worker: r.o.ID, Visibility: r.o.Visibility, Wait: wait, Versions: r.versions}
}

// permanent reports whether a fetch would be refused for ever: what it asks is
// wrong, or asked of the wrong server.
func permanent(err error) bool {
	switch job.KindOf(err) {
	case job.Malformed, job.Invalid, job.NotFound, job.NotAllowed, job.Unauthenticated, job.Forbidden, job.Unsupported:
		return true
	}
	return false
}

// take starts the jobs that came for n slots, and frees the slots that are
// left. What came too late, or unasked, or has no handler, is given back. again means
// that some job came although its type is fetched no more: the server does not heed that.
func (r *run) take(ctx context.Context, jobs []*job.Job, n int) (again bool) {
	if ctx.Err() != nil {
		r.giveBack(jobs)
		r.release(n)
		return false
	}
	var back []*job.Job
	for i, j := range jobs {
		switch {
		case r.rest != nil && r.handler(j.Type) == nil:
			again = !r.shun(j.Type, jobs[:i]) || again
			back = append(back, j)
		case n == 0:
			back = append(back, j)
		default:
			r.begin(j)
			n--
		}
	}
	r.giveBack(back) // before the next fetch, which does not ask for them
	r.release(n)
	return again
}

// shun fetches no jobs of a type any more. It reports false where that was so already, and
// none of those who came together with the job had it.
func (r *run) shun(jobType string, together []*job.Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shunned[jobType] && !slices.ContainsFunc(together, func(j *job.Job) bool { return j.Type == jobType }) {
		return false
	}
	r.shunned[jobType] = true
	r.versions = r.versions.Without(jobType)
	return true
}

// begin starts an attempt. One of the same job that is still under way here has
// lost its reservation, as there is a new one.
func (r *run) begin(j *job.Job) {
	for _, a := range r.running() {
		if a.job.ID == j.ID {
			r.end(a, ErrLeaseLost)
		}
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	a := &attempt{job: j, cancel: cancel, claim: job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: r.o.ID}}
	r.mu.Lock()
	r.active[a] = true
	r.mu.Unlock()
	go r.attempt(ctx, a)
}

// giveBack returns jobs untouched. It tries once, and not for long: their reservations
// end by themselves.
func (r *run) giveBack(jobs []*job.Job) {
	if len(jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.reports, leaveTime)
	defer cancel()
	for _, j := range jobs {
		claim := job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: r.o.ID}
		if _, err := r.svc.Fail(ctx, claim, job.Failure{Requeue: true}); err != nil {
			r.log.Warn("job not given back, it waits for its reservation to end", "job_id", j.ID, "error", err)
		}
	}
}
