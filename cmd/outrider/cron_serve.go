package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/cronfile"
	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/job"
)

// needCronFile reports a file of schedules that cannot be read at the start. Its name
// is wrong, or it is not where it belongs, and a server without its schedules would
// look healthy.
func (c config) needCronFile() error {
	if c.cronFile == "" {
		return nil
	}
	if _, err := readfile.File(c.cronFile, readfile.How{Limit: 1, Again: true}); err != nil {
		return fmt.Errorf("the file of schedules, --cron-file %s, cannot be read (%w); create it, or start without it", c.cronFile, err)
	}
	return nil
}

// applyCronFile makes the schedules what the file says, and prints what that
// changes. A mistake in the file keeps no server down: it is logged as an error, and
// the schedules that cannot be read stay as they were.
func (s *server) applyCronFile(ctx context.Context) {
	if s.cfg.cronFile == "" {
		s.logFormerFile(ctx)
		return
	}
	f, err := loadCronFile(s.cfg.cronFile, nil)
	if err == nil {
		err = s.applyCrons(ctx, f)
	}
	if err != nil {
		s.log.Error("the file of schedules was not applied; the schedules stay as they were", "file", s.cfg.cronFile, "err", err)
	}
}

func (s *server) applyCrons(ctx context.Context, f *cronfile.File) error {
	plan, err := cronfile.Compare(ctx, s.side, f, true)
	if err != nil {
		return err
	}
	if err := plan.Apply(ctx, s.side); err != nil {
		return err
	}
	for _, c := range plan.Changes {
		if c.Mark == cronfile.Refused {
			s.log.Error("a schedule of the file was refused; the server keeps what it had under that name", "schedule", c.Name, "err", c.Err)
		}
	}
	if plan.Unsure {
		s.log.Warn("no schedule was removed: a refused entry has no name and may be one of those that are not in the file",
			"file", f.Name, "schedules", strings.Join(plan.Left, ", "))
	}
	s.log.Info("the file of schedules was applied", "file", f.Name, "added", plan.Count(cronfile.Added), "changed", plan.Count(cronfile.Changed),
		"removed", plan.Count(cronfile.Removed), "unchanged", plan.Count(cronfile.Unchanged), "refused", plan.Count(cronfile.Refused))
	if s.cfg.out == nil || !plan.Differs() {
		return nil
	}
	return printPlan(s.cfg.out, plan, time.Now(), false)
}

// logFormerFile says that schedules are left of a file that is not given any more.
func (s *server) logFormerFile(ctx context.Context) {
	page, err := s.side.Crons(ctx, job.CronFilter{})
	if err != nil {
		s.log.Error("look for schedules of a file", "err", err)
		return
	}
	n := 0
	for _, c := range page.Crons {
		if c.Source == cronfile.Source {
			n++
		}
	}
	if n > 0 {
		s.log.Info("schedules that came from a file are kept although no --cron-file is given now; outrider cron rm removes one", "schedules", n)
	}
}
