package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var goodHosts = []string{"localhost", "LocalHost:1", "localhost:7373", "127.0.0.1", "127.0.0.1:65535", "127.255.0.3:80", "[::1]", "[::1]:7373", "jobs.internal", "JOBS.internal:443"}

var badHosts = []string{"", "evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "localhost.", "LOCALHOST.:80", "[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:80",
	"127.1", "0.0.0.0", "128.0.0.1", "2130706433", "[::]", "::1", "[::1", "[::1]x", "[127.0.0.1]", "[localhost]", "localhost:", "localhost:x", "localhost:123456", ":80",
	"localhost:80:80", "jobs.internal.", "xjobs.internal", "[::1%25eth0]", "localhost,evil.com", "localhost\x00"}

// badOrigins are seen from localhost:7373.
var badOrigins = []string{"null", "", "http://evil.com", "https://localhost:7373", "http://localhost", "http://localhost:7374", "http://localhost:7373.evil.com",
	"http://evil.com/http://localhost:7373", "http://localhost:7373/", "ftp://localhost:7373", "localhost:7373", "http://127.0.0.1:7373", "http://localhost:7373@evil.com"}

var badSites = []string{"cross-site", "same-site", "", "None", "none,cross-site"}

// guardRequest is a request for a route, without anything a guard could dislike.
func guardRequest(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.URL.Host, r.Host = "", "localhost:7373"
	return r
}

// Every route of the router is refused for every bad Host, Origin and
// Sec-Fetch-Site, in all combinations, before the service hears of it. A route
// that is added later is in here by itself.
func TestGuardMatrix(t *testing.T) {
	f := world()
	h := New(f, quiet())
	all := routes(h)
	if len(all) < 40 {
		t.Fatalf("only %d routes", len(all))
	}
	hosts := append([]string{"localhost:7373"}, badHosts...)
	origins := append([]string{"-", "http://localhost:7373"}, badOrigins...)
	sites := append([]string{"-", "none", "same-origin"}, badSites...)
	for _, route := range all {
		path := concrete(route.Path)
		for i, host := range hosts {
			for k, origin := range origins {
				for n, site := range sites {
					if i == 0 && k < 2 && n < 3 {
						continue
					}
					r := guardRequest(route.Method, path)
					r.Host = host
					set(r.Header, "Origin", origin)
					set(r.Header, "Sec-Fetch-Site", site)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code != http.StatusForbidden {
						t.Fatalf("%s %s with Host %q, Origin %q, Sec-Fetch-Site %q: got %d, want 403", route.Method, path, host, origin, site, w.Code)
					}
				}
			}
		}
	}
	if n := f.calls.Load(); n != 0 {
		t.Errorf("the service was called %d times by callers that were refused", n)
	}
}

func set(h http.Header, name, v string) {
	if v != "-" {
		h[name] = []string{v}
	}
}

// Nobody who may ask is refused.
func TestGuardLetsIn(t *testing.T) {
	h := New(world(), quiet())
	for _, route := range routes(h) {
		for _, host := range goodHosts {
			for _, origin := range []string{"-", "http://" + host, "http://" + strings.ToUpper(host)} {
				for _, site := range []string{"-", "none", "same-origin"} {
					r := guardRequest(route.Method, concrete(route.Path))
					r.Host = host
					set(r.Header, "Origin", origin)
					set(r.Header, "Sec-Fetch-Site", site)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code == http.StatusForbidden {
						t.Fatalf("%s %s with Host %q, Origin %q, Sec-Fetch-Site %q was refused", route.Method, route.Path, host, origin, site)
					}
				}
			}
		}
	}
}

func TestGuardSeesEveryHeader(t *testing.T) {
	h := New(world(), quiet())
	for name, change := range map[string]func(*http.Request){
		"a second Origin":         func(r *http.Request) { r.Header["Origin"] = []string{"http://localhost:7373", "http://evil.com"} },
		"a second Sec-Fetch-Site": func(r *http.Request) { r.Header["Sec-Fetch-Site"] = []string{"none", "cross-site"} },
		"a second Host":           func(r *http.Request) { r.Header["Host"] = []string{"localhost:7373"} },
		"absolute form":           func(r *http.Request) { r.URL.Host = "evil.com" },
		"an unknown path":         func(r *http.Request) { r.URL.Path, r.Host = "/nothing", "evil.com" },
		"an unknown method":       func(r *http.Request) { r.Method, r.Host = "ASSERT", "evil.com" },
		"a preflight":             func(r *http.Request) { r.Method = "OPTIONS"; r.Header.Set("Origin", "http://evil.com") },
		"a bad version":           func(r *http.Request) { r.Header.Set("OJS-Version", "9"); r.Host = "evil.com" },
	} {
		r := guardRequest("GET", "/live")
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", name, w.Code)
		}
	}
}

// CORS is off: nothing allows another origin anything, whatever is asked.
func TestNoCORS(t *testing.T) {
	h := New(world(), quiet())
	for _, route := range routes(h) {
		for _, origin := range []string{"-", "http://localhost:7373", "null", "http://evil.com"} {
			r := guardRequest(http.MethodOptions, concrete(route.Path))
			set(r.Header, "Origin", origin)
			r.Header.Set("Access-Control-Request-Method", "POST")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusNoContent && w.Code != http.StatusForbidden {
				t.Errorf("OPTIONS %s: got %d", route.Path, w.Code)
			}
			for k := range w.Header() {
				if strings.HasPrefix(k, "Access-Control-") {
					t.Errorf("OPTIONS %s from %s: the answer has %s", route.Path, origin, k)
				}
			}
		}
	}
}

// Over a unix socket any Host goes, but a browser's marks still do not.
func TestUnixSocketSkipsHost(t *testing.T) {
	h := New(world(), quiet())
	for _, tt := range []struct {
		network, host, origin string
		want                  int
	}{
		{"unix", "", "-", 200},
		{"unix", "anything", "-", 200},
		{"unix", "anything", "http://evil.com", 403},
		{"tcp", "anything", "-", 403},
	} {
		r := guardRequest("GET", "/live")
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address(tt.network)))
		r.Host = tt.host
		set(r.Header, "Origin", tt.origin)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%+v: got %d", tt, w.Code)
		}
	}
}

type address string

func (a address) Network() string { return string(a) }
func (a address) String() string  { return string(a) }

var _ net.Addr = address("")
