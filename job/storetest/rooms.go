package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// space is a job.Room of so many bytes, of which the first thing may be larger.
type space struct{ size, taken int }

func (s *space) Take(n int) bool {
	if s.taken > 0 && s.taken+n > s.size {
		return false
	}
	s.taken += n
	return true
}

func (s *space) Reset() { s.taken = 0 }

// none is a job.Room without any.
type none struct{}

func (none) Take(int) bool { return false }
func (none) Reset()        {}

// sized stores jobs of all sizes: available, claimed, and dead, of two queues.
func sized(t *testing.T, s job.Store, n int) {
	t.Helper()
	for i := range n {
		args := json.RawMessage(`["` + strings.Repeat("x", []int{0, 10, 2000, 50_000}[(i*7+i/3)%4]) + `"]`)
		j := New(t, fmt.Sprint("q", i%2), func(j *job.Job) { j.Args = args })
		insert(t, s, j)
		if i%3 != 0 {
			continue
		}
		claim(t, s, []string{j.Queue}, 1) // the oldest there, whichever it is
		change(t, s, activeOf(t, s), func(j *job.Job) error {
			return j.Fail(Now.Add(time.Duration(i%4)*time.Millisecond), job.Claim{ID: j.ID}, job.Failure{Code: "DEAD_LETTER"}, 0)
		})
	}
}

// activeOf is the one job that is active.
func activeOf(t *testing.T, s job.Store) (id job.ID) {
	t.Helper()
	view(t, s, func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{States: []job.State{job.Active}, Limit: 2})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%d active jobs, %v", len(page.Jobs), err)
		}
		id = page.Jobs[0].ID
		return nil
	})
	return id
}

// Pages hold each job once, whatever there is room for.
func pageRoom(t *testing.T, s job.Store) {
	sized(t, s, 20)
	rapid.Check(t, func(r *rapid.T) {
		f := job.Filter{
			Limit: rapid.IntRange(1, 30).Draw(r, "limit"),
			Dead:  rapid.Bool().Draw(r, "dead"),
			Queue: rapid.SampledFrom([]string{"", "q0", "q1"}).Draw(r, "queue"),
		}
		if !f.Dead && rapid.Bool().Draw(r, "by state") {
			f.States = []job.State{job.Available}
		}
		view(t, s, func(tx job.ReadTx) error {
			all := f
			all.Limit = 1000
			whole, err := tx.Jobs(all)
			if err != nil {
				return err
			}
			var got []job.ID
			for {
				room := &space{size: rapid.IntRange(1, 200_000).Draw(r, "room")}
				f.Room = room
				page, err := tx.Jobs(f)
				if err != nil {
					return err
				}
				if page.Total != whole.Total || len(page.Jobs) > f.Limit || len(page.Jobs) == 0 && whole.Total > 0 {
					r.Fatalf("a page of %d jobs of %d, want of %d", len(page.Jobs), page.Total, whole.Total)
				}
				if len(page.Jobs) > 1 && room.taken > room.size {
					r.Fatalf("%d jobs take %d bytes of %d", len(page.Jobs), room.taken, room.size)
				}
				for _, j := range page.Jobs {
					got = append(got, j.ID)
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			if len(got) != len(whole.Jobs) {
				r.Fatalf("the pages hold %d jobs, want %d", len(got), len(whole.Jobs))
			}
			for i, j := range whole.Jobs {
				if got[i] != j.ID {
					r.Fatalf("job %d of the pages is %s, want %s", i, got[i], j.ID)
				}
			}
			return nil
		})
	})
	view(t, s, func(tx job.ReadTx) error {
		if _, err := tx.Jobs(job.Filter{Limit: 10, Room: none{}}); job.KindOf(err) != job.Unavailable {
			t.Errorf("without room for one job: %v", err)
		}
		if _, err := tx.Jobs(job.Filter{Limit: 10, Queue: "empty", Room: none{}}); err != nil {
			t.Errorf("an empty list needs no room: %v", err)
		}
		if _, err := tx.Events(job.EventFilter{Limit: 10, Room: none{}}); job.KindOf(err) != job.Unavailable {
			t.Errorf("without room for one event: %v", err)
		}
		return nil
	})
}

// Events that find no room come on the next page.
func eventRoom(t *testing.T, s job.Store) {
	sized(t, s, 20)
	view(t, s, func(tx job.ReadTx) error {
		whole, err := tx.Events(job.EventFilter{Limit: 1000})
		if err != nil {
			return err
		}
		var got []job.Event
		for after := int64(0); len(got) < len(whole); after = got[len(got)-1].Seq {
			page, err := tx.Events(job.EventFilter{After: after, Limit: 1000, Room: &space{size: 1000}})
			if err != nil || len(page) == 0 || len(page) > 3 {
				t.Fatalf("a page of %d events, %v", len(page), err)
			}
			got = append(got, page...)
		}
		for i := range whole {
			if got[i].Seq != whole[i].Seq {
				t.Fatalf("event %d of the pages is %d, want %d", i, got[i].Seq, whole[i].Seq)
			}
		}
		return nil
	})
}

// Large jobs are claimed a few at a time, in order, and each once; who asks for all is given all.
func largeClaims(t *testing.T, s job.Store) {
	const n = 24
	big := json.RawMessage(`["` + strings.Repeat("x", 1<<20-4096) + `"]`)
	var want []string
	for i := range n {
		j := New(t, "large", func(j *job.Job) {
			j.Type, j.Args, j.ExpiresAt = fmt.Sprint("n", i), big, Now.Add(time.Duration(i+1)*time.Second)
		})
		insert(t, s, j)
		want = append(want, j.Type)
	}
	update(t, s, func(tx job.Tx) error {
		all, err := tx.Due(job.Available, job.Forever, math.MaxInt32)
		if err != nil || len(all) != n {
			t.Errorf("all that is due: %d, %v", len(all), err)
		}
		due, err := tx.Due(job.Available, job.Forever, n)
		if err != nil || len(due) == 0 || len(due) >= n || due[0].Type != want[0] {
			t.Errorf("%d large jobs are due at once, %v", len(due), err)
		}
		return err
	})
	var got []string
	for len(got) < n {
		names := claim(t, s, []string{"large", "other"}, n)
		if len(names) == 0 || len(names) >= n {
			t.Fatalf("%d large jobs at once", len(names))
		}
		got = append(got, names...)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("job %d is %s, want %s", i, got[i], want[i])
		}
	}
}
