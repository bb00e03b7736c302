package sidecar

import (
	"context"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Jobs that share a rate_limit.key wait in lanes, one in each queue (contract §4.12). Of a
// lane the first job alone is in line, and only while the limit lets one start: whatever
// changes a limit, or who is first, puts that right in the same transaction. So a FETCH
// finds in line what may start, however many wait behind, and a job without a limit
// has nothing to do with any of this.

// limiting is what a turn has to do with limits.
type limiting struct {
	now   time.Time
	opens time.Time // when the soonest of the limits opens that it has left closed
}

// clock is the instant of a turn for all that it does to limits.
func (t *turn) clock() time.Time { return t.limiting().now }

func (t *turn) limiting() *limiting {
	if t.limits == nil {
		t.limits = &limiting{now: t.s.now()}
	}
	return t.limits
}

// limit is the limit of a key, a new one with the pace of the job that asks where
// there is none.
func (t *turn) limit(ask job.LimitAsk) (l *job.Limit, fresh bool, err error) {
	l, err = t.Limit(ask.Key)
	if err != nil && job.KindOf(err) == job.NotFound {
		l = job.NewLimit(ask.Key, t.clock())
		l.Define(ask.Pace, t.clock())
		return l, true, nil
	}
	return l, false, err
}

// insertLimited stores a new job with a rate limit, unless store says that there is no
// room for it. What it says of its key holds from now on.
func (t *turn) insertLimited(j *job.Job, store func() (bool, error)) (bool, error) {
	ask := j.LimitAsk()
	l, fresh, err := t.limit(ask)
	if err != nil {
		return false, err
	}
	news := l.Define(ask.Pace, t.clock())
	var displaced *job.Job
	if j.State == job.Available && j.Lane != "" {
		if displaced, err = t.place(j, l, t.clock()); err != nil {
			return false, err
		}
	}
	if stored, err := store(); err != nil || !stored {
		return false, err
	}
	t.changes = append(t.changes, change{job: j})
	if err := t.line(displaced, true); err != nil {
		return true, err
	}
	if open, _ := l.Open(t.clock()); fresh || news || !open && j.Lane != "" && l.OpensAt.IsZero() {
		return true, t.settle(l, t.clock(), fresh || news)
	}
	return true, nil
}

// place says where in its lane a job stands that enters it, and returns whom it puts
// behind itself.
func (t *turn) place(j *job.Job, l *job.Limit, now time.Time) (displaced *job.Job, err error) {
	head, err := t.LaneHead(l.Key, j.Queue)
	if err != nil {
		return nil, err
	}
	if head != nil && !j.Before(head) {
		j.Behind = true
		return nil, nil
	}
	open, _ := l.Open(now)
	if j.Behind = !open; head != nil && !head.Behind {
		displaced = head
	}
	return displaced, nil
}

// line stores that a job is in line, or not any more. It may be nil.
func (t *turn) line(j *job.Job, behind bool) error {
	if j == nil {
		return nil
	}
	j.Behind = behind
	err := t.store(j)
	if err == nil {
		t.changes = append(t.changes, change{job: j, from: job.Available, promoted: !behind, demoted: behind})
	}
	return err
}

// settle puts the heads of all lanes of a key in line, or behind, as its limit has it, and
// stores the limit if that has changed.
func (t *turn) settle(l *job.Limit, now time.Time, changed bool) error {
	heads, err := t.LaneHeads(l.Key)
	if err != nil {
		return err
	}
	open, from := l.Open(now)
	for _, h := range heads {
		if h.Behind == open {
			if err := t.line(h, !open); err != nil {
				return err
			}
		}
	}
	if len(heads) == 0 {
		from = time.Time{}
	}
	t.limiting().opens = sooner(t.limits.opens, from)
	if changed = changed || !from.Equal(l.OpensAt); !changed {
		return nil
	}
	l.OpensAt = from
	return t.PutLimit(l)
}

// putLimited stores what has become of a job with a rate limit, and what follows from
// that for its key.
func (t *turn) putLimited(j *job.Job, write func(*job.Job) error) error {
	old, err := t.Job(j.ID)
	if err != nil {
		return err
	}
	if j.Queue != old.Queue {
		if was, ask := old.LimitAsk(), j.LimitAsk(); was.Key != ask.Key {
			return t.changeKey(j, was, ask, write)
		}
	}
	now := t.clock()
	began, ended := j.State == job.Active && old.State != job.Active, old.State == job.Active && j.State != job.Active
	enters := j.State == job.Available && old.State != job.Available && j.Lane != ""
	moved := j.State == job.Available && old.State == job.Available && (j.Priority != old.Priority || j.Queue != old.Queue) && j.Lane != ""
	left := j.State != job.Available && old.InLine() && j.Lane != ""
	if j.State == job.Available && !enters {
		j.Behind = old.Behind // a caller may have read it before it was its turn
	}
	if !began && !ended && !enters && !moved && !left {
		return write(j)
	}
	l, _, err := t.limit(j.LimitAsk())
	if err != nil {
		return err
	}
	if ended {
		l.Ended(now)
	}
	if began {
		now = later(now, j.StartedAt)
		l.Started(j.StartedAt)
	}
	var displaced *job.Job
	if moved {
		j.Behind = true
		if displaced, err = t.overtaken(j, l); err != nil {
			return err
		}
	}
	if enters {
		if displaced, err = t.place(j, l, now); err != nil {
			return err
		}
	}
	if err := write(j); err != nil {
		return err
	}
	if err := t.line(displaced, true); err != nil {
		return err
	}
	return t.settle(l, now, began || ended)
}

// overtaken is who stands in line in a lane, and comes behind a job there that gets another
// place; nil for none.
func (t *turn) overtaken(j *job.Job, l *job.Limit) (*job.Job, error) {
	head, err := t.LaneHead(l.Key, j.Queue)
	if err != nil || head == nil || head.ID == j.ID || head.Behind || !j.Before(head) {
		return nil, err
	}
	return head, nil
}

// changeKey is putLimited for a job whose key is that of its queue, and changes with it.
func (t *turn) changeKey(j *job.Job, was, ask job.LimitAsk, write func(*job.Job) error) error {
	now := t.clock()
	from, _, err := t.limit(was)
	if err != nil {
		return err
	}
	to, fresh, err := t.limit(ask)
	if err != nil {
		return err
	}
	var displaced *job.Job
	switch {
	case j.State == job.Active:
		from.Ended(now)
		to.Joined(now)
	case j.State == job.Available && j.Lane != "":
		j.Behind = false
		if displaced, err = t.place(j, to, now); err != nil {
			return err
		}
	}
	if err := write(j); err != nil {
		return err
	}
	if err := t.line(displaced, true); err != nil {
		return err
	}
	if err := t.settle(from, now, j.State == job.Active); err != nil {
		return err
	}
	return t.settle(to, now, fresh || j.State == job.Active)
}

// mayStart reports whether a job with a rate limit that has come up may start. One that may
// not is put where it wants to be meanwhile.
func (t *turn) mayStart(j *job.Job, now time.Time) (bool, error) {
	ask := j.LimitAsk()
	l, _, err := t.limit(ask)
	if err != nil {
		return false, err
	}
	if open, _ := l.Open(now); open {
		return true, nil
	}
	switch ask.OnLimit {
	case job.DropOnLimit:
		if err := j.Drop(now, ask.Key); err != nil {
			return false, err
		}
		return false, t.save(j)
	case job.RescheduleOnLimit:
		if err := j.Defer(now, l.Later(now)); err != nil {
			return false, err
		}
		if err := t.PutLimit(l); err != nil {
			return false, err
		}
		return false, t.save(j)
	}
	stored, err := t.Job(j.ID)
	if err == nil && stored.InLine() { // else one that started a moment ago has put it behind
		err = t.line(stored, true)
	}
	if err != nil {
		return false, err
	}
	return false, t.settle(l, now, false)
}

// openDue lets those go on whose limits open at now by the clock.
func (t *turn) openDue(now time.Time) error {
	due, err := t.OpeningLimits(now, slice)
	if err != nil {
		return err
	}
	for _, l := range due {
		if err := t.settle(l, now, false); err != nil {
			return err
		}
	}
	return nil
}

// open lets those go on whose limits open by the clock.
func (s *Sidecar) open(ctx context.Context, now time.Time) (next time.Time, err error) {
	queues := s.shut.due(now, s.wakeups.present.Load() > 0)
	err = s.update(ctx, func(t *turn) error {
		if err := t.openDue(now); err != nil {
			return err
		}
		for _, q := range queues {
			if err := t.openQueue(q, now); err != nil {
				return err
			}
		}
		next, err = t.NextOpening()
		return err
	})
	if err != nil {
		for _, q := range queues {
			s.shut.until(q, now)
		}
	}
	return sooner(next, s.shut.next()), err
}

// forgetLimits drops the limits that nothing depends on any more.
func (s *Sidecar) forgetLimits(ctx context.Context, now time.Time) error {
	for after := ""; ; {
		page, err := view(ctx, s, func(tx job.ReadTx) ([]*job.Limit, error) {
			page, _, err := tx.Limits(after, slice)
			return page, err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].Key
		page = slices.DeleteFunc(page, func(l *job.Limit) bool { return !l.Forgettable(now) })
		if len(page) == 0 {
			continue
		}
		if err := s.update(ctx, func(t *turn) error { return forgetSome(t, page, now) }); err != nil {
			return err
		}
	}
}

func forgetSome(t *turn, page []*job.Limit, now time.Time) error {
	for _, seen := range page {
		l, err := t.Limit(seen.Key)
		if err != nil && job.KindOf(err) == job.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		heads, err := t.LaneHeads(l.Key)
		if err != nil {
			return err
		}
		if len(heads) > 0 || !l.Forgettable(now) {
			continue
		}
		if err := t.DeleteLimit(l.Key); err != nil {
			return err
		}
	}
	return nil
}

// Limits lists limits; see [job.LimitService].
func (s *Sidecar) Limits(ctx context.Context, f job.LimitFilter) (job.LimitPage, error) {
	n, now := f.Limit, s.now()
	if n == 0 {
		n = 50
	}
	if n < 1 || n > 200 || f.Offset < 0 {
		return job.LimitPage{}, job.Errorf(job.Invalid, "limit must be 1 to 200 and offset 0 or more, got %d and %d", f.Limit, f.Offset).
			With(map[string]any{"field": "limit"})
	}
	return view(ctx, s, func(tx job.ReadTx) (page job.LimitPage, err error) {
		found, total, err := tx.Limits(max(f.Cursor, job.BeforeLimitKeys), f.Offset+n+1)
		if err != nil {
			return page, err
		}
		page.Total = total
		found = found[min(f.Offset, len(found)):]
		if len(found) > n {
			found = found[:n]
			page.Next = found[n-1].Key
		}
		for _, l := range found {
			info, err := limitInfo(tx, l, now)
			if err != nil {
				return page, err
			}
			page.Limits = append(page.Limits, info)
		}
		return page, nil
	})
}

func limitInfo(tx job.LimitReader, l *job.Limit, now time.Time) (job.LimitInfo, error) {
	waiting, err := tx.LaneDepth(l.Key)
	return job.LimitInfo{Key: l.Key, Pace: l.Holds(), Override: l.Override, Active: l.Active, Waiting: waiting, Permits: l.Permits(now)}, err
}

// Limit reads a limit; see [job.LimitService].
func (s *Sidecar) Limit(ctx context.Context, key string) (job.LimitInfo, error) {
	if job.IsQueueLimit(key) { // which the configuration of the queue tells
		return job.LimitInfo{}, job.NoLimit(key)
	}
	now := s.now()
	return view(ctx, s, func(tx job.ReadTx) (job.LimitInfo, error) {
		l, err := tx.Limit(key)
		if err != nil {
			return job.LimitInfo{}, err
		}
		return limitInfo(tx, l, now)
	})
}

// OverrideLimit sets what a key allows; see [job.LimitService].
func (s *Sidecar) OverrideLimit(ctx context.Context, key string, p job.Pace) (job.LimitInfo, error) {
	if !job.ValidLimitKey(key) {
		return job.LimitInfo{}, job.InvalidLimitKey(key)
	}
	if err := p.Validate(); err != nil {
		return job.LimitInfo{}, err
	}
	return s.changeLimit(ctx, key, &p)
}

// DropLimitOverride lets the jobs decide again; see [job.LimitService].
func (s *Sidecar) DropLimitOverride(ctx context.Context, key string) (job.LimitInfo, error) {
	return s.changeLimit(ctx, key, nil)
}

func (s *Sidecar) changeLimit(ctx context.Context, key string, override *job.Pace) (info job.LimitInfo, err error) {
	if job.IsQueueLimit(key) {
		return info, job.NoLimit(key)
	}
	err = s.update(ctx, func(t *turn) error {
		l, err := t.Limit(key)
		if err != nil && override != nil && job.KindOf(err) == job.NotFound {
			l, err = job.NewLimit(key, t.clock()), nil
		}
		if err != nil {
			return err
		}
		l.SetOverride(override, t.clock())
		if err := t.settle(l, t.clock(), true); err != nil {
			return err
		}
		info, err = limitInfo(t, l, t.clock())
		return err
	})
	return info, err
}

// permits is what the key of a job lets through now, nil where it has none.
func (s *Sidecar) permits(ctx context.Context, j *job.Job) *job.Permits {
	ask := j.LimitAsk()
	if ask.Own == "" {
		return nil
	}
	l, err := view(ctx, s, func(tx job.ReadTx) (*job.Limit, error) { return tx.Limit(ask.Key) })
	if err != nil {
		return nil // the job is stored, and that is what was asked for
	}
	p := l.Permits(s.now())
	return &p
}
