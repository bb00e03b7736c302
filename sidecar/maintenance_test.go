package sidecar_test

import (
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
)

// In a maintenance no schedule fires and no job is promoted, also with a server that has
// started in the middle of it. After it what was missed is made up for once, whether
// somebody has ended it or its time was over.
func TestNothingIsDueInAMaintenance(t *testing.T) {
	for name, end := range map[string]struct {
		ask  job.MaintenanceAsk
		over bool
	}{"by hand": {job.MaintenanceAsk{On: true}, false}, "by itself": {job.MaintenanceAsk{On: true, Duration: 9 * time.Minute}, true}} {
		t.Run(name, func(t *testing.T) {
			store, now := openStore(t), storetest.Now
			clock := func() time.Time { return now }
			s := sidecar.New(store, sidecar.Options{Now: clock})
			ctx := t.Context()
			s.Recover(ctx)
			if _, _, err := s.PutCron(ctx, job.CronSpec{Name: "c", Expression: "* * * * *", Overlap: job.OverlapAllow, Template: []byte(`{"type":"a.b","args":[]}`)}); err != nil {
				t.Fatal(err)
			}
			rs, err := s.Enqueue(ctx, job.Envelope{Type: "a.later", Args: []byte(`[]`), ScheduledAt: now.Add(time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.SetMaintenance(ctx, end.ask); err != nil {
				t.Fatal(err)
			}
			look := func(runs int, state job.State) {
				t.Helper()
				s.Recover(ctx)
				all, err := s.CronHistory(ctx, "c", 0)
				if err != nil || len(all) != runs {
					t.Errorf("%d runs, want %d; %v", len(all), runs, err)
				}
				if j, err := s.Job(ctx, rs[0].ID); err != nil || j.State != state {
					t.Errorf("the job is %v, want %s; %v", j, state, err)
				}
			}
			now = now.Add(3 * time.Minute)
			look(0, job.Scheduled)
			s = sidecar.New(store, sidecar.Options{Now: clock})
			now = now.Add(5 * time.Minute)
			look(0, job.Scheduled)
			if _, err := s.TriggerCron(ctx, "c"); err != nil { // an operator may
				t.Error(err)
			}
			look(1, job.Scheduled)
			if now = now.Add(2 * time.Minute); !end.over {
				look(1, job.Scheduled)
				if _, err := s.SetMaintenance(ctx, job.MaintenanceAsk{}); err != nil {
					t.Fatal(err)
				}
			}
			look(2, job.Available)
		})
	}
}
