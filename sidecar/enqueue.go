package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Enqueue stores all envelopes or none; see [job.Enqueuer]. At most 10,000 at once.
func (s *Sidecar) Enqueue(ctx context.Context, es ...job.Envelope) ([]job.Receipt, error) {
	if err := tooMany(len(es)); err != nil {
		return nil, err
	}
	cs := make([]job.Checked, len(es))
	for i, e := range es {
		var err error
		if cs[i], err = e.Check(); err != nil {
			return nil, atIndex(err, i, len(es))
		}
	}
	return s.enqueue(ctx, cs, sameContent)
}

// EnqueueChecked is Enqueue for envelopes that are checked; see [job.Enqueuer].
func (s *Sidecar) EnqueueChecked(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	return s.enqueue(ctx, slices.Clone(cs), sameContent)
}

// EnqueueNew is EnqueueChecked for callers to whom an ID that is stored already is a
// Duplicate whatever its content, as on the wire (contract §2.2). Nothing is stored then.
// It takes cs over: a caller who passes a slice must not use it again.
func (s *Sidecar) EnqueueNew(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	return s.enqueue(ctx, cs, nothingStored)
}

// known decides about an ID that is taken: the job that answers, or an error.
type known func(tx job.JobReader, e job.Envelope) (*job.Job, error)

// sameContent lets a job answer that has the same type and args.
func sameContent(tx job.JobReader, e job.Envelope) (*job.Job, error) {
	old, err := tx.Job(e.ID)
	if err != nil {
		return nil, err
	}
	if e.SameAs(old) {
		return old, nil
	}
	return nil, describe(old, "job %s exists already with another type or other args; choose another id", e.ID)
}

// nothingStored lets no job answer.
func nothingStored(tx job.JobReader, e job.Envelope) (*job.Job, error) {
	old, err := tx.Job(e.ID)
	if err != nil {
		return nil, err
	}
	return nil, describe(old, "job %s exists already", e.ID)
}

// describe says which job a Duplicate met.
func describe(old *job.Job, format string, args ...any) error {
	return job.Errorf(job.Duplicate, format, args...).With(map[string]any{"existing_job_id": string(old.ID), "existing_job_state": string(old.State)})
}

// tooMany is the error for a call with more than MaxBatch jobs, nil for fewer.
func tooMany(n int) error {
	if n <= job.MaxBatch {
		return nil
	}
	return job.Errorf(job.TooLarge, "%d jobs in one call, at most %d are taken", n, job.MaxBatch).
		With(map[string]any{"size": n, "max_batch_size": job.MaxBatch})
}

// enqueue asks the middleware, stores and announces. exists decides about an ID
// that is taken. It keeps es, and changes it.
func (s *Sidecar) enqueue(ctx context.Context, es []job.Checked, exists known) ([]job.Receipt, error) {
	if err := tooMany(len(es)); err != nil {
		return nil, err
	}
	tenant := job.TenantOf(ctx)
	for i := range es {
		if tenant != "" {
			var err error
			if es[i], err = es[i].ForTenant(tenant); err != nil {
				return nil, atIndex(err, i, len(es))
			}
		}
		if es[i].ID() == "" {
			if err := es[i].SetID(s.o.NewID()); err != nil {
				return nil, atIndex(err, i, len(es))
			}
		}
	}
	if err := s.fits(ctx, es); err != nil { // before the middleware, which may make args unreadable
		return nil, err
	}
	altered, err := s.admit(ctx, es)
	if err != nil {
		return nil, err
	}
	now := s.now()
	first, err := jobsOf(es, now) // here, as all wait for the writer; what follows, and what runs again, is made there
	if err != nil {
		return nil, atIndex(err, len(first), len(es))
	}
	rs, err := s.enqueueBlocking(ctx, func() ([]job.Receipt, error) {
		rs, err := s.storeAll(ctx, es, now, &first, exists)
		for i := range rs {
			rs[i].Altered = altered != nil && altered[i]
		}
		return rs, err
	})
	s.totals.refused(err, len(es))
	return rs, err
}

// storeAll stores what was checked and admitted, in one transaction. first are the jobs of the
// envelopes in front, made already, if it is the first to ask; with is done in the same transaction.
func (s *Sidecar) storeAll(ctx context.Context, es []job.Checked, now time.Time, first *[]*job.Job, exists known, with ...func(*turn, []job.Receipt) error) ([]job.Receipt, error) {
	receipts := make([]job.Receipt, len(es))
	var last *turn
	err := s.update(ctx, func(t *turn) error {
		last = t
		bounds, err := admitTo(t, es, now)
		if err != nil {
			return err
		}
		for i := 0; i < len(es); {
			js := *first
			if *first = nil; js == nil {
				js, err = jobsOf(es[i:], now)
			}
			if err != nil {
				return atIndex(err, i+len(js), len(es))
			}
			if !js[0].Keyed() {
				n, err := t.push(js, exists, receipts[i:])
				if i += n; err != nil {
					return atIndex(err, i, len(es))
				}
				continue
			}
			if receipts[i], err = s.insertKeyed(t, js[0], now, exists); err != nil {
				return atIndex(err, i, len(es))
			}
			i++
		}
		if err := bounds.hold(t, receipts, now); err != nil {
			return err
		}
		for _, also := range with {
			if err := also(t, receipts); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.answer(receipts, last.latest())
	for i := range es {
		receipts[i].Warnings = es[i].Warnings()
		if p := receipts[i].Pressure; p != nil && p.Warn {
			receipts[i].Warnings = append(receipts[i].Warnings, p.Warning())
		}
	}
	if len(receipts) == 1 && receipts[0].Asks() {
		receipts[0].Permits = s.permits(ctx, receipts[0].Job)
	}
	return receipts, nil
}

// answer gives each receipt its job as it was committed, for one that was stored
// before, or by an earlier envelope, may have changed since.
func (s *Sidecar) answer(receipts []job.Receipt, latest map[job.ID]*job.Job) {
	for i := range receipts {
		if j := latest[receipts[i].ID]; j != nil {
			receipts[i].Job = j
		}
		s.show(receipts[i].Job)
	}
}

// jobsOf makes jobs of the envelopes in front that can be stored together: those
// without a key, or one that has one.
func jobsOf(es []job.Checked, now time.Time) (js []*job.Job, err error) {
	for i := range es {
		if len(js) > 0 && (es[i].Keyed() || js[0].Keyed()) {
			break
		}
		j, err := es[i].Push(now)
		if err != nil {
			return js, err
		}
		js = append(js, j)
	}
	return js, nil
}

// push stores jobs whose ID is free and answers for each. It says how many it
// has answered for; an error is about the next.
func (t *turn) push(js []*job.Job, exists known, receipts []job.Receipt) (int, error) {
	stored, err := t.insertAll(js)
	if err != nil {
		return 0, err
	}
	for i, j := range js {
		receipts[i] = job.Receipt{Job: j}
		if stored[i] {
			continue
		}
		old, err := exists(t, j.Envelope)
		if err != nil {
			return i, err
		}
		receipts[i] = job.Receipt{Job: old, Existing: true, Verdict: job.SameID}
	}
	return len(js), nil
}

// insertKeyed stores a job that names a key, if the rules of package job let it
// beside what is stored. An ID that is taken comes first: who sends a job again
// must not meet himself.
func (s *Sidecar) insertKeyed(t *turn, j *job.Job, now time.Time, exists known) (job.Receipt, error) {
	if j.Holds != 0 && j.Deduplication == nil && j.CustomID == "" {
		if stored, err := t.insertFirst(j); stored || err != nil {
			return job.Receipt{Job: j}, err
		}
	}
	if _, err := t.Job(j.ID); err == nil {
		var same [1]job.Receipt
		_, err := t.push([]*job.Job{j}, exists, same[:])
		return same[0], err
	}
	met, err := keyHolders(t, j, now)
	if err != nil {
		return job.Receipt{}, err
	}
	a, err := j.Admit(now, met)
	if j.Fingerprint != "" && s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("unique", "fingerprint", j.Fingerprint, "job", j.ID, "verdict", a.Verdict, "refused", err != nil)
	}
	if err != nil {
		return job.Receipt{}, err
	}
	if err := t.makeRoom(j, now, &a); err != nil {
		return job.Receipt{}, err
	}
	for _, e := range a.Events {
		if err := t.addEvent(e); err != nil {
			return job.Receipt{}, err
		}
	}
	switch {
	case a.Rewritten:
		err = t.rewrite(a.Job)
	case !a.Existing:
		a.Receipt.Job = j
		err = t.insert(j)
	}
	return a.Receipt, err
}

// makeRoom saves the jobs that an admission changes, and goes on until no twin is
// left that gives way: there may be thousands, where policies let them stand side
// by side.
func (t *turn) makeRoom(j *job.Job, now time.Time, a *job.Admission) error {
	spared := job.ID("")
	if a.Rewritten {
		spared = a.ID
	}
	for {
		for _, c := range a.Changed {
			if err := t.save(c); err != nil {
				return err
			}
		}
		if !a.Again {
			return nil
		}
		twins, err := t.Twins(j.Fingerprint, spared)
		if err != nil {
			return err
		}
		a.Changed = nil
		if err := j.CancelMatches(now, twins, a); err != nil {
			return err
		}
	}
}

// keyHolders reads what is stored under the keys of a job, as far as it can matter.
func keyHolders(tx job.KeyReader, j *job.Job, now time.Time) (m job.KeyHolders, err error) {
	if j.CustomID != "" {
		if m.Custom, err = tx.Custom(j.Queue, j.CustomID); err != nil || m.Custom != nil {
			return m, err
		}
	}
	if id := j.DedupID(); id != "" {
		if m.Owner, err = tx.DedupOwner(j.Queue, id, now); err != nil {
			return m, err
		}
	}
	if j.Fingerprint != "" {
		var owner job.ID
		if m.Owner != nil {
			owner = m.Owner.ID
		}
		m.Twins, err = tx.Twins(j.Fingerprint, owner)
	}
	return m, err
}

// atIndex adds to an error about one envelope of several which one it is.
func atIndex(err error, i, of int) error {
	if of == 1 || job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable {
		return err
	}
	e := job.Errorf(job.KindOf(err), "jobs[%d]: %w", i, err)
	e.Details = map[string]any{"index": i}
	var inner *job.Error
	if errors.As(err, &inner) {
		for k, v := range inner.Details {
			e.Details[k] = v
		}
	}
	return e
}
