package sidecar

import (
	"context"
	"sync"

	"github.com/outrider-jobs/outrider/job"
)

// totals count what has happened since the server started, by queue. They are in memory
// alone: who reads such counters knows that they begin at 0 with each start.
type totals struct {
	mu     sync.Mutex
	queues map[string]*job.Totals
}

// of are those of one queue. The caller holds mu.
func (t *totals) of(queue string) *job.Totals {
	q := t.queues[queue]
	if q == nil {
		if t.queues == nil {
			t.queues = map[string]*job.Totals{}
		}
		q = &job.Totals{}
		t.queues[queue] = q
	}
	return q
}

// count counts what a transaction has done, once it is on disk.
func (t *totals) count(changes []change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range changes {
		from, j := changes[i].from, changes[i].job
		if from == j.State && from != job.None {
			continue
		}
		q := t.of(j.Queue)
		switch {
		case from == job.None:
			q.Enqueued++
		case j.State == job.Completed:
			q.Completed++
		case j.State == job.Discarded:
			q.Discarded++
		}
		if from == job.Active && (j.State == job.Retryable || j.State == job.Discarded || j.State == job.Available && j.Lost != nil) {
			q.Failed++
		}
	}
}

// refused counts the jobs of a PUSH if err says that a queue was full.
func (t *totals) refused(err error, n int) {
	if err == nil || job.KindOf(err) != job.QueueFull {
		return
	}
	queue, _ := job.DetailsOf(err)["queue"].(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(queue).Rejected += int64(n)
}

// read is what was counted for a queue.
func (t *totals) read(queue string) job.Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[queue]; q != nil {
		return *q
	}
	return job.Totals{}
}

// Metrics counts; see [job.AdminService].
func (s *Sidecar) Metrics(ctx context.Context) (job.Metrics, error) {
	now := s.now()
	m := job.Metrics{At: now, Uptime: now.Sub(s.started)}
	all, err := s.QueueStats(ctx, "")
	if err != nil {
		return m, err
	}
	m.AvgWaited, m.PerSecond = all.Stats.AvgWaited, all.Stats.PerSecond
	queues, err := s.Queues(ctx)
	if err != nil {
		return m, err
	}
	for _, q := range queues {
		m.Queues = append(m.Queues, job.QueueMetrics{Name: q.Name, Counts: q.Counts, Dead: q.Dead, Totals: s.totals.read(q.Name)})
	}
	if err := s.loadRoster(ctx); err != nil {
		return m, err
	}
	var ws []job.WorkerInfo
	for w := range s.roster.all {
		w.Stale = s.stale(w, now)
		ws = append(ws, w)
	}
	m.Workers = job.CountWorkers(ws)
	return m, nil
}
