//go:build unix

package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// inbox is the receiver of a webhook.
type inbox struct {
	mu     sync.Mutex
	secret string
	asked  map[string]int    // by the delivery
	bodies map[string][]byte // by the delivery
	told   map[string]bool   // jobs whose job.enqueued was answered with a 200
	wrong  []string
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	var e struct {
		Type    string `json:"type"`
		Subject string `json:"subject"`
	}
	_ = json.Unmarshal(body, &e)
	time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
	in.mu.Lock()
	defer in.mu.Unlock()
	h := hmac.New(sha256.New, []byte(in.secret))
	h.Write(body)
	id := r.Header.Get("X-OJS-Delivery-ID")
	if r.Header.Get("X-OJS-Signature") != "sha256="+hex.EncodeToString(h.Sum(nil)) || e.Type != "job.enqueued" || id == "" {
		in.wrong = append(in.wrong, e.Type+" "+id)
	}
	if before := in.bodies[id]; before != nil && !bytes.Equal(before, body) {
		in.wrong = append(in.wrong, "another body under "+id)
	}
	in.asked[id]++
	in.bodies[id], in.told[e.Subject] = body, true
}

// TestWebhooksOutliveKills: a server is killed again and again while it sends. Each event is
// received, signed, always under one id; and behind the last start nothing is sent again that
// was sent before it.
func TestWebhooksOutliveKills(t *testing.T) {
	t.Parallel()
	in := &inbox{secret: "a secret of the receiver's", asked: map[string]int{}, bodies: map[string][]byte{}, told: map[string]bool{}}
	receiver := httptest.NewServer(in)
	defer receiver.Close()
	db := tempDB(t)
	begin := func() (*process, *client.Client) {
		p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s", "--allow-webhook", "127.0.0.1")
		c, err := client.New(readyURL(t, p.stdout), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p, c
	}
	p, c := begin()
	h, err := c.CreateWebhook(t.Context(), job.WebhookSpec{URL: receiver.URL + "/hook", Events: []string{"job.enqueued"}}, job.Secret(in.secret))
	if err != nil {
		t.Fatal(err)
	}
	var pushed []string
	push := func() bool {
		r, err := c.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: "q", Args: json.RawMessage("[]")})
		if err == nil {
			pushed = append(pushed, string(r[0].ID))
		}
		return err == nil
	}
	for range fromEnv(t, "OUTRIDER_KILLS", 5) {
		for range 60 {
			push()
		}
		_ = p.Process.Kill()
		_ = p.Wait()
		c.Close()
		p, c = begin()
	}
	missing := func() (n int) {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, id := range pushed {
			if !in.told[id] {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(time.Minute); missing() > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if n := missing(); n != 0 || len(pushed) < 100 {
		t.Errorf("%d of %d events never came", n, len(pushed))
	}
	in.mu.Lock()
	wrong, before := in.wrong, maps.Clone(in.asked)
	in.mu.Unlock()
	if len(wrong) > 0 || len(before) < len(pushed) {
		t.Errorf("%d deliveries of %d events; wrong: %s", len(before), len(pushed), strings.Join(wrong, ", "))
	}
	if got, err := c.Webhook(t.Context(), h.ID); err != nil || got.Waiting != 0 || got.Dead != 0 || got.Missed != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil { // in good order: what was sent is known
		t.Fatal(err)
	}
	_ = p.Wait()
	c.Close()
	_, c = begin()
	defer c.Close()
	if !push() {
		t.Fatal("the last job was not taken")
	}
	for end := time.Now().Add(time.Minute); missing() > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, n := range before {
		if in.asked[id] != n {
			t.Errorf("%s was sent again behind a clean stop", id)
		}
	}
}

// TestAllowWebhook: without the flag the server says so where it can be seen; what is no target is refused.
func TestAllowWebhook(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	c, err := client.New(readyURL(t, p.stdout), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.CreateWebhook(t.Context(), job.WebhookSpec{URL: "http://example.com/", Events: []string{"*"}}, "")
	if err != nil || h.Paused || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0].Message, "--allow-webhook") {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := c.TestWebhook(t.Context(), h.ID); job.KindOf(err) != job.Conflict {
		t.Errorf("a test: %v", err)
	}
	for _, bad := range []string{"http://example.com", "example.com:80", "10.0.0.0/99", "10.0.0"} {
		if _, err := configured(t, nil, "--allow-webhook", bad); err == nil || !strings.Contains(err.Error(), "must be public, an address") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if got, err := configured(t, []string{"OUTRIDER_ALLOW_WEBHOOK=public, 10.0.0.0/8"}); err != nil || !got.webhooks.Address("a.test", netip.MustParseAddr("10.1.1.1")) || got.webhooks.Address("a.test", netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%+v, %v", got.webhooks, err)
	}
}
