package sidecar_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// BenchmarkNextStep is a chain over HTTP, of which two workers run the steps in turn: while
// one has a step, the other waits for the next. p50-ms is from the answer to the ACK to the
// answer to the FETCH that waits, p50-sent-ms from the moment when the ACK was sent.
func BenchmarkNextStep(b *testing.B) {
	store, err := sqlitestore.Open(context.Background(), filepath.Join(b.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := sidecar.New(store, sidecar.Options{})
	ctx, stop := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{}))
	b.Cleanup(func() {
		server.Close()
		stop()
		<-ran
		_ = store.Close()
	})
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	fetch := func(ctx context.Context) (*job.Job, time.Time) {
		jobs, err := c.Fetch(ctx, job.FetchRequest{Queues: []string{"q"}, Wait: 10 * time.Second})
		if err != nil || len(jobs) != 1 {
			b.Errorf("fetched %d jobs, %v", len(jobs), err)
			return nil, time.Time{}
		}
		return jobs[0], time.Now()
	}
	const steps = 100
	chain := job.Chain("")
	for range steps {
		chain.Steps = append(chain.Steps, job.Do("", job.Envelope{Type: "mail.send", Queue: "q", Args: json.RawMessage(`[{"to":"ada@example.com"}]`)}))
	}
	var answered, sent []time.Duration
	at := steps
	var j *job.Job
	for b.Loop() {
		if at == steps {
			if _, _, err := c.StartWorkflow(ctx, chain); err != nil {
				b.Fatal(err)
			}
			at = 1
			if j, _ = fetch(ctx); j == nil {
				return
			}
		}
		type got struct {
			j    *job.Job
			when time.Time
		}
		next := make(chan got, 1)
		go func() {
			j, when := fetch(ctx)
			next <- got{j, when}
		}()
		time.Sleep(5 * time.Millisecond) // until it waits
		began := time.Now()
		if _, err := c.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, json.RawMessage(`{"ok":true}`)); err != nil {
			b.Fatal(err)
		}
		ended := time.Now()
		n := <-next
		if n.j == nil {
			return
		}
		answered = append(answered, max(0, n.when.Sub(ended)))
		sent = append(sent, n.when.Sub(began))
		j = n.j
		if at++; at == steps {
			if _, err := c.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(answered)
	slices.Sort(sent)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(answered[len(answered)/2]), "p50-ms")
	b.ReportMetric(ms(answered[len(answered)*99/100]), "p99-ms")
	b.ReportMetric(ms(sent[len(sent)/2]), "p50-sent-ms")
}
