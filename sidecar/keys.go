package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// Explain shows what a unique policy amounts to; see [job.KeyService].
func (s *Sidecar) Explain(ctx context.Context, c job.Checked) (job.Explanation, error) {
	now := s.now()
	x, err := view(ctx, s, func(tx job.ReadTx) (job.Explanation, error) {
		twins, err := tx.Twins(c.UniqueKey(), "")
		if err != nil {
			return job.Explanation{}, err
		}
		return c.Explain(now, twins)
	})
	s.show(x.Existing)
	return x, err
}

// HeldKeys lists the unique keys that are held; see [job.KeyService].
func (s *Sidecar) HeldKeys(ctx context.Context, f job.Filter) (job.HeldKeys, error) {
	f = job.Filter{Holding: !f.Dedup, Dedup: f.Dedup, Now: s.now(), Queue: f.Queue, Type: f.Type, States: f.States, Limit: f.Limit, Offset: f.Offset, Cursor: f.Cursor}
	page, err := s.Jobs(ctx, f)
	c := job.HeldKeys{Total: page.Total, AtLeast: page.AtLeast, Next: page.Next}
	for _, j := range page.Jobs {
		key := j.HeldKey
		if f.Dedup {
			key = j.HeldDedup
		}
		c.Keys = append(c.Keys, key())
	}
	return c, err
}

// ReleaseKey takes a unique key off its jobs; see [job.KeyService].
func (s *Sidecar) ReleaseKey(ctx context.Context, fingerprint string) (released int, err error) {
	if !job.ValidKey(fingerprint) {
		return 0, nil
	}
	for {
		var freed int
		var r workShare
		err := s.update(ctx, func(t *turn) error {
			freed, r = 0, newWorkShare()
			twins, err := t.Twins(fingerprint, "")
			for ; err == nil && len(twins) > 0 && !r.over(); twins, err = t.Twins(fingerprint, "") {
				for _, j := range twins {
					j.ReleaseKey()
					if err := t.save(j); err != nil {
						return err
					}
					freed++
				}
			}
			return err
		})
		if err != nil {
			return released, err
		}
		if released += freed; !r.full {
			return released, nil
		}
	}
}

// DedupOwner is the job that holds a deduplication key; see [job.KeyService].
func (s *Sidecar) DedupOwner(ctx context.Context, queue, id string) (*job.Job, error) {
	now := s.now()
	owner, err := view(ctx, s, func(tx job.ReadTx) (*job.Job, error) { return tx.DedupOwner(queue, id, now) })
	if err == nil && owner == nil {
		return nil, job.NoDedupOwner(queue, id)
	}
	s.show(owner)
	return owner, err
}

// ReleaseDedup takes a deduplication key off its owner; see [job.KeyService].
func (s *Sidecar) ReleaseDedup(ctx context.Context, queue, id string) (bool, error) {
	now := s.now()
	freed := false
	err := s.update(ctx, func(t *turn) error { // of one job, unless the clock was set back
		freed = false
		for {
			owner, err := t.DedupOwner(queue, id, now)
			if err != nil || owner == nil {
				return err
			}
			owner.ReleaseDedup()
			if err := t.save(owner); err != nil {
				return err
			}
			freed = true
		}
	})
	return err == nil && freed, err
}
