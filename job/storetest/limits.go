package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// auditLimits checks the limits against a look at all jobs: how many are active, how many
// wait, who is first in each lane, and that nobody else is in line.
func auditLimits(t Reporter, s job.Store, jobs []*job.Job) error {
	t.Helper()
	type lane struct{ key, queue string }
	lanes, depth, active := map[lane][]*job.Job{}, map[string]int64{}, map[string]int{}
	for _, j := range jobs {
		if j.Behind && (j.State != job.Available || j.Lane == "") {
			t.Errorf("audit: job %s is %s, in the lane %q, and behind", j.ID, j.State, j.Lane)
		}
		switch {
		case j.State == job.Active && j.Asks():
			active[j.LimitAsk().Key]++
		case j.State == job.Available && j.Lane != "":
			depth[j.Lane]++
			lanes[lane{j.Lane, j.Queue}] = append(lanes[lane{j.Lane, j.Queue}], j)
		}
	}
	limits := map[string]*job.Limit{}
	if err := s.View(context.Background(), func(tx job.ReadTx) error {
		all, total, err := tx.Limits("", 1<<20)
		listed := 0
		for _, l := range all {
			if limits[l.Key] = l; !job.IsQueueLimit(l.Key) {
				listed++
			}
			if l.Active != active[l.Key] {
				t.Errorf("audit: the limit %s counts %d active, there are %d", l.Key, l.Active, active[l.Key])
			}
		}
		if err == nil && int64(listed) != total {
			t.Errorf("audit: the list of limits has %d and says %d", listed, total)
		}
		for key, want := range depth {
			if got, err := tx.LaneDepth(key); got != want || err != nil {
				t.Errorf("audit: %d wait in the lane %s, %v; there are %d", got, key, err, want)
			}
		}
		return err
	}); err != nil {
		return err
	}
	return s.Update(context.Background(), func(tx job.Tx) error {
		for at, of := range lanes {
			first := slices.MinFunc(of, func(a, b *job.Job) int {
				if a.Before(b) {
					return -1
				}
				return 1
			})
			got, err := tx.LaneHead(at.key, at.queue)
			if err != nil || got == nil || got.ID != first.ID {
				t.Errorf("audit: first of %v is %v, %v; it should be %s", at, got, err, first.ID)
			}
			l := limits[at.key]
			if l == nil {
				continue // which only a Service keeps
			}
			for _, j := range of {
				if !j.Behind && j != first {
					t.Errorf("audit: job %s is in line, and %s of its lane comes first", j.ID, first.ID)
				}
			}
			full := l.Holds().Concurrency > 0 && l.Active >= l.Holds().Concurrency
			if full && !first.Behind {
				t.Errorf("audit: job %s is in line, and as many of %s are active as may be", first.ID, at.key)
			}
			if !full && l.OpensAt.IsZero() && first.Behind {
				t.Errorf("audit: job %s is behind, and nothing will let it go on", first.ID)
			}
		}
		return nil
	})
}

// AuditLimit checks that of a key no more jobs are active than may be at once. It counts the
// jobs themselves, and can be asked in each transaction, of what that leaves.
func AuditLimit(t Reporter, tx job.ReadTx, key string, most int) {
	t.Helper()
	active := 0
	for f := (job.Filter{States: []job.State{job.Active}, Limit: 1000}); ; {
		page, err := tx.Jobs(f)
		if err != nil {
			t.Errorf("audit: %v", err)
			return
		}
		for _, j := range page.Jobs {
			if j.Asks() && j.LimitAsk().Key == key {
				active++
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	if active > most {
		t.Errorf("audit: %d jobs of the limit %s are active, at most %d may be", active, key, most)
	}
}

func manyLimits() []*job.Limit {
	ms := func(n int) time.Time { return Now.Add(time.Duration(n) * time.Millisecond) }
	return []*job.Limit{
		{Key: job.QueueLimitKey("queue"), Pace: job.Pace{Concurrency: 2, Rate: job.Quota{Limit: 3, Period: time.Minute}}, Starts: []job.Burst{{At: ms(1), N: 3}}, UsedAt: Now},
		{Key: "@queue", UsedAt: Now},
		{Key: "a", Pace: job.Pace{Concurrency: 5}, Active: 3, UsedAt: ms(1)},
		{Key: "b", Pace: job.Pace{Rate: job.Quota{Limit: 100, Period: time.Second}}, Starts: []job.Burst{{At: ms(-3), N: 1}, {At: ms(4), N: 77}}, UsedAt: ms(2)},
		{Key: "c", Pace: job.Pace{Throttle: job.Quota{Limit: 3, Period: time.Second}}, Next: Now.UnixNano() + 333, OpensAt: ms(900), UsedAt: ms(3)},
		{Key: "d", Override: &job.Pace{Concurrency: 2, Rate: job.Quota{Limit: 1, Period: time.Hour}}, Deferred: ms(70), UsedAt: ms(4)},
	}
}

func limitsRoundTrip(t *testing.T, s job.Store) {
	want := manyLimits()
	for round := range 2 {
		update(t, s, func(tx job.Tx) error {
			for _, l := range want {
				if err := tx.PutLimit(l); err != nil {
					return err
				}
				if got, err := tx.Limit(l.Key); err != nil || !reflect.DeepEqual(got, l) {
					t.Errorf("in the transaction: %+v, %v; want %+v", got, err, l)
				}
			}
			return nil
		})
		view(t, s, func(tx job.ReadTx) error {
			for _, l := range want {
				if got, err := tx.Limit(l.Key); err != nil || !reflect.DeepEqual(got, l) {
					t.Errorf("round %d: %+v, %v; want %+v", round, got, err, l)
				}
			}
			for n := range len(want) + 1 {
				after := ""
				if n > 0 {
					after = want[n-1].Key
				}
				got, total, err := tx.Limits(after, 2)
				if err != nil || total != int64(len(want)-1) || !reflect.DeepEqual(got, append([]*job.Limit(nil), want[n:min(n+2, len(want))]...)) {
					t.Errorf("behind %q: %v of %d, %v", after, got, total, err)
				}
			}
			if _, err := tx.Limit("none"); job.KindOf(err) != job.NotFound {
				t.Errorf("a limit that is not there: %v", err)
			}
			return nil
		})
		want[2].Active, want[3].Starts, want[4].OpensAt, want[5].Override = 4, nil, time.Time{}, nil
	}
	update(t, s, func(tx job.Tx) error {
		for _, l := range manyLimits() {
			if err := tx.DeleteLimit(l.Key); err != nil {
				return err
			}
			if _, err := tx.Limit(l.Key); job.KindOf(err) != job.NotFound {
				t.Errorf("a limit that was deleted: %v", err)
			}
		}
		return nil
	})
}

func limitUndone(t *testing.T, s job.Store) {
	was := manyLimits()[3]
	update(t, s, func(tx job.Tx) error { return tx.PutLimit(was) })
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		l, err := tx.Limit(was.Key)
		if err != nil {
			return err
		}
		l.Next, l.OpensAt = 7, time.Time{}
		if err := errors.Join(tx.PutLimit(l), tx.PutLimit(&job.Limit{Key: "new", OpensAt: Now, UsedAt: Now})); err != nil {
			return err
		}
		return errors.New("no")
	}); err == nil {
		t.Fatal("no error")
	}
	update(t, s, func(tx job.Tx) error {
		if got, err := tx.Limit(was.Key); err != nil || !reflect.DeepEqual(got, was) {
			t.Errorf("%+v, %v; want %+v", got, err, was)
		}
		if _, err := tx.Limit("new"); job.KindOf(err) != job.NotFound {
			t.Errorf("a limit of a call that failed: %v", err)
		}
		if at, err := tx.NextOpening(); err != nil || !at.Equal(was.OpensAt) {
			t.Errorf("the next opens at %s, %v; want %s", at, err, was.OpensAt)
		}
		return nil
	})
}

func limitsOpen(t *testing.T, s job.Store) {
	in := func(n int) time.Time { return Now.Add(time.Duration(n) * time.Second) }
	check := func(tx job.Tx, before time.Time, want ...string) {
		t.Helper()
		got, err := tx.OpeningLimits(before, 3)
		keys := []string{}
		for _, l := range got {
			keys = append(keys, l.Key)
		}
		if err != nil || !slices.Equal(keys, want) {
			t.Errorf("before %s open %v, %v; want %v", before, keys, err, want)
		}
	}
	update(t, s, func(tx job.Tx) error {
		check(tx, in(100))
		for i, at := range []int{5, 2, 0, 3, 2} {
			l := &job.Limit{Key: fmt.Sprint("k", i), UsedAt: Now}
			if at != 0 {
				l.OpensAt = in(at)
			}
			if err := tx.PutLimit(l); err != nil {
				return err
			}
		}
		check(tx, in(1))
		return nil
	})
	update(t, s, func(tx job.Tx) error {
		check(tx, in(2).Add(-time.Millisecond))
		check(tx, in(2), "k1", "k4")
		check(tx, in(9), "k1", "k4", "k3")
		l := &job.Limit{Key: "k1", UsedAt: Now}
		err := tx.PutLimit(l)
		check(tx, in(9), "k4", "k3", "k0")
		if at, err := tx.NextOpening(); err != nil || !at.Equal(in(2)) {
			t.Errorf("the next opens at %s, %v", at, err)
		}
		return err
	})
}

// inLane makes a job that waits in a lane.
func inLane(t *testing.T, queue, key string, priority int, behind bool) *job.Job {
	j := New(t, queue, func(j *job.Job) { j.Priority = priority })
	j.Lane, j.Behind = key, behind
	return j
}

func laneHeads(t *testing.T, s job.Store) {
	low, high, late := inLane(t, "q", "k", 0, false), inLane(t, "q", "k", 5, true), inLane(t, "q", "k", 5, true)
	other, foreign := inLane(t, "r", "k", 0, true), inLane(t, "q", "l", 9, false)
	insert(t, s, low, other, foreign, high, late)
	check := func(want ...*job.Job) {
		t.Helper()
		update(t, s, func(tx job.Tx) error {
			got, err := tx.LaneHeads("k")
			if err != nil || !slices.Equal(ids(got...), ids(want...)) {
				t.Errorf("heads are %v, %v; want %v", ids(got...), err, ids(want...))
			}
			head, err := tx.LaneHead("k", "q")
			if err != nil || len(want) > 0 && want[0].Queue == "q" && head.ID != want[0].ID {
				t.Errorf("the head is %v, %v", head, err)
			}
			if head, err := tx.LaneHead("k", "none"); head != nil || err != nil {
				t.Errorf("the head of an empty lane is %v, %v", head, err)
			}
			return nil
		})
	}
	check(high, other)
	change(t, s, high.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	check(late, other)
	change(t, s, late.ID, func(j *job.Job) error { return j.Start(Now, job.Lease{Token: "t", Length: time.Minute}) })
	change(t, s, other.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	check(low)
	change(t, s, low.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	check()
}

// behind puts jobs of a queue behind and back in line, and asks each time what is claimed.
func behind(t *testing.T, s job.Store) {
	var all []*job.Job
	for i := range 6 {
		all = append(all, inLane(t, "q", fmt.Sprint("k", i), i%2, i%3 == 0))
	}
	insert(t, s, all...)
	check := func() {
		t.Helper()
		var want []string
		for _, priority := range []int{1, 0} {
			for _, j := range all {
				if !j.Behind && j.Priority == priority {
					want = append(want, string(j.ID))
				}
			}
		}
		update(t, s, func(tx job.Tx) error {
			for _, n := range []int{1, 3, 100} {
				got, err := tx.Available([]string{"q"}, n)
				found := make([]string, len(got))
				for i, j := range got {
					found[i] = string(j.ID)
				}
				if err != nil || !slices.Equal(found, want[:min(n, len(want))]) {
					t.Errorf("of %d found %v, %v; want %v", n, found, err, want)
				}
			}
			return nil
		})
	}
	check()
	for _, i := range []int{0, 1, 0, 2, 3, 4, 5, 1, 2, 5} {
		all[i] = change(t, s, all[i].ID, func(j *job.Job) error { j.Behind = !j.Behind; return nil })
		check()
	}
}
