package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// flakyTicks is Ticks that fails, is late, and says that another server was first.
type flakyTicks struct {
	n    atomic.Int64
	mu   sync.Mutex
	made map[string]job.ID // by schedule and tick
}

func (f *flakyTicks) Fire(_ context.Context, ticks []job.Tick, live func(job.ID) (bool, error)) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	skipped := make([]string, len(ticks))
	for i, t := range ticks {
		key := t.Name + t.At.String()
		switch was := f.made[key]; {
		case was == "" && f.n.Add(1)%7 == 0:
			f.made[key], skipped[i] = "elsewhere", job.SkippedElsewhere
		case was == "":
			f.made[key] = t.Envelope.ID()
		case was != t.Envelope.ID():
			skipped[i] = job.SkippedElsewhere
		}
		if _, err := live(t.Envelope.ID()); err != nil {
			return nil, err
		}
	}
	if f.n.Add(1)%5 == 0 {
		return nil, unavailable()
	}
	return skipped, nil
}

// host is a service over a store, which fails when a test says so.
type host struct {
	job.Store
	fail func() error
}

func (h host) update(ctx context.Context, fn func(Tx) error) error {
	if err := h.fail(); err != nil {
		return err
	}
	return h.Update(ctx, func(tx job.Tx) error { return fn(hostTx{tx}) })
}

// hostTx saves as a service does.
type hostTx struct{ job.Tx }

func (t hostTx) Save(j *job.Job) error {
	ends, next := j.State.Terminal() && !j.Was().Terminal(), job.ID("")
	if ends {
		next = j.Leave()
	}
	if err := t.UpdateJob(j); err != nil || !ends {
		return err
	}
	waiting, err := t.Waiting(j.ID)
	for _, w := range waiting {
		err = errors.Join(err, w.Follow(next, j.FinishedAt), t.RewriteJob(w))
	}
	return err
}

func (t hostTx) Insert(js ...*job.Job) error {
	stored, err := t.InsertJobs(js)
	if slices.Contains(stored, false) {
		err = errors.New("an id is taken")
	}
	return err
}

func (t hostTx) InsertKeyed(*job.Job, time.Time) (job.Receipt, error) {
	panic("no schedule of these tests has a key")
}

func (t hostTx) BeginFlow(*job.Flow, job.ID, time.Time) (*job.Workflow, error) {
	panic("no schedule of these tests makes workflows")
}

func (t hostTx) CancelFlow(*job.Flow, string, string, time.Time) error {
	panic("no schedule of these tests makes workflows")
}

func (t hostTx) Left(j *job.Job) *job.Job { return j }

// work claims some jobs and completes them.
func (h host) work(ctx context.Context, now time.Time) {
	_ = h.Update(ctx, func(tx job.Tx) error {
		jobs, err := tx.Available([]string{"default"}, 20)
		for _, j := range jobs {
			err = errors.Join(err, j.Start(now, job.Lease{Token: "t", Length: time.Hour}), j.Complete(now, job.Claim{ID: j.ID, Token: "t"}, nil), hostTx{tx}.Save(j))
		}
		return err
	})
}

func unavailable() error { return job.Errorf(job.Unavailable, "there is no space left") }

// Verbs race with the loop, with a store that fails, a middleware that refuses
// and ticks that fail: memory and disk agree in the end, and nothing is left behind.
func TestVerbsRaceWithTheLoop(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) { raceVerbs(t, shared) })
	}
}

func raceVerbs(t *testing.T, shared bool) {
	before := goleak.IgnoreCurrent()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	h := host{Store: store, fail: func() error {
		if calls.Add(1)%11 == 0 {
			return unavailable()
		}
		return nil
	}}
	moody := func(context.Context, *job.Checked) error {
		switch calls.Add(1) % 13 {
		case 0:
			return unavailable()
		case 1:
			return job.Errorf(job.Rejected, "no")
		}
		return nil
	}
	var ahead atomic.Int64
	now := func() time.Time {
		return time.Now().Add(time.Duration(ahead.Load())).UTC().Truncate(time.Millisecond)
	}
	ticks := Ticks(nil)
	if shared {
		ticks = &flakyTicks{made: map[string]job.ID{}}
	}
	s := New(Host{Log: slog.New(slog.DiscardHandler), Now: now, NewID: func() job.ID { return job.ID(uuid.Must(uuid.NewV7()).String()) },
		View: store.View, Update: h.update, Admit: moody, Show: func(...*job.Job) {}}, ticks)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	names := make([]string, 30)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	overlaps := []job.Overlap{job.OverlapAllow, job.OverlapSkip, job.OverlapEnqueue, job.OverlapCancel}
	var all sync.WaitGroup
	until := time.Now().Add(time.Second)
	for g := range 4 {
		all.Go(func() {
			for i := g; time.Now().Before(until); i++ {
				name := names[(i*7)%len(names)]
				switch (i + g) % 6 {
				case 0, 1:
					overlap := overlaps[i%4]
					if shared {
						overlap = overlaps[i%2]
					}
					_, _, _ = s.PutCron(ctx, job.CronSpec{Name: name, Expression: "* * * * * *", Overlap: overlap, Template: json.RawMessage(`{"type":"a.b","args":[]}`)})
				case 2:
					words := fmt.Sprint(i)
					_, _ = s.ChangeCron(ctx, name, job.CronPatch{Description: &words})
				case 3:
					_, _ = s.TriggerCron(ctx, name)
				case 4:
					if i%5 == 0 {
						_, _ = s.DeleteCron(ctx, name)
					}
					on := i%3 != 0
					_, _ = s.ChangeCron(ctx, name, job.CronPatch{Enabled: &on})
				case 5:
					h.work(ctx, now())
					ahead.Add(int64(300 * time.Millisecond))
				}
			}
		})
	}
	all.Wait()
	stop()
	<-ended
	// Memory is what is stored.
	stored, err := s.Crons(t.Context(), job.CronFilter{})
	if err != nil {
		t.Fatal(err)
	}
	ran := int64(0)
	for _, c := range stored.Crons {
		e := s.table.byName[c.Name]
		ran += c.RunCount
		switch {
		case !c.On():
			if e != nil {
				t.Errorf("%s is paused, and in line", c.Name)
			}
		case e == nil || e.place < 0:
			t.Errorf("%s is not in line: %+v", c.Name, e)
		case !e.cron.SeenAt.Equal(c.SeenAt) || !e.cron.UpdatedAt.Equal(c.UpdatedAt) || e.cron.RunCount != c.RunCount || e.cron.LastJob != c.LastJob || len(e.cron.Runs) != len(c.Runs):
			t.Errorf("%s is %+v in memory and %+v on disk", c.Name, e.cron, c)
		}
	}
	if ran == 0 {
		t.Error("nothing has run")
	}
	if len(s.table.byName) > len(stored.Crons) {
		t.Errorf("%d schedules in memory, %d on disk", len(s.table.byName), len(stored.Crons))
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
