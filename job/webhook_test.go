package job_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// What a webhook may be, and what not, with the field that is named.
func TestWebhookSpecs(t *testing.T) {
	ok := func() job.WebhookSpec {
		return job.WebhookSpec{URL: "https://example.com/", Events: []string{"*"}}
	}
	if err := ok().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{"http://a/", "HTTPS://Example.com:8443/x?y=1#z", "http://127.0.0.1:1/", "http://[::1]:65535/", "http://a.b.c", "http://xn--bcher-kva.example/ä"} {
		if err := job.CheckWebhookURL(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	for _, u := range []string{"", "example.com", "/hook", "//example.com/", "ftp://a/", "file:///etc/passwd", "javascript:alert(1)", "http:", "http://", "http:///x", "http:a", "http://u@a/", "http://u:p@a/", "http://@a/",
		"http://a:0/", "http://a:65536/", "http://a:x/", "http://a b/", "http://a/\r\nX-Evil: 1", "http://a/\x00", "http://a\\@b/", "http://a/%zz", "http://[::1/", "http://a/" + strings.Repeat("x", 2048)} {
		if err := job.CheckWebhookURL(u); job.KindOf(err) != job.Invalid || u != "" && len(u) < 2000 && u != "http:" && strings.Contains(err.Error(), u) && len(u) > 8 {
			t.Errorf("%q: %v", u, err)
		}
	}
	for _, events := range [][]string{{"job.completed"}, {"job.*", "queue.paused"}, {"*"}, {"rate_limit.x"}} {
		s := ok()
		s.Events = events
		if err := s.Validate(); err != nil {
			t.Errorf("%q: %v", events, err)
		}
	}
	for field, breaks := range map[string][]func(*job.WebhookSpec){
		"events": {func(s *job.WebhookSpec) { s.Events = nil }, func(s *job.WebhookSpec) { s.Events = []string{""} }, func(s *job.WebhookSpec) { s.Events = []string{"job*"} }, func(s *job.WebhookSpec) { s.Events = []string{"j*b"} },
			func(s *job.WebhookSpec) { s.Events = []string{"Job.Completed"} }, func(s *job.WebhookSpec) { s.Events = []string{"a\r\nb"} }, func(s *job.WebhookSpec) { s.Events = make([]string, 101) }, func(s *job.WebhookSpec) { s.Events = []string{".x"} }},
		"filter.types":     {func(s *job.WebhookSpec) { s.Filter.Types = []string{"email.send"} }},
		"filter.queues":    {func(s *job.WebhookSpec) { s.Filter.Queues = []string{""} }, func(s *job.WebhookSpec) { s.Filter.Queues = make([]string, 101) }},
		"filter.job_types": {func(s *job.WebhookSpec) { s.Filter.JobTypes = []string{strings.Repeat("x", 256)} }},
		"filter.job_id":    {func(s *job.WebhookSpec) { s.Filter.JobID = "1" }},
		"filter.tenant_id": {func(s *job.WebhookSpec) { s.Filter.Tenant = strings.Repeat("x", 129) }},
		"metadata":         {func(s *job.WebhookSpec) { s.Metadata = json.RawMessage(`[]`) }, func(s *job.WebhookSpec) { s.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`) }},
	} {
		for i, do := range breaks {
			s := ok()
			do(&s)
			if err := s.Validate(); job.KindOf(err) != job.Invalid || !strings.HasPrefix(err.Error(), field+" ") {
				t.Errorf("%s %d: %v", field, i, err)
			}
		}
	}
}

// The waits between the attempts of a delivery, and their end.
func TestWebhookRetries(t *testing.T) {
	got := ""
	for n := -1; n < 10; n++ {
		d, more := job.WebhookRetryIn(n)
		if more {
			got += fmt.Sprint(n, "=", d, " ")
		} else if d != 0 {
			t.Errorf("%d: %v", n, d)
		}
	}
	if want := "1=30s 2=2m0s 3=10m0s 4=1h0m0s 5=4h0m0s 6=12h0m0s 7=24h0m0s "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A secret shows itself to nobody who prints, logs or encodes it.
func TestSecretsHide(t *testing.T) {
	s := job.Secret("canary")
	h := job.Webhook{Secret: s}
	encoded, err := json.Marshal(struct{ S job.Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %q", s, h, h, s), string(encoded), s.LogValue().String()} {
		if strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
	if s.Reveal() != "canary" {
		t.Error("it is lost")
	}
}

// Which events a webhook wants.
func TestWebhookWants(t *testing.T) {
	e := job.Event{Type: "job.failed", Queue: "mail", JobType: "email.send", JobID: "x", Time: time.Now(), Data: json.RawMessage(`{"tenant_id":"t"}`)}
	for i, tt := range []struct {
		events string
		f      job.WebhookFilter
		want   bool
	}{
		{"*", job.WebhookFilter{}, true}, {"job.*", job.WebhookFilter{}, true}, {"job.failed", job.WebhookFilter{}, true}, {"job.fail", job.WebhookFilter{}, false}, {"queue.*", job.WebhookFilter{}, false},
		{"*", job.WebhookFilter{Queues: []string{"a", "mail"}}, true}, {"*", job.WebhookFilter{Queues: []string{"a"}}, false},
		{"*", job.WebhookFilter{JobTypes: []string{"email.*"}}, true}, {"*", job.WebhookFilter{JobTypes: []string{"sms.*"}}, false},
		{"*", job.WebhookFilter{Types: []string{"job.failed"}}, true}, {"*", job.WebhookFilter{Types: []string{"job.completed"}}, false},
		{"*", job.WebhookFilter{JobID: "x"}, true}, {"*", job.WebhookFilter{JobID: "y"}, false},
		{"*", job.WebhookFilter{Tenant: "t"}, true}, {"*", job.WebhookFilter{Tenant: "u"}, false},
	} {
		s := job.WebhookSpec{Events: []string{tt.events}, Filter: tt.f}
		if got := s.Wants(e); got != tt.want {
			t.Errorf("%d: %v %+v: %v", i, tt.events, tt.f, got)
		}
	}
}
