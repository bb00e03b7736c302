package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// Direct tells a worker to be quiet, to terminate, or to go on; see [job.Operator].
func (s *Sidecar) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	all, err := s.direct(ctx, wish, func(tx job.Tx) ([]job.WorkerInfo, error) {
		w, err := tx.Worker(id)
		if job.KindOf(err) == job.NotFound {
			err = untold(id)
		}
		return []job.WorkerInfo{w}, err
	})
	if err != nil {
		return job.WorkerInfo{}, err
	}
	s.log.Info("an operator directs a worker, which hears of it with its next heartbeat", "directive", wish, "worker", id, "workers", 1)
	return all[0], nil
}

// untold is the NotFound for a worker that cannot be told anything. One that only
// fetches is none that is known (contract §4.9): the answer to a heartbeat is what
// would tell it.
func untold(id string) error {
	e := job.Errorf(job.NotFound, "there is no worker %.140q that has registered or sent a heartbeat", id)
	e.Details = map[string]any{"resource_type": "worker", "resource_id": id,
		"hint": "The list of workers has the ids: GET /ojs/v1/workers. A worker that only fetches is not in it, as the answer to a heartbeat is what tells a worker: let it send heartbeats, or stop it where it runs."}
	return e
}

// DirectAll tells all workers that are known; see [job.Operator].
func (s *Sidecar) DirectAll(ctx context.Context, wish string) (int, error) {
	all, err := s.direct(ctx, wish, func(tx job.Tx) ([]job.WorkerInfo, error) { return tx.Workers() })
	if err != nil {
		return 0, err
	}
	s.log.Info("an operator directs all workers, which hear of it with their next heartbeats", "directive", wish, "workers", len(all))
	return len(all), nil
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
