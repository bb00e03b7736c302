package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// Direct tells a worker to be quiet, to terminate, or to go on; see [job.Operator].
func (s *Sidecar) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	all, err := s.direct(ctx, wish, func(tx job.Tx) ([]job.WorkerInfo, error) {
		w, err := tx.Worker(id)
		return []job.WorkerInfo{w}, err
	})
	if err != nil {
		return job.WorkerInfo{}, err
	}
	return all[0], nil
}

// DirectAll tells all workers that are known; see [job.Operator].
func (s *Sidecar) DirectAll(ctx context.Context, wish string) (int, error) {
	all, err := s.direct(ctx, wish, func(tx job.Tx) ([]job.WorkerInfo, error) { return tx.Workers() })
	return len(all), err
}

func (s *Sidecar) direct(ctx context.Context, wish string, whom func(job.Tx) ([]job.WorkerInfo, error)) (all []job.WorkerInfo, err error) {
	if err := new(job.WorkerInfo).Direct(wish); err != nil {
		return nil, err
	}
	now := s.now()
	var turn uint64
	err = s.store.Update(ctx, func(tx job.Tx) error {
		turn = s.roster.turn()
		if all, err = whom(tx); err != nil {
			return err
		}
		for i, before := range all {
			if err := all[i].Direct(wish); err != nil {
				return err
			}
			if err := s.tellQuiet(tx, before, all[i], now); err != nil {
				return err
			}
			if err := tx.PutWorker(all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.roster.set(turn, all...)
	for i := range all {
		all[i].Stale = s.stale(all[i], now)
	}
	return all, nil
}
