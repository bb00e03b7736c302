package webhooks

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// served are webhooks without a deliverer, in process and over HTTP, and what was logged.
func served(t *testing.T, targets ...string) (kept map[string]job.WebhookService, side *sidecar.Sidecar, url string, log *logged) {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	allowed, err := ParseAllowed(targets...)
	if err != nil {
		t.Fatal(err)
	}
	log = &logged{}
	side = sidecar.New(store, sidecar.Options{})
	w := New(side, Options{Allowed: allowed, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s := httptest.NewServer(httpapi.New(side, httpapi.Options{Webhooks: w, Log: slog.New(slog.NewTextHandler(log, nil))}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]job.WebhookService{"in process": w, "over HTTP": c}, side, s.URL, log
}

// A webhook is made, read, changed and removed, in process and over HTTP alike.
func TestService(t *testing.T) {
	kept, _, _, _ := served(t, "public")
	for name, s := range kept {
		t.Run(name, func(t *testing.T) {
			spec := job.WebhookSpec{URL: "https://example.com/a?b=c", Events: []string{"job.*", "queue.paused"}, Metadata: json.RawMessage(`{"a": [1, 2.50]}`),
				Filter: job.WebhookFilter{Queues: []string{"q"}, JobTypes: []string{"a.*"}, Types: []string{"job.failed"}, JobID: "01970000-0000-7000-8000-000000000000", Tenant: "t"}}
			made, err := s.CreateWebhook(t.Context(), spec, "")
			if err != nil || len(made.Secret) != 64 || !strings.HasPrefix(made.ID, "sub_") || made.Paused || len(made.Warnings) != 0 {
				t.Fatalf("%+v, %v", made, err)
			}
			made.Metadata, spec.Metadata = nil, nil // its spaces may have gone
			if !reflect.DeepEqual(made.WebhookSpec, spec) {
				t.Errorf("got  %+v\nwant %+v", made.WebhookSpec, spec)
			}
			chosen, err := s.CreateWebhook(t.Context(), spec, "short")
			if err != nil || chosen.Secret != "short" || len(chosen.Warnings) != 1 || chosen.Warnings[0].Field != "secret" {
				t.Errorf("%+v, %v", chosen, err)
			}
			read, err := s.Webhook(t.Context(), made.ID)
			if err != nil || read.Secret != "" || read.URL != spec.URL || !read.CreatedAt.Equal(made.CreatedAt) {
				t.Errorf("%+v, %v", read, err)
			}
			paused, u := true, "http://example.org/"
			changed, err := s.ChangeWebhook(t.Context(), made.ID, job.WebhookChange{Paused: &paused, URL: &u, Events: []string{"*"}, Filter: &job.WebhookFilter{}})
			if err != nil || !changed.Paused || changed.URL != u || !changed.Filter.None() || changed.Metadata == nil || changed.UpdatedAt.Before(made.UpdatedAt) {
				t.Errorf("%+v, %v", changed, err)
			}
			bad := "ftp://x"
			if _, err := s.ChangeWebhook(t.Context(), made.ID, job.WebhookChange{URL: &bad}); job.KindOf(err) != job.Invalid {
				t.Errorf("a bad URL: %v", err)
			}
			secret, err := s.RotateWebhookSecret(t.Context(), made.ID)
			if err != nil || len(secret) != 64 || secret == made.Secret {
				t.Errorf("%d bytes, %v", len(secret), err)
			}
			all, err := s.Webhooks(t.Context())
			if err != nil || len(all) < 2 || all[len(all)-2].ID != made.ID || all[len(all)-1].ID != chosen.ID {
				t.Errorf("%+v, %v", all, err)
			}
			for _, h := range all {
				if h.Secret != "" {
					t.Errorf("a list shows the secret of %s", h.ID)
				}
			}
			if _, err := s.TestWebhook(t.Context(), "sub_none"); job.KindOf(err) != job.NotFound {
				t.Errorf("a test of none: %v", err)
			}
			for _, id := range []string{made.ID, chosen.ID} {
				if err := s.DeleteWebhook(t.Context(), id); err != nil {
					t.Error(err)
				}
				if err := s.DeleteWebhook(t.Context(), id); job.KindOf(err) != job.NotFound {
					t.Errorf("deleted twice: %v", err)
				}
			}
			for _, id := range []string{"", ".", "..", "sub_none", "a/b", "sub_%"} {
				if _, err := s.Webhook(t.Context(), id); job.KindOf(err) != job.NotFound {
					t.Errorf("%q: %v", id, err)
				}
			}
			if _, err := s.CreateWebhook(t.Context(), job.WebhookSpec{URL: "x"}, ""); job.KindOf(err) != job.Invalid {
				t.Errorf("%v", err)
			}
			if _, err := s.CreateWebhook(t.Context(), spec, job.Secret(strings.Repeat("x", 257))); job.KindOf(err) != job.Invalid {
				t.Errorf("a long secret: %v", err)
			}
			for n := 0; ; n++ {
				if _, err := s.CreateWebhook(t.Context(), spec, ""); err != nil {
					if job.KindOf(err) != job.TooLarge || n != job.MaxWebhooks {
						t.Errorf("after %d: %v", n, err)
					}
					break
				}
			}
			all, _ = s.Webhooks(t.Context())
			for _, h := range all {
				if err := s.DeleteWebhook(t.Context(), h.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A test sends a signed event now, and says what came of it, or why it was not sent.
func TestTest(t *testing.T) {
	var got struct {
		body   []byte
		header http.Header
	}
	_, port, _ := trap(t, func(rw http.ResponseWriter, r *http.Request) {
		got.body, got.header = make([]byte, r.ContentLength), r.Header
		_, _ = r.Body.Read(got.body)
		if r.URL.Path == "/no" {
			rw.WriteHeader(500)
		}
		_, _ = rw.Write([]byte("hello"))
	})
	kept, _, _, _ := served(t, "127.0.0.1")
	for name, s := range kept {
		hook := func(url string) job.Webhook {
			h, err := s.CreateWebhook(t.Context(), job.WebhookSpec{URL: url, Events: []string{"*"}}, "")
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		h := hook("http://127.0.0.1:" + port + "/yes")
		trial, err := s.TestWebhook(t.Context(), h.ID)
		if err != nil || !trial.Delivered || trial.Status != 200 || trial.Body != "hello" || trial.Took > time.Minute || trial.Problem != "" {
			t.Errorf("%s: %+v, %v", name, trial, err)
		}
		if got.header.Get("X-OJS-Event-Type") != "webhook.test" || got.header.Get("X-OJS-Signature") != Sign(h.Secret, got.body) || !strings.Contains(string(got.body), h.ID) {
			t.Errorf("%s: %v %s", name, got.header, got.body)
		}
		if trial, err = s.TestWebhook(t.Context(), hook("http://127.0.0.1:"+port+"/no").ID); err != nil || trial.Delivered || trial.Status != 500 || trial.Problem == "" {
			t.Errorf("%s: %+v, %v", name, trial, err)
		}
		refused := hook("http://127.0.0.2:" + port + "/")
		if len(refused.Warnings) != 1 {
			t.Errorf("%s: no warning: %+v", name, refused)
		}
		if _, err = s.TestWebhook(t.Context(), refused.ID); job.KindOf(err) != job.Conflict || !strings.Contains(err.Error(), "--allow-webhook") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A secret is in no log, list, error, event or metric; it is in the answer to its making alone.
func TestSecretsStayInside(t *testing.T) {
	const canary = "canary-canary-canary"
	kept, side, url, log := served(t, "127.0.0.1")
	h, err := kept["over HTTP"].CreateWebhook(t.Context(), job.WebhookSpec{URL: "http://127.0.0.1:1/canary-canary-canary", Events: []string{"*"}}, canary)
	if err != nil {
		t.Fatal(err)
	}
	if trial, err := kept["over HTTP"].TestWebhook(t.Context(), h.ID); err != nil || trial.Delivered || strings.Contains(trial.Problem, canary) {
		t.Errorf("%+v, %v", trial, err)
	}
	one := "/ojs/v1/webhooks/subscriptions/" + h.ID
	for _, r := range [][3]string{{"GET", "/ojs/v1/webhooks/subscriptions", ""}, {"GET", one, ""}, {"PATCH", one, `{"active":true}`}, {"PATCH", one, `{"secret":"` + canary + `"}`}, {"PUT", one, `{"url":"http://canary-canary-canary@x/","events":["*"]}`},
		{"POST", "/ojs/v1/webhooks/subscriptions", `{"url":"http://a/","events":["*"],"secret":["` + canary + `"]}`}, {"GET", "/ojs/v1/events", ""}, {"GET", "/metrics", ""}, {"GET", "/ojs/v1/admin/config", ""}, {"GET", "/ojs/v1/health", ""}} {
		req, err := http.NewRequestWithContext(t.Context(), r[0], url+r[1], strings.NewReader(r[2]))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 64<<10)
		n, _ := answer.Body.Read(raw)
		answer.Body.Close()
		text := strings.ReplaceAll(string(raw[:n]), "http://127.0.0.1:1/"+canary, "") // the URL is shown
		if n == 0 || strings.Contains(text, canary) {
			t.Errorf("%s %s: %d bytes: %s", r[0], r[1], n, text)
		}
	}
	es, err := side.Events(t.Context(), job.EventFilter{})
	if raw, _ := json.Marshal(es); err != nil || strings.Contains(string(raw), canary) {
		t.Errorf("%s, %v", raw, err)
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log: %s", log)
	}
}
