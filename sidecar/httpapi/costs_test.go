//go:build !race

package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/costs"
	"github.com/outrider-jobs/outrider/job"
)

// Allocations of the handler alone, over a service that does nothing.
func TestCosts(t *testing.T) {
	acked := started(idOne)
	_ = acked.Complete(noon, job.Claim{}, nil) // the fixture is active
	receipt, claimed := job.Receipt{Job: mail(idOne)}, []*job.Job{started(idOne)}
	f := &fake{
		enqueue: func(_ context.Context, es ...job.Envelope) ([]job.Receipt, error) {
			rs := make([]job.Receipt, len(es))
			for i := range rs {
				rs[i] = receipt
			}
			return rs, nil
		},
		fetch: func(_ context.Context, r job.FetchRequest) ([]*job.Job, error) {
			if r.Queues[0] == "empty" {
				return nil, nil
			}
			return claimed, nil
		},
		ack: func(context.Context, job.Claim, json.RawMessage) (*job.Job, error) { return acked, nil },
	}
	const one = `{"type":"mail.send","args":[{"to":"a@b.c"}],"options":{"queue":"mail","priority":5}}`
	table := costs.Table{
		About: `What a request makes the HTTP handler allocate, without connection, sidecar and store. The mean of 300.
A figure holds where it is within half an allocation of the file, and within 5 % or 32 bytes.`,
		Columns: costs.MemoryColumns,
	}
	for _, c := range []struct {
		name, target, text string
		want               int
	}{
		{"PUSH", "/ojs/v1/jobs", one, http.StatusCreated},
		{"PUSH, with a unique key", "/ojs/v1/jobs",
			`{"type":"mail.send","args":[{"to":"a@b.c"}],"options":{"queue":"mail","unique":{"keys":["type","args"]}}}`, http.StatusCreated},
		{"PUSH, a batch of 10", "/ojs/v1/jobs/batch", `{"jobs":[` + strings.Repeat(one+",", 9) + one + `]}`, http.StatusCreated},
		{"FETCH", "/ojs/v1/workers/fetch", `{"queues":["mail"],"worker_id":"w1"}`, http.StatusOK},
		{"FETCH, of an empty queue", "/ojs/v1/workers/fetch", `{"queues":["empty"],"worker_id":"w1"}`, http.StatusOK},
		{"ACK", "/ojs/v1/workers/ack", `{"job_id":"` + string(idOne) + `","lease_token":"token-0001","result":{"ok":1}}`, http.StatusOK},
	} {
		table.Add(c.name, costs.Memory(100, 300, served(t, f, c.target, c.text, c.want))...)
	}
	table.Check(t, "testdata/memory.golden", *update)
}

// served posts a text to the handler, again and again.
func served(t *testing.T, svc job.Service, target, text string, want int) func(int) {
	h := New(svc, Options{})
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.Host = "127.0.0.1:7373"
	r.Header.Set("Content-Type", "application/openjobspec+json")
	r.ContentLength = int64(len(text))
	reader := again{strings.NewReader(text)}
	r.Body = reader
	w := &sink{header: http.Header{}}
	return func(int) {
		_, _ = reader.Seek(0, io.SeekStart)
		clear(w.header)
		w.status = 0
		if h.ServeHTTP(w, r); w.status != want {
			t.Errorf("POST %s: status %d, want %d", target, w.status, want)
		}
	}
}
