package sidecar

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// silent is a worker that has said nothing for too long.
type silent struct {
	id          string
	jobs        []job.ID // that it held and that have not been looked at
	eventStored bool     // its silence has been, in a transaction before
}

// silenceResult is what one transaction has done about silent workers.
type silenceResult struct {
	done    int              // workers that need nothing more
	rest    silent           // the one behind them, as far as it has been dealt with
	logs    []func()         // what is logged of them after the commit
	known   []job.WorkerInfo // as they are now
	gone    []string
	next    time.Time // when one must be looked at again
	version uint64
}

// watch takes the jobs of workers that beat once and then fell silent, and
// forgets them after a day (contract §4.9). Tens of thousands may fall silent at
// once, when a network does: each transaction does some of them.
func (s *Sidecar) watch(ctx context.Context, now time.Time) (next time.Time, err error) {
	if err := s.loadRoster(ctx); err != nil { // at the start, so that a FETCH need not read its worker
		return time.Time{}, err
	}
	if until := s.started.Add(s.o.Silence); now.Before(until) {
		return until, nil // nobody could beat while this server was down
	}
	upto, over := s.pauses.limit(now)
	if len(s.silent) == 0 {
		s.silentNext = time.Time{}
		if s.silent, err = s.fallenSilent(ctx, upto, now); err != nil {
			return time.Time{}, err
		}
	}
	if len(s.silent) > 0 {
		if err := s.handleSilent(ctx, upto, now); err != nil {
			s.silent = nil // they are looked for again
			return time.Time{}, err
		}
	}
	if len(s.silent) > 0 {
		return now, nil
	}
	next = s.silentNext
	for w := range s.roster.all {
		if since := s.silentSince(w, now); upto.Sub(since) < s.o.Silence {
			next = sooner(next, since.Add(s.o.Silence))
		}
	}
	if next.IsZero() {
		next = now.Add(hourly)
	}
	return later(next, over), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fallenSilent looks for the workers that something must be done about, by their
// ids. It reads the roster and a snapshot, and does not take the writer's time:
// a worker that has spoken since is noticed when its turn comes.
func (s *Sidecar) fallenSilent(ctx context.Context, upto, now time.Time) (found []silent, err error) {
	var ws []job.WorkerInfo
	for w := range s.roster.all {
		if s.silentFor(w, upto, now) >= s.o.Silence {
			ws = append(ws, w)
		}
	}
	if len(ws) == 0 {
		return nil, nil
	}
	held, err := view(ctx, s, func(tx job.ReadTx) (map[string][]job.ID, error) { return tx.Holders("") })
	if err != nil {
		return nil, err
	}
	for _, w := range ws {
		jobs := held[w.ID]
		if w.Stale && now.Sub(w.BeatAt) > 3*s.o.Silence {
			jobs = nil // they have been looked at; for what it fetches without a beat, its lease decides
		}
		if len(jobs) > 0 || !w.Stale || now.Sub(w.BeatAt) > day {
			found = append(found, silent{id: w.ID, jobs: jobs})
		}
	}
	slices.SortFunc(found, func(a, b silent) int { return strings.Compare(a.id, b.id) })
	return found, nil
}

// silentFor is how long a worker had said nothing at upto, as far as is known now.
func (s *Sidecar) silentFor(w job.WorkerInfo, upto, now time.Time) time.Duration {
	return upto.Sub(s.silentSince(w, now))
}

// handleSilent does, in one transaction, what must be done about the first of the silent workers.
func (s *Sidecar) handleSilent(ctx context.Context, upto, now time.Time) error {
	var m silenceResult
	err := s.update(ctx, func(t *turn) error {
		m = silenceResult{version: s.roster.next()}
		for r := newWorkShare(); m.done < len(s.silent) && !r.over(); m.done++ {
			m.rest = s.silent[m.done]
			if done, err := s.handleSilentWorker(t, &m, &r, upto, now); err != nil || !done {
				return err
			}
		}
		m.rest = silent{}
		return nil
	})
	if err != nil {
		return err
	}
	if s.silent = s.silent[m.done:]; m.rest.id != "" {
		s.silent[0] = m.rest
	}
	s.silentNext = sooner(s.silentNext, m.next)
	s.roster.set(m.version, m.known...)
	for _, id := range m.gone {
		s.roster.drop(m.version, id)
		s.answers.forgetWorker(id)
	}
	for _, log := range m.logs {
		log()
	}
	return nil
}

// handleSilentWorker stores the event of a stale worker once, takes its jobs, and forgets
// it after a day. It reports false when the share is over before that.
func (s *Sidecar) handleSilentWorker(t *turn, m *silenceResult, r *workShare, upto, now time.Time) (done bool, err error) {
	p := &m.rest
	w, err := t.Worker(p.id)
	switch {
	case job.KindOf(err) == job.NotFound && err != nil:
		m.gone = append(m.gone, p.id)
		return true, nil
	case err != nil:
		return false, err
	case s.silentFor(w, upto, now) < s.o.Silence: // it has spoken meanwhile
		m.next = sooner(m.next, s.silentSince(w, now).Add(s.o.Silence))
		m.known = append(m.known, w) // perhaps to another server of this process
		return true, nil
	}
	if !w.Stale && !p.eventStored {
		if err := t.addEvent(job.WorkerEvent(job.WorkerStale, w.ID, now)); err != nil {
			return false, err
		}
		p.eventStored = true
	}
	for ; len(p.jobs) > 0; p.jobs = p.jobs[1:] {
		if r.over() {
			return false, nil
		}
		if err := s.takeJob(t, m, p.jobs[0], w, upto, now); err != nil {
			return false, err
		}
	}
	switch {
	case now.Sub(w.BeatAt) > day:
		m.gone = append(m.gone, w.ID)
		return true, t.DeleteWorker(w.ID)
	case !w.Stale:
		w.Stale = true
		m.known = append(m.known, w)
		return true, t.PutWorker(w)
	}
	return true, nil
}

// takeJob takes a job of a stale worker. A job fetched after its last beat shows
// that it lived then; m.next is when that is too long ago, too. What has not run
// out at upto is covered by a grace.
func (s *Sidecar) takeJob(t *turn, m *silenceResult, id job.ID, w job.WorkerInfo, upto, now time.Time) error {
	j, err := t.Job(id)
	if err != nil || j.State != job.Active || j.Lease.Worker != w.ID {
		return nil // it has gone on, or cannot be read: a statement that failed fails the transaction anyway
	}
	if end := j.StartedAt.Add(s.o.Silence); upto.Before(end) {
		m.next = sooner(m.next, end)
		return nil
	}
	if err := s.ruled(t, j).Lose(now, "worker_death", s.o.Rand()); err != nil {
		return err
	}
	m.logs = append(m.logs, func() {
		s.log.Warn("a worker fell silent; its job goes to another", "worker", w.ID, "job", j.ID, "silent", now.Sub(w.BeatAt))
	})
	return t.save(j)
}
