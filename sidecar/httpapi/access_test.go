package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	aSecret    = "token-that-nobody-may-see-0123456789"
	wrongToken = "wrong-token-that-nobody-may-see-98765"
)

// guarded is an Access with a token for each set of roles, which is named by them.
func guarded(sets ...Role) *Access {
	var c Credentials
	for _, r := range sets {
		c.Tokens = append(c.Tokens, Credential{sha256.Sum256([]byte(tokenOf(r))), r})
	}
	return NewAccess(c)
}

func tokenOf(r Role) string { return aSecret + "-" + r.String() }

// withAccess is a quiet handler with roles, whose log goes to a buffer.
func withAccess(f *fake, a *Access) (http.Handler, *bytes.Buffer) {
	log := new(bytes.Buffer)
	o := quiet()
	o.Access, o.Now = a, time.Now
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return New(f, o), log
}

// oracle says who may ask a route, from contract §1.10 and not from the table.
func oracle(method, path string) Role {
	below, api := strings.CutPrefix(path, "/ojs/v1")
	if !api {
		below, api = strings.CutPrefix(path, "/v1") // cut short
	}
	below = strings.TrimPrefix(below, "/ojs/v1") // written twice
	reads := method == "GET"
	switch {
	case slices.Contains([]string{"/ojs/manifest", "/metrics", "/health", "/healthz", "/ready", "/readyz", "/live", "/livez", "/ojs/v1/health", "/v1/health"}, path): // contract §1.1, §1.2
		return everybody
	case !api:
		return Operator
	case strings.HasPrefix(below, "/admin/") && reads, below == "/workers" && reads:
	case strings.HasPrefix(below, "/admin/"):
		return Operator
	case strings.HasPrefix(below, "/workers/:id") && reads:
		return ReadOnly | Worker | Operator
	case strings.HasPrefix(below, "/workers/"), below == "/jobs/fetch", below == "/jobs/:id/ack":
		return Worker | Operator
	case strings.HasPrefix(below, "/checkpoints/") && !reads, strings.HasSuffix(below, "/progress") && !reads, strings.HasSuffix(below, "/checkpoint") && !reads:
		return Worker | Operator
	case reads && (below == "/jobs/:id" || strings.HasPrefix(below, "/jobs/:id/") || strings.HasPrefix(below, "/checkpoints/") || below == "/events/:id/history"), below == "/jobs/results":
		return anyRole
	case below == "/jobs", below == "/jobs/batch", below == "/jobs/bulk", below == "/workflows", below == "/outbox/poke":
		if !reads {
			return Producer | Operator
		}
	case strings.HasPrefix(below, "/jobs/:id") && method != "PATCH", strings.HasPrefix(below, "/workflows/:id") && !reads:
		return Producer | Operator
	case strings.HasPrefix(below, "/workflows/:id"), strings.HasPrefix(below, "/schemas") && reads, below == "/unique/explain":
		return Producer | ReadOnly | Operator
	case strings.Contains(below, "/deduplication/"), strings.Contains(below, "/debounce/"):
		if reads {
			return Producer | ReadOnly | Operator
		}
		return Producer | Operator
	case !reads:
		return Operator
	}
	return ReadOnly | Operator
}

// Every route is asked without a token, with a wrong one, and with each set of roles, and
// lets in whom the contract names. Nobody else reaches the service, and no answer and no
// line of the log has a token.
func TestWhoMayAskWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sets []Role
		for r := Role(1); r <= anyRole; r++ {
			sets = append(sets, r)
		}
		f := world()
		h, log := withAccess(f, guarded(sets...))
		asked, let := 0, 0
		for _, r := range Routes() {
			want := oracle(r.Method, r.Path)
			if strings.HasPrefix(r.Path, "/ojs/v1/admin/schemas") && r.Method == "GET" {
				want |= Producer // as without /admin
			}
			if want != r.Who {
				t.Errorf("%s %s is for %q by the table, and for %q by the contract", r.Method, r.Path, r.Who, want)
			}
			methods := []string{r.Method}
			if r.Method == "GET" {
				methods = append(methods, "HEAD")
			}
			for _, method := range methods {
				for _, shown := range []struct {
					header string
					roles  Role
				}{{"", 0}, {"Bearer " + wrongToken, 0}, {"Bearer ", 0}, {"Basic " + aSecret, 0}, {"Bearer " + aSecret, 0}, {"Bearer " + tokenOf(Producer) + "x", 0}} {
					f.calls.Store(0)
					w := ask(h, method, r.Path, shown.header)
					if want == everybody {
						if w.Code == 401 || w.Code == 403 {
							t.Errorf("%s %s with %q: %d, and everybody may ask it", method, r.Path, shown.header, w.Code)
						}
						continue
					}
					asked++
					if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" || f.calls.Load() != 0 {
						t.Errorf("%s %s with %q: %d, %d calls of the service", method, r.Path, shown.header, w.Code, f.calls.Load())
					}
					if method != "HEAD" {
						if e := failureOf(t, w.Body); e.Code != "unauthenticated" || strings.Contains(e.Message, aSecret) {
							t.Errorf("%s %s with %q: %+v", method, r.Path, shown.header, e)
						}
					}
				}
				for _, roles := range sets {
					f.calls.Store(0)
					w := ask(h, method, r.Path, "Bearer "+tokenOf(roles))
					may := want == everybody || roles&want != 0
					if refused := w.Code == 401 || w.Code == 403; may == refused {
						t.Errorf("%s %s with the roles %q: %d", method, r.Path, roles, w.Code)
					}
					if !may {
						if f.calls.Load() != 0 {
							t.Errorf("%s %s with the roles %q reached the service", method, r.Path, roles)
						}
						if method == "HEAD" {
							continue
						}
						if e := failureOf(t, w.Body); e.Code != "permission_denied" || !strings.Contains(e.Message, "role") {
							t.Errorf("%s %s with the roles %q: %+v", method, r.Path, roles, e)
						}
					} else {
						let++
					}
				}
			}
		}
		if asked < 600 || let < 1000 {
			t.Errorf("%d were refused, %d let in", asked, let)
		}
		if strings.Contains(log.String(), "nobody-may-see") || !strings.Contains(log.String(), "refused") {
			t.Errorf("the log has a token, or no line at all:\n%s", log)
		}
	})
}

func ask(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	r := guardRequest(method, concrete(path))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Refusals are counted by their reason, and logged at most once in ten seconds, with how
// many there were since.
func TestRefusalsAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := guarded(Producer)
		h, log := withAccess(world(), a)
		began := time.Now()
		for range 3 {
			ask(h, "GET", "/ojs/v1/jobs", "")
			ask(h, "GET", "/ojs/v1/jobs", "Bearer "+wrongToken)
			ask(h, "GET", "/ojs/v1/jobs", "Bearer "+tokenOf(Producer))
		}
		if d := time.Since(began); d != 3*penalty {
			t.Errorf("three wrong tokens took %s, want %s", d, 3*penalty)
		}
		if missing, wrong, role := a.Refused(); missing != 3 || wrong != 3 || role != 3 {
			t.Errorf("counted %d, %d, %d", missing, wrong, role)
		}
		shown := serve(h, "GET", "/metrics", "").Body.String()
		for _, line := range []string{`ojs_auth_refused_total{reason="no_token"} 3`, `ojs_auth_refused_total{reason="wrong_token"} 3`, `ojs_auth_refused_total{reason="role"} 3`} {
			if !strings.Contains(shown, line) {
				t.Errorf("the metrics lack %s", line)
			}
		}
		if strings.Contains(shown, "nobody-may-see") {
			t.Error("the metrics have a token")
		}
		if n := strings.Count(log.String(), "refused:"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log)
		}
		time.Sleep(10 * time.Second)
		ask(h, "GET", "/ojs/v1/jobs", "")
		if !strings.Contains(log.String(), "count=9") {
			t.Errorf("got:\n%s", log)
		}
	})
}

// Many wrong tokens at once do not hold many connections.
func TestGuessesHoldFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := withAccess(world(), guarded(Producer))
		answers := make(chan *httptest.ResponseRecorder, 100)
		for range cap(answers) {
			go func() { answers <- ask(h, "GET", "/ojs/v1/jobs", "Bearer "+wrongToken) }()
		}
		synctest.Wait()
		if n := len(answers); n != cap(answers)-payers {
			t.Errorf("%d were answered at once, want %d", n, cap(answers)-payers)
		}
		time.Sleep(penalty)
		synctest.Wait()
		closed := 0
		for range cap(answers) {
			if w := <-answers; w.Header().Get("Connection") == "close" {
				closed++
			}
		}
		if closed == 0 {
			t.Error("no connection of those beyond the bound is closed")
		}
	})
}

// Credentials that are set anew hold for the next request.
func TestCredentialsAreRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := guarded(Producer)
		h, _ := withAccess(world(), a)
		next := guarded(ReadOnly).held.Load()
		for i, want := range []int{403, 401} {
			if w := ask(h, "GET", "/ojs/v1/jobs", "Bearer "+tokenOf(Producer)); w.Code != want {
				t.Errorf("%d: got %d, want %d", i, w.Code, want)
			}
			a.Set(*next)
		}
		if w := ask(h, "GET", "/ojs/v1/jobs", "Bearer "+tokenOf(ReadOnly)); w.Code != 200 {
			t.Errorf("the new token: %d", w.Code)
		}
	})
}

// Credentials are replaced while requests are under way: a token that both sets have is
// never refused, and one whose role changes has the one or the other.
func TestCredentialsAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	a := guarded(Operator)
	var sets [2]Credentials
	for i, roles := range []Role{Producer, ReadOnly} {
		sets[i].Tokens = append([]Credential{{sha256.Sum256([]byte(aSecret)), roles}}, a.held.Load().Tokens...)
	}
	a.Set(sets[0])
	h, log := withAccess(world(), a)
	var let, refused atomic.Int64
	var asking sync.WaitGroup
	ended := make(chan struct{})
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if w := ask(h, "GET", "/ojs/v1/queues", "Bearer "+tokenOf(Operator)); w.Code != 200 {
					t.Errorf("a token of both: %d", w.Code)
				}
				switch w := ask(h, "GET", "/ojs/v1/queues", "Bearer "+aSecret); w.Code {
				case 200:
					let.Add(1)
				case 403:
					refused.Add(1)
				default:
					t.Errorf("a token whose role changes: %d", w.Code)
				}
			}
		})
	}
	until := time.Now().Add(20 * time.Second)
	for i := 0; (i < 2000 || let.Load() < 20 || refused.Load() < 20) && time.Now().Before(until); i++ {
		a.Set(sets[i%2])
		runtime.Gosched()
	}
	close(ended)
	asking.Wait()
	if let.Load() < 20 || refused.Load() < 20 {
		t.Errorf("%d were let in, %d refused", let.Load(), refused.Load())
	}
	if strings.Contains(log.String(), "nobody-may-see") {
		t.Error("the log has a token")
	}
}

// The user at the other end of a unix socket has the roles that were given to it, unless
// it shows a token, which counts alone.
func TestUsersOfASocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := guarded(Producer)
		held := a.held.Load()
		a.Set(Credentials{Tokens: held.Tokens, Users: map[int]Role{1000: Operator, 1001: Worker}})
		for _, tt := range []struct {
			user   int
			known  bool
			header string
			want   int
		}{
			{1000, true, "", 200}, {1001, true, "", 403}, {1002, true, "", 401}, {1000, false, "", 401},
			{1000, true, "Bearer " + wrongToken, 401}, {1000, true, "Bearer " + tokenOf(Producer), 403},
		} {
			o := quiet()
			o.Access = a
			o.PeerUser = func(*http.Request) (int, bool) { return tt.user, tt.known }
			if w := ask(New(world(), o), "GET", "/ojs/v1/queues", tt.header); w.Code != tt.want {
				t.Errorf("%+v: got %d", tt, w.Code)
			}
		}
	})
}

// The URL of a webhook may be a secret: only operators, and everybody where there are no
// roles, see more of it than where it leads.
func TestWhoSeesTheURLsOfWebhooks(t *testing.T) {
	both := ReadOnly | Worker
	h, _ := withAccess(world(), guarded(ReadOnly, both, Operator, ReadOnly|Operator))
	all := Role(0)
	for roles, whole := range map[Role]bool{ReadOnly: false, both: false, Operator: true, ReadOnly | Operator: true, all: true} {
		for path, times := range map[string]int{"/ojs/v1/webhooks/subscriptions": 1, "/ojs/v1/webhooks/subscriptions/sub_a": 2} {
			of, shown := h, "Bearer "+tokenOf(roles)
			if roles == all {
				of, shown = New(world(), quiet()), ""
			}
			r := guardRequest("GET", path)
			set(r.Header, "Authorization", cmp.Or(shown, "-"))
			w := httptest.NewRecorder()
			of.ServeHTTP(w, r)
			want := `"url":"https://example.com/…"`
			if whole {
				want = `"url":"https://example.com/a"`
			}
			if w.Code != 200 || strings.Count(w.Body.String(), want) < times || !whole && strings.Contains(w.Body.String(), "example.com/a") {
				t.Errorf("%s with the roles %q: %d %s", path, roles, w.Code, w.Body)
			}
		}
	}
}

// Of several tokens none counts: what stands in front of the server may have looked at
// another of them.
func TestSeveralTokensInOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := withAccess(world(), guarded(ReadOnly, Operator))
		good := "Bearer " + tokenOf(ReadOnly)
		for _, sent := range [][]string{{good, "Bearer " + wrongToken}, {"Bearer " + wrongToken, good}, {good, good}, {good, ""}, {"", good}, {good, "Basic eDp5"}, {good, "Bearer " + tokenOf(Operator)}, {good + ", " + good}} {
			r := guardRequest("GET", "/ojs/v1/queues")
			r.Header["Authorization"] = sent
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != 401 {
				t.Errorf("%d headers: got %d", len(sent), w.Code)
			}
		}
	})
}

func TestParseRoles(t *testing.T) {
	for _, s := range []string{"producer", "worker", "read-only", "operator", "producer,worker", "producer,worker,read-only,operator"} {
		if r, err := ParseRoles(s); err != nil || r.String() != s {
			t.Errorf("%s: got %q, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "admin", "producer,", "Producer", "producer worker", "read_only"} {
		if r, err := ParseRoles(s); job.KindOf(err) != job.Invalid || r != 0 || !strings.Contains(err.Error(), "operator") {
			t.Errorf("%q: got %q, %v", s, r, err)
		}
	}
}

// The pages of the named origins may use every route, and no other page may use any.
func TestOrigins(t *testing.T) {
	const page = "https://dash.example"
	o := quiet()
	o.Origins = []string{"http://localhost:3000", page}
	h := New(world(), o)
	for _, r := range Routes() {
		for _, origin := range []string{page, "http://localhost:3000"} {
			for _, site := range []string{"-", "cross-site", "same-site"} {
				req := guardRequest(r.Method, concrete(r.Path))
				set(req.Header, "Origin", origin)
				set(req.Header, "Sec-Fetch-Site", site)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code == 403 || w.Header().Get("Access-Control-Allow-Origin") != origin || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "X-Request-Id") ||
					!slices.Contains(w.Header()["Vary"], "Origin") || w.Header().Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s %s from %s, %s: %d %v", r.Method, r.Path, origin, site, w.Code, w.Header())
				}
				req = guardRequest("OPTIONS", concrete(r.Path))
				set(req.Header, "Origin", origin)
				req.Header.Set("Access-Control-Request-Method", r.Method)
				req.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
				w = httptest.NewRecorder()
				h.ServeHTTP(w, req)
				allowed := w.Header().Get("Access-Control-Allow-Methods")
				if w.Code != 204 || !strings.Contains(allowed, r.Method) || !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") || w.Header().Get("Access-Control-Max-Age") == "" {
					t.Errorf("preflight of %s %s: %d %v", r.Method, r.Path, w.Code, w.Header())
				}
			}
		}
		for _, origin := range []string{"null", "http://dash.example", page + ".evil.com", page + ":443", "https://DASH.example", "https://x.dash.example", page + "/", "http://localhost:3001", ""} {
			for _, method := range []string{r.Method, "OPTIONS"} {
				req := guardRequest(method, concrete(r.Path))
				set(req.Header, "Origin", origin)
				req.Header.Set("Access-Control-Request-Method", r.Method)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s from %q: %d %v", method, r.Path, origin, w.Code, w.Header())
				}
			}
		}
	}
	both := guardRequest("GET", "/ojs/v1/queues")
	both.Header["Origin"] = []string{page, "http://evil.com"}
	site := guardRequest("GET", "/ojs/v1/queues")
	site.Header.Set("Sec-Fetch-Site", "cross-site") // as the browser writes it for an image, without an Origin
	for name, req := range map[string]*http.Request{"two origins": both, "another site without an origin": site} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != 403 {
			t.Errorf("%s: got %d", name, w.Code)
		}
	}
	req := guardRequest("OPTIONS", "/ojs/v1/jobs")
	req.Header.Set("Origin", page)
	req.Header.Set("Access-Control-Request-Method", "POST")
	req.Header.Set("Access-Control-Request-Private-Network", "true")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, req); w.Header().Get("Access-Control-Allow-Private-Network") != "true" {
		t.Errorf("a page on the internet asks for this machine: %v", w.Header())
	}
}

// A server that other machines reach is asked by its address; its names must be named.
func TestAnyAddress(t *testing.T) {
	o := quiet()
	o.AnyAddress = true
	h := New(world(), o)
	for host, want := range map[string]int{"10.1.2.3:8080": 200, "192.0.2.1": 200, "[2001:db8::1]:8080": 200, "127.0.0.1:1": 200, "localhost": 200, "jobs.internal": 200,
		"evil.com": 403, "10.1.2.3.nip.io": 403, "2001:db8::1": 403, "[10.1.2.3]": 403, "10.1.2": 403, "[fe80::1%25eth0]": 403, "": 403} {
		r := guardRequest("GET", "/live")
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: got %d, want %d", host, w.Code, want)
		}
	}
}

// What is not there says so, with the method and the path, and nothing of jobs. A word of
// another endpoint is no job, no worker and no schema.
func TestEndpointsThatAreNotThere(t *testing.T) {
	h := New(world(), quiet())
	for _, endpoint := range []string{"GET /", "GET /ojs/v1", "POST /ojs/v1/jobs/bulk/frobnicate", "POST /ojs/v1/x", "PUT /ojs/v1/jobs/" + string(idOne) + "/x", "GET /ojs/v2/jobs", "DELETE /ojs/v1/nothing/at/all", "ASSERT /x"} {
		method, path, _ := strings.Cut(endpoint, " ")
		w := serve(h, method, path, "")
		e := failureOf(t, w.Body)
		if w.Code != 404 || e.Code != "not_found" || e.Details["resource_type"] != "endpoint" || e.Details["resource_id"] != endpoint ||
			!strings.Contains(e.Message, "no endpoint "+endpoint) || strings.Contains(w.Body.String(), "retention") {
			t.Errorf("%s: %d %+v", endpoint, w.Code, e)
		}
	}
	for endpoint, allow := range map[string]string{"GET /ojs/v1/jobs/bulk": "POST", "DELETE /ojs/v1/jobs/batch": "POST", "GET /ojs/v1/workers/progress": "POST", "DELETE /ojs/v1/workers/ack": "POST",
		"DELETE /ojs/v1/dead-letter/stats": "GET", "GET /ojs/v1/dead-letter/retry": "POST", "PATCH /ojs/v1/jobs/fetch": "POST", "GET /ojs/v1/jobs/results": "POST"} {
		method, path, _ := strings.Cut(endpoint, " ")
		f := world()
		w := serve(New(f, quiet()), method, path, "{}")
		if w.Code != 405 || !strings.Contains(w.Header().Get("Allow"), allow) || f.calls.Load() != 0 {
			t.Errorf("%s: %d, Allow %q, %d calls: %s", endpoint, w.Code, w.Header().Get("Allow"), f.calls.Load(), w.Body)
		}
	}
	long := serve(h, "GET", "/"+strings.Repeat("ä", 4000), "")
	if e := failureOf(t, long.Body); long.Code != 404 || len(e.Message) > 300 {
		t.Errorf("a long path: %d, a message of %d bytes", long.Code, len(e.Message))
	}
	if len(fmt.Sprint(endpoints(Routes()))) < 400 {
		t.Error("the manifest names hardly any endpoint")
	}
}
