package sqlitestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// inOneGroup has the writer, which is idle, run calls as one group.
func inOneGroup(w *writer, calls []*call) (int, error) {
	return w.commit(&group{calls: calls}, 0)
}

// counting counts the commits of a store that is idle.
func counting(s *Store) *atomic.Int64 {
	var n atomic.Int64
	before := s.w.committed
	s.w.committed = func() { n.Add(1); before() }
	return &n
}

// Whatever comes while a group runs is in its commit: what fails in it as well, before it
// has written or after.
func TestACallThatComesMeanwhileIsInTheSameCommit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := opened(t)
		defer s.Close()
		commits := counting(s)
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"writes", "reads", "fails", "writes and fails"}), 1, 12).Draw(rt, "calls")
		var last time.Time // that a call ran
		var callers sync.WaitGroup
		answers := make([]error, len(names))
		var submit func(i int)
		submit = func(i int) { // each call sends the next one before it ends
			if i == len(names) {
				return
			}
			callers.Go(func() {
				sent := false
				answers[i] = s.Update(context.Background(), func(tx job.Tx) error {
					if !sent {
						sent = true
						submit(i + 1)
						for i+1 < len(names) && len(s.w.calls) == 0 {
							time.Sleep(10 * time.Microsecond)
						}
					}
					last = time.Now()
					var err error
					if names[i] == "writes" || names[i] == "writes and fails" {
						err = tx.PutWorker(job.WorkerInfo{ID: fmt.Sprint(i)})
					}
					if err == nil && (names[i] == "fails" || names[i] == "writes and fails") {
						err = job.Errorf(job.Conflict, "call %d fails", i)
					}
					return err
				})
			})
		}
		began := time.Now()
		submit(0)
		callers.Wait()
		if n := commits.Load(); n != 1 && last.Sub(began) < maxGrown { // on a machine that is busy the group may be closed
			rt.Errorf("%v: %d commits", names, n)
		}
		for i, name := range names {
			fails := name == "fails" || name == "writes and fails"
			if fails != (job.KindOf(answers[i]) == job.Conflict) || !fails && answers[i] != nil {
				rt.Errorf("%v: the answer of call %d is %v", names, i, answers[i])
			}
			_, err := worker(s, fmt.Sprint(i))
			if stored := err == nil; stored != (name == "writes") {
				rt.Errorf("%v: call %d, stored %v, %v", names, i, stored, err)
			}
		}
	})
}

func worker(s *Store, id string) (w job.WorkerInfo, err error) {
	err = s.View(context.Background(), func(tx job.ReadTx) error {
		w, err = tx.Worker(id)
		return err
	})
	return w, err
}

// However many calls come, a group ends, and those in it are answered.
func TestAGroupEndsAlthoughCallsGoOnComing(t *testing.T) {
	s := opened(t)
	var ran, atFirst atomic.Int64
	var callers sync.WaitGroup
	const all = 3*maxGroup + 7
	var submit func(i int64)
	submit = func(i int64) {
		callers.Go(func() {
			if err := s.Update(context.Background(), func(job.Tx) error {
				if ran.Add(1); i < all {
					submit(i + 1)
					for len(s.w.calls) == 0 {
						time.Sleep(time.Microsecond)
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			if i == 1 {
				atFirst.Store(ran.Load())
			}
		})
	}
	submit(1)
	callers.Wait()
	if n := ran.Load(); n != all {
		t.Errorf("%d calls ran", n)
	}
	if n := atFirst.Load(); n > 2*maxGroup {
		t.Errorf("%d calls had run before the first was answered", n)
	}
}
