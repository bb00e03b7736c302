package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// groupOf is a group of n jobs of a queue.
func groupOf(tb testing.TB, n int, queue string) job.WorkflowSpec {
	tb.Helper()
	s := job.WorkflowSpec{Kind: job.KindGroup, Name: "many"}
	for i := range n {
		c, err := job.Envelope{Type: "mail.send", Queue: queue, Args: json.RawMessage(fmt.Sprintf(`[{"to":"user-%d@example.com"}]`, i))}.Check()
		if err != nil {
			tb.Fatal(err)
		}
		s.Steps = append(s.Steps, job.Step{Job: c})
	}
	return s
}

func benchStore(b *testing.B) *Sidecar {
	store, err := sqlitestore.Open(context.Background(), filepath.Join(b.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return New(store, Options{})
}

// BenchmarkStartGroup stores groups of 10,000 jobs; beside it the same jobs as a batch.
func BenchmarkStartGroup(b *testing.B) {
	b.Run("group", func(b *testing.B) {
		s, spec := benchStore(b), groupOf(b, 10_000, "q")
		for b.Loop() {
			if _, _, err := s.StartWorkflow(b.Context(), spec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("batch", func(b *testing.B) {
		s, spec := benchStore(b), groupOf(b, 10_000, "q")
		for b.Loop() {
			cs := make([]job.Checked, len(spec.Steps))
			for i := range cs {
				cs[i] = spec.Steps[i].Job
			}
			if _, err := s.EnqueueChecked(b.Context(), cs...); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAckOfAGroup is the ACK of a job of a group of 10,000, and of a lone job, by 64
// callers at once; the jobs are claimed before.
func BenchmarkAckOfAGroup(b *testing.B) {
	const callers, n = 64, 10_000
	for _, kind := range []string{"lone", "group"} {
		b.Run(kind, func(b *testing.B) {
			s := benchStore(b)
			spec := groupOf(b, n, "q")
			var jobs []*job.Job
			refill := func() {
				b.StopTimer()
				defer b.StartTimer()
				var err error
				if kind == "group" {
					_, _, err = s.StartWorkflow(b.Context(), spec)
				} else {
					cs := make([]job.Checked, n)
					for i := range cs {
						cs[i] = spec.Steps[i].Job
					}
					_, err = s.EnqueueChecked(b.Context(), cs...)
				}
				for err == nil && len(jobs) < n {
					var got []*job.Job
					got, err = s.Fetch(b.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 100})
					jobs = append(jobs, got...)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for done := 0; done < b.N; {
				if len(jobs) == 0 {
					refill()
				}
				batch := jobs[:min(len(jobs), b.N-done)]
				jobs = jobs[len(batch):]
				done += len(batch)
				var all sync.WaitGroup
				for c := range callers {
					all.Go(func() {
						for i := c; i < len(batch); i += callers {
							if _, err := s.Ack(b.Context(), job.Claim{ID: batch[i].ID, Token: batch[i].Lease.Token}, json.RawMessage(`{"ok":true}`)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
			}
		})
	}
}

// BenchmarkLastAckOfABatch is the ACK that releases the callback of a batch of 10,000 jobs,
// which is given all their results.
func BenchmarkLastAckOfABatch(b *testing.B) {
	const n = 10_000
	s := benchStore(b)
	for b.Loop() {
		b.StopTimer()
		spec := groupOf(b, n-1, "q")
		spec.Kind, spec.Callbacks = job.KindBatch, []job.Step{{Callback: job.OnComplete, Job: spec.Steps[0].Job}}
		if _, _, err := s.StartWorkflow(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
		var acks []job.AckRequest
		for len(acks) < n-1 {
			jobs, err := s.Fetch(b.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 100})
			if err != nil || len(jobs) == 0 {
				b.Fatal(len(jobs), err)
			}
			for _, j := range jobs {
				acks = append(acks, job.AckRequest{Claim: job.Claim{ID: j.ID, Token: j.Lease.Token}, Result: json.RawMessage(`{"ok":true}`)})
			}
		}
		last := acks[n-2]
		for acks = acks[:n-2]; len(acks) > 0; acks = acks[min(100, len(acks)):] {
			if _, err := s.AckAll(b.Context(), acks[:min(100, len(acks))]); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if _, err := s.Ack(b.Context(), last.Claim, last.Result); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		jobs, err := s.Fetch(b.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 1})
		if err != nil || len(jobs) != 1 || len(jobs[0].ParentResults) < n*len(`{"ok":true}`)/2 {
			b.Fatal(len(jobs), err)
		}
		if _, err := s.Ack(b.Context(), job.Claim{ID: jobs[0].ID, Token: jobs[0].Lease.Token}, nil); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
