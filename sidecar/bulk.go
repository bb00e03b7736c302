package sidecar

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// keyed are the idempotency keys of the requests that are being carried out.
type keyed struct {
	mu   sync.Mutex
	busy map[string]bool
}

// take reports whether nobody else is at work under a key.
func (k *keyed) take(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy[key] {
		return false
	}
	if k.busy == nil {
		k.busy = map[string]bool{}
	}
	k.busy[key] = true
	return true
}

func (k *keyed) release(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, key)
}

// once carries a request out, unless it was under the same key in the last 24 hours:
// then that answer is given again.
func (s *Sidecar) once(ctx context.Context, id job.Idempotency, do func() (job.BulkResult, error)) (r job.BulkResult, err error) {
	if id.Key == "" {
		return do()
	}
	if !s.keyed.take(id.Key) {
		return r, job.Errorf(job.Conflict, "a request with the idempotency key %.80q is being carried out; send it again when that is done", id.Key).
			With(map[string]any{"field": "idempotency_key", "reason": "idempotency_key_in_use", "hint": "Send it again when the first one has been answered."})
	}
	defer s.keyed.release(id.Key)
	now, found := s.now(), false
	if err := s.update(ctx, func(t *turn) (err error) {
		if err := t.PruneAnswers(now.Add(-job.KeepIdempotent)); err != nil {
			return err
		}
		r, found, err = answered(t, id)
		return err
	}); err != nil || found {
		return r, err
	}
	return do()
}

// answered is what was answered under a key.
func answered(t *turn, id job.Idempotency) (r job.BulkResult, found bool, err error) {
	digest, raw, err := t.Answer(id.Key)
	switch {
	case err != nil || raw == nil:
		return r, false, err
	case digest != id.Digest:
		return r, false, job.ReusedKey(id.Key)
	}
	r, err = job.ParseBulkResult(raw)
	r.Replayed = true
	return r, true, err
}

// keep stores an answer under its key, if there is one.
func (t *turn) keep(id job.Idempotency, r job.BulkResult, now time.Time) error {
	if id.Key == "" {
		return nil
	}
	raw, err := r.Encode()
	if err != nil {
		return job.Errorf(job.Internal, "encode the answer to a bulk request: %w", err)
	}
	return t.PutAnswer(id.Key, id.Digest, raw, now)
}

// PushEach stores many jobs; see [job.BulkService].
func (s *Sidecar) PushEach(ctx context.Context, p job.BulkPush) (job.BulkResult, error) {
	if err := tooMany(len(p.Jobs)); err != nil {
		return job.BulkResult{}, err
	}
	if err := p.Validate(); err != nil {
		return job.BulkResult{}, err
	}
	if len(p.Jobs) == 0 {
		return job.BulkResult{}, job.Errorf(job.Invalid, "jobs is required: an array of 1 to %d jobs", job.MaxBatch).With(map[string]any{"field": "jobs"})
	}
	r, err := s.once(ctx, p.Idempotency, func() (job.BulkResult, error) { return s.pushEach(ctx, p) })
	for _, it := range r.Items {
		if s.show(it.Job); !r.Replayed {
			s.totals.refused(it.Err, 1)
		}
	}
	return r, err
}

func (s *Sidecar) pushEach(ctx context.Context, p job.BulkPush) (r job.BulkResult, err error) {
	es, places, items, err := s.bulkJobs(ctx, p)
	if err != nil {
		return r, err
	}
	now := s.now()
	if p.Atomic && len(es) < len(p.Jobs) {
		r = noneOf(items)
		err = s.update(ctx, func(t *turn) error { return t.keep(p.Idempotency, r, now) })
		return r, err
	}
	if p.Atomic {
		return s.pushAtomic(ctx, p, es, items, now)
	}
	err = s.update(ctx, func(t *turn) error {
		r = job.BulkResult{}
		all := append([]job.BulkItem(nil), items...)
		for k := range es {
			receipt, err := s.pushOne(t, es[k], now)
			if err != nil && !turnedDown(err) {
				return err
			}
			all[places[k]] = itemOf(places[k], receipt, err)
		}
		latest := t.latest()
		for _, it := range all {
			if it.Job != nil && latest[it.Job.ID] != nil {
				it.Job = latest[it.Job.ID]
			}
			r.Note(it, true)
		}
		return t.keep(p.Idempotency, r, now)
	})
	return r, err
}

// bulkJobs are the envelopes that can be stored, with their places among all; the items
// of the others say why not.
func (s *Sidecar) bulkJobs(ctx context.Context, p job.BulkPush) (es []job.Checked, places []int, items []job.BulkItem, err error) {
	items = make([]job.BulkItem, len(p.Jobs))
	for i, b := range p.Jobs {
		items[i] = job.BulkItem{Index: i, Status: job.BulkFailed, Err: b.Err}
		if b.Err != nil {
			continue
		}
		one := []job.Checked{b.Checked}
		if one[0].ID() == "" {
			if err := one[0].SetID(s.o.NewID()); err != nil {
				return nil, nil, nil, atIndex(err, i, len(p.Jobs))
			}
		}
		if _, err := s.admit(ctx, one); err != nil {
			if !turnedDown(err) {
				return nil, nil, nil, err
			}
			items[i].Err = err
			continue
		}
		es, places = append(es, one[0]), append(places, i)
	}
	return es, places, items, nil
}

// pushOne is PUSH of one job inside a transaction. A refusal has written nothing.
func (s *Sidecar) pushOne(t *turn, e job.Checked, now time.Time) (job.Receipt, error) {
	one := []job.Checked{e}
	bounds, err := admitTo(t, one, now)
	if err != nil {
		return job.Receipt{}, err
	}
	for _, a := range bounds { // what a key would let it replace is known only once it is stored, and that is too late here
		p := a.config.PressureOf(a.queue, a.before)
		if a.before < a.config.MaxDepth {
			continue
		}
		if may, err := t.mayDrop(*p); err != nil || !may {
			return job.Receipt{}, cmp.Or(err, error(p.Refusal(1)))
		}
	}
	j, err := one[0].Push(now)
	if err != nil {
		return job.Receipt{}, err
	}
	rs := make([]job.Receipt, 1)
	if j.Keyed() {
		rs[0], err = s.insertKeyed(t, j, now, nothingStored)
	} else {
		_, err = t.push([]*job.Job{j}, nothingStored, rs)
	}
	if err == nil {
		err = bounds.hold(t, rs, now)
		if turnedDown(err) { // it has been stored: the whole must not be
			err = job.Errorf(job.Unavailable, "the queue %s cannot make room: %w", j.Queue, err)
		}
	}
	return rs[0], err
}

// pushAtomic stores all jobs or none.
func (s *Sidecar) pushAtomic(ctx context.Context, p job.BulkPush, es []job.Checked, items []job.BulkItem, now time.Time) (r job.BulkResult, err error) {
	var first []*job.Job
	rs, err := s.storeAll(ctx, es, now, &first, nothingStored, func(t *turn, rs []job.Receipt) error {
		r = job.BulkResult{Atomic: true}
		for i := range rs {
			r.Note(itemOf(i, rs[i], nil), true)
		}
		return t.keep(p.Idempotency, r, now)
	})
	if err == nil {
		for i := range rs {
			r.Items[i].Job = rs[i].Job
		}
		return r, nil
	}
	if !turnedDown(err) {
		return job.BulkResult{}, err
	}
	if at, ok := job.DetailsOf(err)["index"].(int); ok && at < len(items) {
		items[at].Err = err
	} else {
		items[0].Err = err
	}
	r = noneOf(items)
	return r, s.update(ctx, func(t *turn) error { return t.keep(p.Idempotency, r, now) })
}

// noneOf is the result where one job or more kept all from being stored.
func noneOf(items []job.BulkItem) (r job.BulkResult) {
	r.Atomic = true
	for _, it := range items {
		if it.Status = job.BulkFailed; it.Err == nil {
			it.Err = job.Errorf(job.Conflict, "jobs[%d]: not stored, because another job of this atomic request was refused", it.Index)
		}
		r.Note(it, true)
	}
	return r
}

func itemOf(i int, r job.Receipt, err error) job.BulkItem {
	it := job.BulkItem{Index: i, Status: job.BulkCreated, Job: r.Job, Err: err}
	switch {
	case err != nil:
		it.Status, it.Job = job.BulkFailed, nil
		if job.KindOf(err) == job.Duplicate {
			it.Status = job.BulkDuplicate
		}
	case r.Existing:
		it.Status = job.BulkDuplicate
	}
	if it.Job != nil {
		it.ID = it.Job.ID
	}
	return it
}

// turnedDown reports whether an error is about what was asked, and not of the server.
func turnedDown(err error) bool {
	if err == nil {
		return false
	}
	switch job.KindOf(err) {
	case job.Internal, job.Unavailable:
		return false
	}
	return true
}

// Bulk does one thing to many jobs; see [job.BulkService].
func (s *Sidecar) Bulk(ctx context.Context, a job.BulkAct) (job.BulkResult, error) {
	if err := a.Validate(); err != nil {
		return job.BulkResult{}, err
	}
	if a.DryRun {
		a.Key = "" // nothing happens that must not happen twice
	}
	return s.once(ctx, a.Idempotency, func() (job.BulkResult, error) {
		if a.Filter == nil {
			return s.bulkIDs(ctx, a)
		}
		return s.bulkFilter(ctx, a)
	})
}

// bulkIDs does it to jobs that are named: each of them once.
func (s *Sidecar) bulkIDs(ctx context.Context, a job.BulkAct) (r job.BulkResult, err error) {
	r = job.BulkResult{Action: a.Action, DryRun: a.DryRun}
	last, now := false, s.now()
	for at := 0; !last; {
		var taken int
		var some []job.BulkItem
		var after job.BulkResult
		err := s.update(ctx, func(t *turn) error {
			some, taken = some[:0], 0
			for work := newWorkShare(); at+taken < len(a.IDs) && !work.over(); taken++ {
				it, err := s.bulkOne(t, a, a.IDs[at+taken], job.BulkFailed)
				if err != nil {
					return err
				}
				it.Index = at + taken
				some = append(some, it)
			}
			after = r
			after.Items = after.Items[:len(after.Items):len(after.Items)]
			for _, it := range some {
				after.Note(it, true)
			}
			if last = at+taken == len(a.IDs); !last {
				return nil
			}
			return t.keep(a.Idempotency, after, now)
		})
		if err != nil {
			return r, err
		}
		r, at = after, at+taken
	}
	return r, nil
}

// bulkOne does it to one job; an error is of the store. refused is what a job counts as
// to which it cannot be done.
func (s *Sidecar) bulkOne(t *turn, a job.BulkAct, id job.ID, refused string) (it job.BulkItem, _ error) {
	it = job.BulkItem{ID: id, Status: job.BulkDone}
	j, err := t.Job(id)
	if err != nil {
		if job.KindOf(err) != job.NotFound {
			return it, err
		}
		it.Status, it.Err = job.BulkFailed, err
		return it, nil
	}
	already := a.Action == job.BulkCancel && j.State == job.Cancelled
	removed, err := a.Do(s.ruled(t, j), s.now())
	if removed && err == nil {
		needed, broken := inRunningFlow(t, j)
		if broken != nil {
			return it, broken
		}
		if needed {
			err = neededByFlow(j)
		}
	}
	switch {
	case err != nil:
		if it.Status, it.Err = refused, err; already {
			it.Status = job.BulkSkipped
		}
		return it, nil
	case a.DryRun:
		return it, nil
	case removed:
		return it, t.remove(id)
	}
	return it, t.save(j)
}

// bulkFilter does it to the jobs that a filter lets through as they are when it comes
// to them. Those that come while it is at work may be among them or not; what was done to
// a job does not let it come again.
func (s *Sidecar) bulkFilter(ctx context.Context, a job.BulkAct) (r job.BulkResult, err error) {
	r = job.BulkResult{Action: a.Action, DryRun: a.DryRun}
	f := a.Filter.Filter
	for f.Limit, f.Offset, f.Cursor = fewLarge, 0, ""; ; {
		page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
		if err != nil {
			return r, err
		}
		if r, err = s.bulkSlice(ctx, a, idsOf(page.Jobs, a.Filter.Takes), r); err != nil {
			return r, err
		}
		f.Limit = paced(page.Jobs)
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	now := s.now()
	return r, s.update(ctx, func(t *turn) error { return t.keep(a.Idempotency, r, now) })
}

// bulkSlice does it to some jobs of a filter.
func (s *Sidecar) bulkSlice(ctx context.Context, a job.BulkAct, ids []job.ID, r job.BulkResult) (job.BulkResult, error) {
	for len(ids) > 0 {
		var taken int
		var after job.BulkResult
		if err := s.update(ctx, func(t *turn) error {
			taken, after = 0, r
			after.Items = after.Items[:len(after.Items):len(after.Items)]
			for work := newWorkShare(); taken < len(ids) && !work.over(); taken++ {
				if j, err := t.Job(ids[taken]); err != nil || !a.Filter.Takes(j) {
					if err == nil || job.KindOf(err) == job.NotFound { // it has gone on meanwhile
						continue
					}
					return err
				}
				it, err := s.bulkOne(t, a, ids[taken], job.BulkSkipped)
				if err != nil {
					return err
				}
				it.Index = int(after.Total)
				after.Note(it, len(after.Items) < job.MaxBulkItems)
			}
			return nil
		}); err != nil {
			return r, err
		}
		r, ids = after, ids[taken:]
	}
	return r, nil
}
