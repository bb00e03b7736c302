//go:build unix

package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/outbox"
)

// gate stands before a job server. While it is shut it answers by itself, as a
// proxy does whose server is away or that is set up wrong.
type gate struct {
	*httptest.Server
	shut   atomic.Bool
	answer func(w http.ResponseWriter, body []byte) bool // whether it has answered
}

func newGate(t *testing.T, server string, answer func(http.ResponseWriter, []byte) bool) *gate {
	t.Helper()
	g := &gate{answer: answer}
	g.shut.Store(true)
	pass := &lossy{server: server, sent: map[string]int{}}
	transport := &http.Transport{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if g.shut.Load() && g.answer(w, body) {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		pass.pass(transport, w, r)
	}))
	t.Cleanup(func() {
		g.Close()
		transport.CloseIdleConnections()
	})
	return g
}

func relayTo(t *testing.T, db *appDB, url string, o client.Options) *outbox.Relay {
	t.Helper()
	d, err := appdb.DialectOf(appdb.SQLite, "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := client.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return outbox.NewRelay(db.DB, d, to, outbox.RelayOptions{Owner: "one", Log: slog.New(slog.DiscardHandler)})
}

// TestAProxysAnswerIsNoVerdict: what does not come from a job server says
// nothing about a row, whatever its status. The rows stay, and are jobs once the
// server answers.
func TestAProxysAnswerIsNoVerdict(t *testing.T) {
	server, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	const page = "<html><body>proxy</body></html>"
	for _, c := range []struct {
		name   string
		status int
		body   string
		head   string
	}{
		{"found elsewhere", 302, page, "/login"}, {"see other", 303, page, "/login"}, {"kept method", 307, page, "/login"},
		{"a page", 200, page, ""}, {"no content", 204, "", ""}, {"created, of whatever", 201, "{}", ""}, {"an array", 200, "[]", ""},
		{"bad request", 400, page, ""}, {"bad request, empty", 400, "", ""}, {"not found", 404, page, ""}, {"no such method", 405, page, ""},
		{"conflict", 409, page, ""}, {"gone", 410, "", ""}, {"unsupported", 415, page, ""}, {"teapot", 418, page, ""},
		{"unprocessable", 422, `{"message":"no"}`, ""}, {"an error of another form", 400, `{"error":"bad_request"}`, ""},
		{"an error with a number", 422, `{"error":{"code":422,"message":"no"}}`, ""}, {"an error without a code", 400, `{"error":{"message":"no"}}`, ""},
		{"unauthorized", 401, page, ""}, {"too many", 429, page, ""}, {"bad gateway", 502, page, ""}, {"broken", 500, page, ""},
		{"a verdict to come back with", 422, `{"error":{"code":"queue_paused","message":"the queue is draining","retryable":true}}`, ""},
	} {
		for name, o := range map[string]client.Options{"": {}, ", redirects followed": {HTTP: &http.Client{}}} {
			t.Run(c.name+name, func(t *testing.T) {
				db := sqliteDB(t)
				db.init(t)
				g := newGate(t, server, func(w http.ResponseWriter, _ []byte) bool {
					if c.head != "" {
						w.Header().Set("Location", server+"/ojs/v1/jobs")
					}
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
					return true
				})
				r := relayTo(t, db, g.URL, o)
				for _, rows := range []int{1, 2} { // alone, and as a batch
					for range rows {
						db.insert(t, "shop.ordered")
					}
					n, err := r.Step(t.Context())
					if c.status == 307 && name != "" {
						continue // a redirect that keeps the body is carried out
					}
					if err == nil || n != 0 || db.rows(t, "parked") != 0 {
						t.Fatalf("%d settled, %d parked, %v", n, db.rows(t, "parked"), err)
					}
				}
				g.shut.Store(false)
				if _, err := r.Step(t.Context()); err != nil || db.rows(t, "pending") != 0 || db.rows(t, "parked") != 0 {
					t.Errorf("%d rows are left, %d parked, %v", db.rows(t, "pending"), db.rows(t, "parked"), err)
				}
			})
		}
	}
}

// TestAProxyWithALimit: rows go in smaller batches, and one that is too large for
// the proxy waits, and holds nothing up.
func TestAProxyWithALimit(t *testing.T) {
	server, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	db := sqliteDB(t)
	db.init(t)
	g := newGate(t, server, func(w http.ResponseWriter, body []byte) bool {
		if len(body) <= 2000 {
			return false
		}
		http.Error(w, "<html>413</html>", http.StatusRequestEntityTooLarge)
		return true
	})
	r := relayTo(t, db, g.URL, client.Options{})
	for i := range 40 {
		if i == 7 {
			db.exec(t, `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('shop.ordered', '["`+strings.Repeat("x", 3000)+`"]')`)
		}
		db.insert(t, "shop.ordered")
	}
	if n, err := r.Step(t.Context()); n != 41 || err != nil || db.rows(t, "pending") != 1 || db.rows(t, "parked") != 0 {
		t.Fatalf("%d settled, %d pending, %d parked, %v", n, db.rows(t, "pending"), db.rows(t, "parked"), err)
	}
	g.shut.Store(false)
	db.exec(t, "UPDATE ojs_outbox SET next_try_at = 0")
	if n, err := r.Step(t.Context()); n != 1 || err != nil || db.rows(t, "pending") != 0 {
		t.Errorf("%d settled, %d pending, %v", n, db.rows(t, "pending"), err)
	}
}
