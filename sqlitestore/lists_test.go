package sqlitestore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// Totals against a plain count, in a transaction that has not committed and in a
// snapshot: exact by the counters of the queues and below the bounds; beyond them
// what the newest jobs come to, and said so.
func TestTotalsFollowTheModel(t *testing.T) {
	s := opened(t)
	rapid.Check(t, func(r *rapid.T) {
		var jobs []*job.Job
		n, f, most, visited := rapid.IntRange(0, 25).Draw(r, "jobs"), drawFilter(r), rapid.Int64Range(1, 8).Draw(r, "most"), rapid.Int64Range(1, 30).Draw(r, "visited")
		for range n {
			jobs = append(jobs, drawJob(t, r))
		}
		err := s.Update(t.Context(), func(w job.Tx) error {
			tx := w.(*tx)
			for i, j := range jobs {
				jobs[i] = j.Clone()
				if err := tx.InsertJob(jobs[i]); err != nil {
					return err
				}
				if err := end(jobs[i]); err != nil {
					return err
				}
				if err := tx.UpdateJob(jobs[i]); err != nil {
					return err
				}
			}
			checkTotal(r, "transaction", tx.reader, tx.counters, jobs, f, most, visited)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		err = s.View(t.Context(), func(tx job.ReadTx) error {
			checkTotal(r, "snapshot", tx.(snapshot).reader, tx.(snapshot).counters, jobs, f, most, visited)
			f.Limit = rapid.IntRange(1, 10).Draw(r, "limit")
			page, err := tx.(snapshot).list(f, tx.(snapshot).counters, most, visited)
			want := int64(len(matching(jobs, f)))
			switch seen := int64(len(page.Jobs)); {
			case err != nil:
			case page.Next == "" && (page.AtLeast || page.Total != want):
				r.Errorf("%+v: the last page says %d, at least %v; want %d", f, page.Total, page.AtLeast, want)
			case page.Total > want || page.Total < seen || page.Next != "" && page.Total == seen || !page.AtLeast && page.Total != want:
				r.Errorf("%+v: a page of %d says %d, at least %v; want %d", f, seen, page.Total, page.AtLeast, want)
			}
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx job.Tx) error { // for the next draw
			for _, j := range jobs {
				if err := tx.DeleteJob(j.ID); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			r.Fatal(err)
		}
	})
}

func checkTotal(r *rapid.T, where string, q reader, c counters, jobs []*job.Job, f job.Filter, most, visited int64) {
	r.Helper()
	got, atLeast, err := q.count(f, conditions(f), c, most, visited)
	if err != nil {
		r.Fatalf("%s, %+v: %v", where, f, err)
	}
	want := int64(len(matching(jobs, f)))
	counted := f.Type == "" && (f.ErrorType == "" || !f.Dead) && !f.Holding && f.Since.IsZero() && f.Until.IsZero()
	if counted {
		if got != want || atLeast {
			r.Errorf("%s, %+v: by the counters %d, at least %v; want %d", where, f, got, atLeast, want)
		}
		return
	}
	seen := slices.Clone(jobs)
	if f.Dead {
		seen = slices.DeleteFunc(seen, func(j *job.Job) bool { return !j.Dead })
		slices.SortFunc(seen, func(a, b *job.Job) int { return b.FinishedAt.Compare(a.FinishedAt) })
	} else {
		slices.SortFunc(seen, func(a, b *job.Job) int { return strings.Compare(string(b.ID), string(a.ID)) })
	}
	beyond := int64(len(seen)) > visited
	bounded := int64(len(matching(seen[:min(int64(len(seen)), visited)], f)))
	if got != min(bounded, most) || atLeast != (beyond || bounded > most) {
		r.Errorf("%s, %+v, %d of %d: got %d, at least %v; want %d of %d", where, f, most, visited, got, atLeast, bounded, want)
	}
}

// matching are the jobs that a filter lets through, in plain words.
func matching(jobs []*job.Job, f job.Filter) (found []*job.Job) {
	for _, j := range jobs {
		at := j.CreatedAt
		if f.Dead {
			at = j.FinishedAt
		}
		prefix, isPrefix := strings.CutSuffix(f.Type, "*")
		switch {
		case f.Dead && !j.Dead,
			len(f.States) > 0 && !slices.Contains(f.States, j.State),
			f.Queue != "" && f.Queue != j.Queue,
			f.Type != "" && !isPrefix && f.Type != j.Type,
			isPrefix && !strings.HasPrefix(j.Type, prefix),
			f.Dead && f.ErrorType != "" && f.ErrorType != j.ErrorType(),
			!f.Since.IsZero() && at.Before(f.Since),
			!f.Until.IsZero() && !at.Before(f.Until):
		default:
			found = append(found, j)
		}
	}
	return found
}

// drawJob is a new job; its Meta says how it is to end.
func drawJob(t *testing.T, r *rapid.T) *job.Job {
	queue := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "queue")
	return storetest.New(t, queue, func(j *job.Job) {
		j.Type = rapid.SampledFrom([]string{"mail.send", "mail.sort", "report"}).Draw(r, "type")
		j.Hold = rapid.Bool().Draw(r, "pending")
		j.Meta = fmt.Appendf(nil, `{"ends":"%s"}`, rapid.SampledFrom([]string{"stays", "runs", "done", "cancelled", "dead of E1", "dead of E2"}).Draw(r, "end"))
	})
}

// end brings a job to where its Meta says.
func end(j *job.Job) error {
	how := strings.TrimSuffix(strings.TrimPrefix(string(j.Meta), `{"ends":"`), `"}`)
	if how == "stays" {
		return nil
	}
	now := storetest.Now.Add(time.Duration(j.Seq) * time.Millisecond)
	if how == "cancelled" {
		return j.Cancel(now, "", "")
	}
	if j.State == job.Pending {
		if err := j.Activate(now); err != nil {
			return err
		}
	}
	if err := j.Start(now, job.Lease{Token: "t", Length: time.Minute}); err != nil || how == "runs" {
		return err
	}
	if how == "done" {
		return j.Complete(now, job.Claim{ID: j.ID}, nil)
	}
	return j.Fail(now, job.Claim{ID: j.ID}, job.Failure{Type: strings.TrimPrefix(how, "dead of "), Message: "no", Code: "DEAD_LETTER"}, 0)
}

func drawFilter(r *rapid.T) (f job.Filter) {
	f.Limit = 100
	if rapid.Bool().Draw(r, "of a queue") {
		f.Queue = rapid.SampledFrom([]string{"a", "b", "none"}).Draw(r, "of queue")
	}
	if rapid.Bool().Draw(r, "of a type") {
		f.Type = rapid.SampledFrom([]string{"mail.*", "report", "nothing", "*"}).Draw(r, "of type")
	}
	if rapid.Bool().Draw(r, "since") {
		f.Since = storetest.Now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "from")) * time.Millisecond)
	}
	if rapid.Bool().Draw(r, "until") {
		f.Until = storetest.Now.Add(time.Duration(rapid.IntRange(-1, 40).Draw(r, "to")) * time.Millisecond)
	}
	if f.Dead = rapid.Bool().Draw(r, "dead"); !f.Dead {
		f.States = rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(job.States), "dead")), 0, 4).Draw(r, "states")
	}
	if rapid.Bool().Draw(r, "of an error") { // which counts with Dead only
		f.ErrorType = rapid.SampledFrom([]string{"E1", "E3"}).Draw(r, "error")
	}
	return f
}
