package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// logged returns options whose log goes to the buffer.
func logged() (Options, *bytes.Buffer) {
	var b bytes.Buffer
	o := quiet()
	o.Log = slog.New(slog.NewJSONHandler(&b, nil))
	return o, &b
}

// Only what is Internal is logged, with its cause, and nothing of it is answered.
func TestErrorsInLog(t *testing.T) {
	for end, err := range failures {
		o, log := logged()
		w := serve(New(world(), o), "GET", "/ojs/v1/jobs/01970000-0000-7000-8000-00000000"+end, "")
		internal := job.KindOf(err) == job.Internal
		if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("%v: the answer tells %s", err, w.Body)
		}
		if internal != (log.Len() > 0) {
			t.Errorf("%v: log is %q", err, log)
		}
		if internal && (!strings.Contains(strings.ToLower(log.String()), "secret") || !strings.Contains(log.String(), "req_test")) {
			t.Errorf("%v: log lacks the cause or the request id: %s", err, log)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	o, log := logged()
	f := world()
	f.job = func(context.Context, job.ID) (*job.Job, error) { panic("a SECRET state") }
	w := serve(New(f, o), "GET", "/ojs/v1/jobs/"+string(idOne), "")
	e := failureOf(t, w.Body)
	if w.Code != 500 || e.Code != "backend_error" || !e.Retryable || strings.Contains(e.Message, "SECRET") {
		t.Errorf("got %d %+v", w.Code, e)
	}
	if !strings.Contains(log.String(), "req_test") || !strings.Contains(log.String(), "SECRET") || !strings.Contains(log.String(), "(*fake).Job") {
		t.Errorf("log lacks the request id, the panic or the stack: %s", log)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log, want 1: %s", n, log)
	}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("ErrAbortHandler was kept from net/http")
		}
	}()
	f.job = func(context.Context, job.ID) (*job.Job, error) { panic(http.ErrAbortHandler) }
	serve(New(f, o), "GET", "/ojs/v1/jobs/"+string(idOne), "")
}

func TestUnhealthy(t *testing.T) {
	for name, health := range map[string]func(context.Context) (job.Health, error){
		"says so": func(context.Context) (job.Health, error) {
			return job.Health{Backend: "sqlite", Problem: "disk SECRET"}, nil
		},
		"cannot tell": func(context.Context) (job.Health, error) { return job.Health{}, errors.New("disk SECRET") },
	} {
		f := world()
		f.health = health
		for _, path := range []string{"/ojs/v1/health", "/health", "/healthz", "/ready", "/readyz"} {
			o, log := logged()
			w := serve(New(f, o), "GET", path, "")
			var b struct{ Status string }
			if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
				t.Fatal(err)
			}
			if w.Code != 503 || b.Status != "unhealthy" || w.Header().Get("Retry-After") != "1" || strings.Contains(w.Body.String(), "SECRET") {
				t.Errorf("%s, %s: got %d %s", path, name, w.Code, w.Body)
			}
			if !strings.Contains(log.String(), "disk SECRET") {
				t.Errorf("%s, %s: the log does not tell why: %s", path, name, log)
			}
		}
		if w := serve(New(f, quiet()), "GET", "/live", ""); w.Code != 200 {
			t.Errorf("/live, %s: got %d", name, w.Code)
		}
	}
}

// Zero options work, and make a request id of their own.
func TestZeroOptions(t *testing.T) {
	w := serve(New(world(), Options{}), "GET", "/live", "")
	id := strings.TrimPrefix(w.Header().Get("X-Request-Id"), "req_")
	if w.Code != 200 || !job.ValidID(id) {
		t.Errorf("got %d, request id %q", w.Code, w.Header().Get("X-Request-Id"))
	}
}

// A caller who hangs up is no failure of the server's, whatever the service makes of it.
func TestHangUpIsNotLogged(t *testing.T) {
	o, log := logged()
	f := world()
	f.fetch = func(ctx context.Context, _ job.FetchRequest) ([]*job.Job, error) { return nil, ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	New(f, o).ServeHTTP(w, fetchRequest(ctx))
	if w.Code != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("got %d, log %s", w.Code, log)
	}
}
