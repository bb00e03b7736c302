package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// sink is a ResponseWriter that costs nothing, so that a benchmark shows the handler alone.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// body is a request body that can be read again.
type again struct{ *strings.Reader }

func (again) Close() error { return nil }

func measure(b *testing.B, svc job.Service, target, text string, want int) {
	h := New(svc, Options{})
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.Host = "127.0.0.1:7373"
	r.Header.Set("Content-Type", "application/openjobspec+json")
	r.ContentLength = int64(len(text))
	reader := again{strings.NewReader(text)}
	r.Body = reader
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = reader.Seek(0, io.SeekStart)
		clear(w.header)
		h.ServeHTTP(w, r)
		if w.status != want {
			b.Fatalf("status %d", w.status)
		}
	}
}

func BenchmarkPush(b *testing.B) {
	rs := []job.Receipt{{Job: mail(idOne)}}
	f := &fake{enqueue: func(context.Context, ...job.Envelope) ([]job.Receipt, error) { return rs, nil }}
	measure(b, f, "/ojs/v1/jobs", `{"type":"mail.send","args":[{"to":"a@b.c"}],"options":{"queue":"mail","priority":5}}`, http.StatusCreated)
}

func BenchmarkFetch(b *testing.B) {
	jobs := []*job.Job{started(idOne)}
	f := &fake{fetch: func(context.Context, job.FetchRequest) ([]*job.Job, error) { return jobs, nil }}
	measure(b, f, "/ojs/v1/workers/fetch", `{"queues":["mail"],"worker_id":"w1"}`, http.StatusOK)
}

func BenchmarkAck(b *testing.B) {
	j := started(idOne)
	_ = j.Complete(noon, job.Claim{}, nil) // the fixture is active
	f := &fake{ack: func(context.Context, job.Claim, json.RawMessage) (*job.Job, error) { return j, nil }}
	measure(b, f, "/ojs/v1/workers/ack", `{"job_id":"`+string(idOne)+`","lease_token":"token-0001","result":{"ok":1}}`, http.StatusOK)
}

func BenchmarkLive(b *testing.B) {
	h := New(&fake{}, Options{})
	r := httptest.NewRequest(http.MethodGet, "/live", nil)
	r.Host = "localhost"
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}
