package storetest

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func settingsOf(t *testing.T, name, status, config string) *job.QueueSettings {
	t.Helper()
	c, err := job.ParseQueueConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return &job.QueueSettings{Name: name, Status: status, Since: Now, By: "ada", Config: c}
}

var errUnwanted = errors.New("not wanted")

// settings are kept, hold under the template, and are undone with their call.
func settings(t *testing.T, s job.Store) {
	timeouts := func(tx job.QueueReader, want map[string]time.Duration) {
		t.Helper()
		for name, want := range want {
			set, err := tx.QueueSettings(name)
			if err != nil || set.Effective().DefaultTimeout != want {
				t.Errorf("%s: %v, %v; want %v", name, set.Effective().DefaultTimeout, err, want)
			}
		}
	}
	both := func(want map[string]time.Duration) {
		t.Helper()
		update(t, s, func(tx job.Tx) error { timeouts(tx, want); return nil })
		view(t, s, func(tx job.ReadTx) error { timeouts(tx, want); return nil })
	}
	view(t, s, func(tx job.ReadTx) error {
		if set, err := tx.QueueSettings("a"); set != nil || err != nil {
			t.Errorf("nothing is set: %+v, %v", set, err)
		}
		return nil
	})
	update(t, s, func(tx job.Tx) error {
		for _, set := range []*job.QueueSettings{
			settingsOf(t, "a", job.QueuePaused, `{"default_timeout":10,"x_own":[1.0]}`), settingsOf(t, "b", "", `{"concurrency":2}`),
			settingsOf(t, job.TemplateQueue, "", `{"default_timeout":20}`),
		} {
			if err := tx.PutQueueSettings(set); err != nil {
				return err
			}
		}
		timeouts(tx, map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second, "c": 20 * time.Second})
		return nil
	})
	both(map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second, "c": 20 * time.Second})
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.PutQueueSettings(settingsOf(t, "c", "", `{"default_timeout":30}`)); err != nil {
			return err
		}
		if err := tx.DeleteQueueSettings(job.TemplateQueue); err != nil {
			return err
		}
		timeouts(tx, map[string]time.Duration{"b": 0, "c": 30 * time.Second})
		return errUnwanted
	})
	if !errors.Is(err, errUnwanted) {
		t.Error(err)
	}
	both(map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second, "c": 20 * time.Second})
	update(t, s, func(tx job.Tx) error { return tx.DeleteQueueSettings(job.TemplateQueue) })
	both(map[string]time.Duration{"a": 10 * time.Second, "b": 0, "c": 0})
	view(t, s, func(tx job.ReadTx) error {
		all, err := tx.AllQueueSettings()
		if err != nil || len(all) != 2 || all[0].Name != "a" || all[0].By != "ada" || !all[0].Since.Equal(Now) || string(all[0].Config.Raw) != `{"default_timeout":10,"x_own":[1.0]}` || all[1].Paused() {
			t.Errorf("%+v, %v", all, err)
		}
		return nil
	})
}

// pausedQueues have jobs that nobody can claim, and none else.
func pausedQueues(t *testing.T, s job.Store) {
	insert(t, s, New(t, "a", nil), New(t, "b", nil))
	claimable := func(want int) {
		t.Helper()
		update(t, s, func(tx job.Tx) error {
			jobs, err := tx.Available([]string{"a", "b"}, 9)
			if len(jobs) != want {
				t.Errorf("%d jobs can be claimed, want %d", len(jobs), want)
			}
			return err
		})
	}
	claimable(2)
	for _, status := range []string{job.QueuePaused, job.QueueDraining} {
		update(t, s, func(tx job.Tx) error { return tx.PutQueueSettings(settingsOf(t, "a", status, `{}`)) })
		view(t, s, func(tx job.ReadTx) error {
			q, err := tx.Queue("a")
			if q.Paused != (status == job.QueuePaused) || q.Draining != (status == job.QueueDraining) || q.By != "ada" || !q.Since.Equal(Now) {
				t.Errorf("%s: %+v", status, q)
			}
			return err
		})
		claimable(map[string]int{job.QueuePaused: 1, job.QueueDraining: 2}[status])
	}
	update(t, s, func(tx job.Tx) error {
		old, err := tx.Oldest("a", 9)
		if len(old) != 1 {
			t.Errorf("%d are the oldest", len(old))
		}
		return err
	})
}

// madeQueues are there without a job, and gone when they are deleted, with what was set
// and counted of them.
func madeQueues(t *testing.T, s job.Store) {
	update(t, s, func(tx job.Tx) error { return tx.PutQueue("new", Now) })
	kind := func(name string, want job.Kind) {
		t.Helper()
		check := func(tx job.QueueReader) error {
			q, err := tx.Queue(name)
			if job.KindOf(err) != want || err == nil && want != 0 || err == nil && !q.CreatedAt.Equal(Now) {
				t.Errorf("%s: %+v, %v", name, q, err)
			}
			return nil
		}
		update(t, s, func(tx job.Tx) error { return check(tx) })
		view(t, s, func(tx job.ReadTx) error { return check(tx) })
	}
	kind("new", 0)
	kind("none", job.NotFound)
	j := New(t, "new", nil)
	update(t, s, func(tx job.Tx) error {
		if err := tx.InsertJob(j); err != nil {
			return err
		}
		if err := tx.DeleteQueue("new"); job.KindOf(err) != job.Conflict {
			t.Errorf("with a job in it: %v", err)
		}
		return tx.PutQueueSettings(settingsOf(t, "new", job.QueuePaused, `{}`))
	})
	update(t, s, func(tx job.Tx) error {
		if err := tx.DeleteJob(j.ID); err != nil {
			return err
		}
		return tx.DeleteQueue("new")
	})
	kind("new", job.NotFound)
	view(t, s, func(tx job.ReadTx) error {
		slots, err := tx.Slots("", time.UnixMilli(0))
		set, serr := tx.AllQueueSettings()
		if len(slots)+len(set) != 0 || serr != nil {
			t.Errorf("%+v, %+v, %v", slots, set, serr)
		}
		return err
	})
	update(t, s, func(tx job.Tx) error {
		if err := tx.DeleteQueue("new"); job.KindOf(err) != job.NotFound {
			t.Errorf("twice: %v", err)
		}
		if err := tx.PutQueue("new", Now); err != nil { // and made anew in the call that deletes it once more
			return err
		}
		if err := tx.DeleteQueue("new"); err != nil {
			return err
		}
		return tx.PutQueue("new", Now)
	})
	kind("new", 0)
	next := New(t, "new", nil)
	insert(t, s, next)
	if next.Seq <= j.Seq {
		t.Errorf("the next job has the number %d, the one before %d", next.Seq, j.Seq)
	}
}

// slots count what happened, minute by minute, and nothing of a call that failed.
func slots(t *testing.T, s job.Store) {
	a := New(t, "a", nil)
	insert(t, s, a, New(t, "b", nil))
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.InsertJob(New(t, "a", nil)); err != nil {
			return err
		}
		return errUnwanted
	})
	if !errors.Is(err, errUnwanted) {
		t.Error(err)
	}
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(a.ID)
		if err != nil {
			return err
		}
		if err := j.Start(Now.Add(1500*time.Millisecond), job.Lease{Token: "x", Length: time.Hour}); err != nil {
			return err
		}
		return tx.UpdateJob(j)
	})
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(a.ID)
		if err != nil {
			return err
		}
		if err := j.Complete(Now.Add(2*time.Minute), job.Claim{ID: a.ID, Token: "x"}, nil); err != nil {
			return err
		}
		return tx.UpdateJob(j)
	})
	first, last := job.SlotOf(Now), job.SlotOf(Now.Add(2*time.Minute))
	for _, tt := range []struct {
		queue string
		from  time.Time
		want  []job.Slot
	}{
		{"a", first, []job.Slot{{Start: first, Tally: job.Tally{Enqueued: 1, Started: 1, Waited: 1500 * time.Millisecond}}, {Start: last, Tally: job.Tally{Completed: 1, Timed: 1, Took: 118500 * time.Millisecond}}}},
		{"a", last, []job.Slot{{Start: last, Tally: job.Tally{Completed: 1, Timed: 1, Took: 118500 * time.Millisecond}}}},
		{"b", first, []job.Slot{{Start: first, Tally: job.Tally{Enqueued: 1}}}},
		{"", first, []job.Slot{{Start: first, Tally: job.Tally{Enqueued: 2, Started: 1, Waited: 1500 * time.Millisecond}}, {Start: last, Tally: job.Tally{Completed: 1, Timed: 1, Took: 118500 * time.Millisecond}}}},
		{"c", first, nil},
	} {
		view(t, s, func(tx job.ReadTx) error {
			got, err := tx.Slots(tt.queue, tt.from)
			if len(got) != len(tt.want) {
				t.Errorf("%q: %+v", tt.queue, got)
				return err
			}
			for i := range got {
				if !got[i].Start.Equal(tt.want[i].Start) || got[i].Tally != tt.want[i].Tally {
					t.Errorf("%q: %+v, want %+v", tt.queue, got[i], tt.want[i])
				}
			}
			return err
		})
	}
	update(t, s, func(tx job.Tx) error { return tx.PruneSlots("a", last) })
	view(t, s, func(tx job.ReadTx) error {
		got, err := tx.Slots("a", first)
		if len(got) != 1 {
			t.Errorf("pruned: %+v", got)
		}
		return err
	})
}

// waitingOf tells which priorities wait in a queue, and since when.
func waitingOf(t *testing.T, s job.Store) {
	check := func(want map[int]int64, oldest time.Time) {
		t.Helper()
		view(t, s, func(tx job.ReadTx) error {
			got, err := tx.Priorities("a")
			at, oerr := tx.OldestSince("a")
			if err != nil || oerr != nil || !maps.Equal(got, want) || !at.Equal(oldest) {
				t.Errorf("%v since %v, %v, %v; want %v since %v", got, at, err, oerr, want, oldest)
			}
			return nil
		})
	}
	check(map[int]int64{}, time.Time{})
	var jobs []*job.Job
	for i, p := range []int{5, -3, 5, 0} {
		j := New(t, "a", func(j *job.Job) { j.Priority = p })
		j.EnqueuedAt = Now.Add(time.Duration(i) * time.Second)
		jobs = append(jobs, j)
	}
	insert(t, s, jobs[1:]...)
	check(map[int]int64{5: 1, -3: 1, 0: 1}, Now.Add(time.Second))
	insert(t, s, New(t, "other", nil))
	update(t, s, func(tx job.Tx) error {
		old, err := tx.Oldest("a", 2)
		if err != nil || len(old) != 2 || old[0].ID != jobs[1].ID || old[1].ID != jobs[2].ID {
			t.Errorf("the oldest are %d jobs, %v", len(old), err)
		}
		j, err := tx.Job(jobs[1].ID)
		if err != nil {
			return err
		}
		j.Priority = 9
		return tx.UpdateJob(j)
	})
	check(map[int]int64{5: 1, 9: 1, 0: 1}, Now.Add(time.Second))
	update(t, s, func(tx job.Tx) error {
		got, err := tx.Available([]string{"a"}, 1)
		if len(got) != 1 || got[0].ID != jobs[1].ID {
			t.Error("the claim does not heed the priority that was changed")
		}
		return err
	})
}

// movedJobs change their queue, with its counters and its claim.
func movedJobs(t *testing.T, s job.Store) {
	j := New(t, "from", nil)
	insert(t, s, j, New(t, "to", nil))
	update(t, s, func(tx job.Tx) error {
		if _, err := tx.Available([]string{"from", "to"}, 9); err != nil {
			return err
		}
		moved, err := tx.Job(j.ID)
		if err != nil {
			return err
		}
		if err := moved.MoveTo("to"); err != nil {
			return err
		}
		return tx.UpdateJob(moved)
	})
	update(t, s, func(tx job.Tx) error {
		left, err := tx.Available([]string{"from"}, 9)
		if err != nil || len(left) != 0 {
			t.Errorf("%d jobs are left, %v", len(left), err)
		}
		there, err := tx.Available([]string{"to"}, 9)
		if len(there) != 2 || there[1].ID != j.ID {
			t.Errorf("%d jobs are there", len(there))
		}
		return err
	})
	view(t, s, func(tx job.ReadTx) error {
		from, err := tx.Queue("from")
		to, terr := tx.Queue("to")
		if terr != nil || from.Depth() != 0 || to.Depth() != 2 {
			t.Errorf("%+v, %+v, %v", from, to, terr)
		}
		return err
	})
}

// keptAnswers are given again under their key until they are pruned.
func keptAnswers(t *testing.T, s job.Store) {
	update(t, s, func(tx job.Tx) error {
		if _, answer, err := tx.Answer("k"); answer != nil || err != nil {
			t.Errorf("nothing was answered: %s, %v", answer, err)
		}
		return tx.PutAnswer("k", "d", []byte(`{"n":1}`), Now)
	})
	read := func(want string) {
		t.Helper()
		update(t, s, func(tx job.Tx) error {
			digest, answer, err := tx.Answer("k")
			if string(answer) != want || want != "" && digest != "d" {
				t.Errorf("%q %s", digest, answer)
			}
			return err
		})
	}
	read(`{"n":1}`)
	update(t, s, func(tx job.Tx) error { return tx.PruneAnswers(Now) })
	read(`{"n":1}`)
	update(t, s, func(tx job.Tx) error { return tx.PruneAnswers(Now.Add(time.Millisecond)) })
	read("")
}
