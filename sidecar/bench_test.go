package sidecar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// callers is how many goroutines share the store in the benchmarks.
const callers = 64

func benchSidecar(b *testing.B) *sidecar.Sidecar {
	b.Helper()
	store, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), sqlitestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	s := sidecar.New(store, sidecar.Options{})
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.Cleanup(func() { stop(); <-done })
	return s
}

// crowd runs fn b.N times, shared by all callers.
func crowd(b *testing.B, fn func() error) {
	b.Helper()
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for range work {
				if err := fn(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

var benchArgs = json.RawMessage(`[{"to":"ada@example.com","template":"welcome","order":12345,"lines":[{"sku":"A-1","n":2},{"sku":"B-2","n":1}],"note":"leave it with the neighbour at number nine, please"}]`)

func BenchmarkEnqueue(b *testing.B) {
	s := benchSidecar(b)
	crowd(b, func() error {
		_, err := s.Enqueue(b.Context(), job.Envelope{Type: "email.send", Args: benchArgs})
		return err
	})
}

// BenchmarkEnqueueUnique is BenchmarkEnqueue with a policy, a new key each time,
// beside so many stored jobs with keys of their own.
func BenchmarkEnqueueUnique(b *testing.B) {
	for _, stored := range []int{1_000, 1_000_000} {
		var serial atomic.Int64
		envelope := func() job.Envelope {
			args := fmt.Appendf(nil, `[{"n":%d,%s]`, serial.Add(1), benchArgs[2:len(benchArgs)-1])
			return job.Envelope{Type: "email.send", Args: args, Unique: json.RawMessage(`{"keys":["type","args"],"args_keys":["n"]}`)}
		}
		s := sync.OnceValue(func() *sidecar.Sidecar {
			s := benchSidecar(b)
			for n := 0; n < stored; n += 1000 {
				es := make([]job.Envelope, 1000)
				for i := range es {
					es[i] = envelope()
				}
				if _, err := s.Enqueue(b.Context(), es...); err != nil {
					b.Fatal(err)
				}
			}
			return s
		})
		b.Run(fmt.Sprint("stored=", stored), func(b *testing.B) {
			s := s()
			crowd(b, func() error {
				_, err := s.Enqueue(b.Context(), envelope())
				return err
			})
		})
	}
}

func BenchmarkCycle(b *testing.B) {
	s := benchSidecar(b)
	crowd(b, func() error {
		if _, err := s.Enqueue(b.Context(), job.Envelope{Type: "email.send", Args: benchArgs}); err != nil {
			return err
		}
		jobs, err := s.Fetch(b.Context(), job.FetchRequest{Queues: []string{"default"}, Worker: "w"})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if _, err := s.Ack(b.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
