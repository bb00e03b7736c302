package schedule

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// epoch is from when an @every counts where several servers share the ticks:
// each of them has its own idea of when the schedule was made.
var epoch = time.Unix(0, 0)

// anchorOf is from when an @every of a schedule counts.
func (s *Schedules) anchorOf(c *job.Cron) time.Time {
	if s.ticks != nil {
		return epoch
	}
	return c.AnchorAt
}

// PutCron stores a schedule; see [job.CronService].
func (s *Schedules) PutCron(ctx context.Context, spec job.CronSpec) (c *job.Cron, created bool, err error) {
	c, err = s.keepCron(ctx, spec.Name, func(old *job.Cron) (job.CronSpec, error) {
		created = old == nil
		if old != nil && spec.Enabled == nil {
			spec.Enabled = old.Enabled
		}
		return spec, nil
	})
	return c, created && err == nil, err
}

// ChangeCron changes parts of a schedule; see [job.CronService].
func (s *Schedules) ChangeCron(ctx context.Context, name string, p job.CronPatch) (*job.Cron, error) {
	return s.keepCron(ctx, name, func(old *job.Cron) (job.CronSpec, error) {
		if old == nil {
			return job.CronSpec{}, job.NoCron(name)
		}
		if p.Empty() {
			return job.CronSpec{}, job.Errorf(job.Invalid, "the patch of %s changes nothing", name)
		}
		return p.Apply(old.CronSpec)
	})
}

// keepCron stores the schedule that wish makes of the one that is there, nil for
// none. Only one is stored at a time, so that memory and disk agree.
func (s *Schedules) keepCron(ctx context.Context, name string, wish func(old *job.Cron) (job.CronSpec, error)) (*job.Cron, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.verbs.Unlock()
	old, err := s.Cron(ctx, name)
	if err != nil && job.KindOf(err) != job.NotFound {
		return nil, err
	}
	want, err := wish(old)
	if err != nil {
		return nil, err
	}
	now := s.host.Now()
	spec, makes, err := s.readCron(&want, now)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Same(&want) && *want.Enabled == old.On() && want.Source == old.Source {
		return old, nil
	}
	var c *job.Cron
	err = s.host.Update(ctx, func(tx Tx) error {
		old, err := tx.Cron(name) // a tick may have come in between
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		c = s.revise(old, want, spec, now)
		return tx.PutCron(c)
	})
	if err != nil {
		return nil, err
	}
	s.planned(name, entryOf(c, spec, makes, s.anchorOf(c)))
	return c.Clone(), nil
}

// readCron checks a schedule and fills its defaults.
func (s *Schedules) readCron(c *job.CronSpec, now time.Time) (cronsched.Spec, job.CronTemplate, error) {
	makes, err := c.Validate()
	if err != nil {
		return cronsched.Spec{}, makes, err
	}
	spec, err := cronsched.Parse(c.Expression, c.Timezone)
	if err != nil {
		return spec, makes, err
	}
	c.Timezone = spec.Zone()
	if c.Enabled == nil {
		on := true
		c.Enabled = &on
	}
	if _, ok := spec.Next(now); !ok {
		return spec, makes, job.Errorf(job.Invalid, "cron expression: never fires in the next 100 years: its time does not exist on any of its days in %s", spec.Zone()).
			With(map[string]any{"field": "expression"})
	}
	if s.ticks != nil && c.Overlap != job.OverlapSkip && c.Overlap != job.OverlapAllow {
		return spec, makes, job.Errorf(job.Invalid, "overlap_policy %s needs the run before on this server, and where servers share their schedules any of them may have it; choose skip or allow", c.Overlap).
			With(map[string]any{"field": "overlap_policy"})
	}
	return spec, makes, nil
}

// revise is the schedule as it is to be stored; old is nil for a new one.
func (s *Schedules) revise(old *job.Cron, want job.CronSpec, spec cronsched.Spec, now time.Time) *job.Cron {
	c := &job.Cron{CronSpec: want, CreatedAt: now, UpdatedAt: now, AnchorAt: now, SeenAt: now}
	same := false
	if old != nil {
		same = old.Expression == want.Expression && old.Timezone == want.Timezone
		c = old.Clone()
		c.CronSpec = want
		if c.UpdatedAt = now; !now.After(old.UpdatedAt) {
			c.UpdatedAt = old.UpdatedAt.Add(time.Millisecond) // it is also the version
		}
		if !same {
			c.AnchorAt = now
		}
		if now.Before(c.SeenAt) || !same || old.On() != c.On() {
			cronsched.Skip(c, now)
		}
	}
	c.NextRunAt = time.Time{}
	if c.On() {
		c.NextRunAt = cronsched.Following(c, spec, s.anchorOf(c), c.SeenAt)
	}
	return c
}

// DeleteCron removes a schedule; see [job.CronService].
func (s *Schedules) DeleteCron(ctx context.Context, name string) (*job.Cron, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.verbs.Unlock()
	var c *job.Cron
	if err := s.host.Update(ctx, func(tx Tx) (err error) {
		if c, err = tx.Cron(name); err != nil {
			return err
		}
		return tx.DeleteCron(name)
	}); err != nil {
		return nil, err
	}
	s.planned(name, nil)
	return c, nil
}

// Cron reads a schedule; see [job.CronService].
func (s *Schedules) Cron(ctx context.Context, name string) (*job.Cron, error) {
	return view(ctx, s, func(tx job.ReadTx) (*job.Cron, error) { return tx.Cron(name) })
}

// Crons lists schedules; see [job.CronService].
func (s *Schedules) Crons(ctx context.Context, f job.CronFilter) (job.CronPage, error) {
	all, err := view(ctx, s, job.ReadTx.Crons)
	if f.Enabled != nil {
		all = slices.DeleteFunc(all, func(c *job.Cron) bool { return c.On() != *f.Enabled })
	}
	page := job.CronPage{Crons: all, Total: int64(len(all))}
	if f.Cursor != "" {
		page.Crons = all[sort.Search(len(all), func(i int) bool { return all[i].Name > f.Cursor }):]
	}
	page.Crons = page.Crons[min(max(f.Offset, 0), len(page.Crons)):]
	if f.Limit > 0 && f.Limit < len(page.Crons) {
		page.Crons = page.Crons[:f.Limit]
		page.Next = page.Crons[f.Limit-1].Name
	}
	return page, err
}

// CronHistory returns the newest runs; see [job.CronService].
func (s *Schedules) CronHistory(ctx context.Context, name string, n int) ([]job.CronJob, error) {
	return view(ctx, s, func(tx job.ReadTx) ([]job.CronJob, error) {
		c, err := tx.Cron(name)
		if err != nil {
			return nil, err
		}
		runs := slices.Clone(c.Runs)
		slices.Reverse(runs)
		if n > 0 {
			runs = runs[:min(n, len(runs))]
		}
		history := make([]job.CronJob, len(runs))
		for i, r := range runs {
			if history[i], err = s.line(tx, r); err != nil {
				return nil, err
			}
		}
		return history, nil
	})
}

// TriggerCron makes a job or a workflow of a schedule now; see [job.CronService].
func (s *Schedules) TriggerCron(ctx context.Context, name string) (job.CronJob, error) {
	c, err := s.Cron(ctx, name)
	if err != nil {
		return job.CronJob{}, err
	}
	spec, makes, err := s.readCron(&c.CronSpec, s.host.Now())
	if err != nil {
		return job.CronJob{}, err
	}
	now := s.host.Now()
	r := newRun(c, makes, s.host.NewID(), now, now)
	if err := s.allow(ctx, r); err != nil { // outside of the lock: it may take its time
		return job.CronJob{}, err
	}
	if err := s.lock(ctx); err != nil {
		return job.CronJob{}, err
	}
	defer s.verbs.Unlock()
	version := c.UpdatedAt
	var last Tx
	made := r.made(now)
	err = s.host.Update(ctx, func(tx Tx) error {
		last = tx
		if c, err = tx.Cron(name); err != nil {
			return err
		}
		if !c.UpdatedAt.Equal(version) {
			return job.Errorf(job.Conflict, "the schedule %s was changed while its job was made; trigger it again", name)
		}
		was := c.SeenAt
		if err := s.launch(tx, c, r, now, now, func(j *job.Job) error { return tx.Insert(j) }); err != nil {
			return err
		}
		if r.refusal != nil {
			return r.refusal
		}
		if err := tx.AddEvent(job.CronEvent(job.CronTriggered, name, now, made)); err != nil {
			return err
		}
		c.Note(made)
		return claimed(tx, c, was)
	})
	if r.noteTurnedDown(err) {
		return job.CronJob{}, r.refused
	}
	if err != nil {
		return job.CronJob{}, err
	}
	s.planned(name, entryOf(c, spec, makes, s.anchorOf(c)))
	h := job.CronJob{CronRun: made, Flow: r.began}
	if r.job != nil {
		h.Job = last.Left(r.job)
	}
	return h, nil
}

// load reads the schedules into the timetable, once. The caller holds verbs.
func (s *Schedules) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	now := s.host.Now()
	s.table.reset()
	all, err := view(ctx, s, job.ReadTx.Crons)
	if all == nil && err != nil {
		return err
	}
	if err != nil {
		s.host.Log.Error("stored schedules cannot be read and do not fire; the others do", "error", err)
	}
	for _, c := range all {
		spec, makes, err := s.readCron(&c.CronSpec, now)
		if err != nil {
			s.host.Log.Error("a stored schedule cannot be used on this machine and does not fire; change or remove it", "cron", c.Name, "error", err)
			continue
		}
		if c.On() { // the laws of its zone may have changed
			c.NextRunAt = cronsched.Following(c, spec, s.anchorOf(c), c.SeenAt)
		}
		s.table.put(c.Name, entryOf(c, spec, makes, s.anchorOf(c)))
	}
	s.table.rewound(now)
	s.loaded = true
	return nil
}
