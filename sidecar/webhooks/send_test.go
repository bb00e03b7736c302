package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// names is a resolver whose answers a test chooses. Each lookup takes the next one.
type names struct {
	asked   atomic.Int64
	answers map[string][]string // each a list of addresses with commas between them
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (ips []netip.Addr, _ error) {
	all := n.answers[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	turn := int(n.asked.Add(1)) - 1
	for text := range strings.SplitSeq(all[min(turn, len(all)-1)], ",") {
		ips = append(ips, netip.MustParseAddr(text))
	}
	return ips, nil
}

// knock sends one event to a URL, as a server does that allows the targets.
func knock(t *testing.T, r Resolver, to string, targets ...string) outcome {
	t.Helper()
	a, err := ParseAllowed(targets...)
	if err != nil {
		t.Fatal(err)
	}
	return post(t.Context(), newSender(a, r).client.Do, letter{to: job.Webhook{ID: "sub_x", WebhookSpec: job.WebhookSpec{URL: to}, Secret: "secret secret secret"}, id: "dlv_x", kind: "job.failed", body: []byte(`{"id":"evt_x"}`), sentAt: time.Now()})
}

// trap is a receiver on loopback that must be left alone, or counts who comes.
func trap(t *testing.T, answer http.HandlerFunc) (s *httptest.Server, port string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	s = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answer(rw, r)
	}))
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	return s, u.Port(), calls
}

func fine(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }

// No address is connected to that is not allowed, however it is named.
func TestPrivateAddressesAreNeverAsked(t *testing.T) {
	_, port, calls := trap(t, fine)
	r := &names{answers: map[string][]string{"private.test": {"127.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"}, "both.test": {"127.0.0.1,::1"}}}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "169.254.169.254", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "private.test", "mapped.test", "both.test", "PRIVATE.test.", "2130706433", "0x7f.1", "127.1"} {
		o := knock(t, r, "http://"+host+":"+port+"/", "public", "allowed.test")
		if o.err == nil || o.status != 0 {
			t.Errorf("%s was asked: %d", host, o.status)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("loopback was asked %d times", n)
	}
	if o := knock(t, r, "http://private.test:"+port+"/", "private.test"); o.status != 204 {
		t.Errorf("a host that is allowed by its name: %+v", o)
	}
	if o := knock(t, r, "http://127.0.0.1:"+port+"/", "127.0.0.0/8"); o.status != 204 {
		t.Errorf("a network that is allowed: %+v", o)
	}
}

// A name that means another address at the second look is connected to at what the first one found, or not at all.
func TestRebinding(t *testing.T) {
	_, port, calls := trap(t, fine)
	r := &names{answers: map[string][]string{"rebinds.test": {"192.0.2.1", "127.0.0.1"}}}
	for range 3 {
		if o := knock(t, r, "http://rebinds.test:"+port+"/", "public"); o.err == nil {
			t.Errorf("answered %d", o.status)
		}
	}
	if calls.Load() != 0 {
		t.Error("loopback was asked")
	}
	r = &names{answers: map[string][]string{"mixed.test": {"10.0.0.1,127.0.0.1"}}} // only the second of them is allowed
	if o := knock(t, r, "http://mixed.test:"+port+"/", "127.0.0.1"); o.status != 204 || r.asked.Load() != 1 {
		t.Errorf("%+v, the name was looked up %d times", o, r.asked.Load())
	}
}

// A redirect is followed where it keeps the POST, three times at most, and never to where nothing may be sent.
func TestRedirects(t *testing.T) {
	_, inner, calls := trap(t, fine)
	var hops atomic.Int64
	_, port, _ := trap(t, func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			rw.Header().Set("Location", to)
			rw.WriteHeader(map[string]int{"301": 301, "302": 302, "303": 303, "308": 308}[r.URL.Query().Get("code")])
			return
		}
		if r.URL.Path == "/round" {
			hops.Add(1)
			http.Redirect(rw, r, "/round", http.StatusTemporaryRedirect)
			return
		}
		if r.URL.Path == "/three" && hops.Add(1) <= 3 {
			http.Redirect(rw, r, "/three", http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || string(body) != `{"id":"evt_x"}` || r.Header.Get("Referer") != "" || r.Header.Get("X-OJS-Delivery-ID") != "dlv_x" {
			rw.WriteHeader(418)
		}
	})
	r := &names{answers: map[string][]string{"outer.test": {"127.0.0.1"}, "private.test": {"127.0.0.1"}}}
	from := func(to, code string) outcome {
		return knock(t, r, "http://outer.test:"+port+"/?code="+code+"&to="+url.QueryEscape(to), "outer.test", "public")
	}
	for _, to := range []string{"http://127.0.0.1:" + inner, "http://169.254.169.254/latest/meta-data", "http://[::ffff:127.0.0.1]:" + inner, "http://private.test:" + inner, "http://localhost:" + inner, "file:///etc/passwd", "gopher://127.0.0.1:" + inner, "http://user:word@outer.test:" + port} {
		if o := from(to, "308"); o.err == nil {
			t.Errorf("the redirect to %s was followed: %d", to, o.status)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("a redirect reached loopback %d times", calls.Load())
	}
	for _, code := range []string{"301", "302", "303"} {
		o := from("http://outer.test:"+port+"/end", code)
		if v, _ := o.verdict(1); o.err != nil || o.status < 301 || o.status > 303 || v != retrying {
			t.Errorf("%s: %+v", code, o)
		}
	}
	if o := from("http://outer.test:"+port+"/end", "308"); o.status != 200 {
		t.Errorf("308 to an allowed place: %+v", o)
	}
	if o := knock(t, r, "http://outer.test:"+port+"/three", "outer.test"); o.status != 200 {
		t.Errorf("three redirects: %+v", o)
	}
	hops.Store(0)
	if o := knock(t, r, "http://outer.test:"+port+"/round", "outer.test"); o.err == nil || hops.Load() != 4 {
		t.Errorf("a circle: %+v after %d requests", o, hops.Load())
	}
}

// A proxy of the environment is not used, a large answer is not read, and a certificate that nobody vouches for is refused.
func TestConnections(t *testing.T) {
	_, proxy, asked := trap(t, fine)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+proxy)
	t.Setenv("http_proxy", "http://127.0.0.1:"+proxy)
	big := bytes.Repeat([]byte("x"), 1<<20)
	_, port, _ := trap(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(big) })
	r := &names{answers: map[string][]string{"outer.test": {"127.0.0.1"}}}
	if o := knock(t, r, "http://outer.test:"+port+"/", "outer.test"); o.status != 200 || len(o.body) != maxAnswer {
		t.Errorf("%d, %d bytes, %v", o.status, len(o.body), o.err)
	}
	if asked.Load() != 0 {
		t.Error("a proxy was asked")
	}
	s := httptest.NewTLSServer(http.HandlerFunc(fine))
	defer s.Close()
	s.Config.ErrorLog = nil
	if o := knock(t, r, s.URL, "127.0.0.1"); o.err == nil || !strings.Contains(o.problem(), "certificate") {
		t.Errorf("a certificate of nobody: %+v", o)
	}
}

// A problem names neither the URL nor what is in it.
func TestProblemsHideTheURL(t *testing.T) {
	r := &names{answers: map[string][]string{"closed.test": {"127.0.0.1"}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	for to, want := range map[string]string{"http://nowhere.test/canary": "cannot be resolved", "http://10.0.0.1/canary": "--allow-webhook", "http://closed.test:" + port + "/canary": "cannot be connected"} {
		o := knock(t, r, to, "closed.test")
		if p := o.problem(); !strings.Contains(p, want) || strings.Contains(p, "canary") || strings.Contains(p, "10.0.0.1") {
			t.Errorf("%s: %s", to, p)
		}
	}
	if got := plain("a\r\nb\x1b[31m" + strings.Repeat("x", 500)); strings.ContainsAny(got, "\r\n\x1b") || len(got) != 200 {
		t.Errorf("%q", got)
	}
}

// The signature is what a receiver works out for itself.
func TestSign(t *testing.T) {
	h := hmac.New(sha256.New, []byte("key"))
	_, _ = io.WriteString(h, `{"a":1}`)
	if got := Sign("key", []byte(`{"a":1}`)); got != "sha256="+hex.EncodeToString(h.Sum(nil)) || got == Sign("kez", []byte(`{"a":1}`)) || got == Sign("key", []byte(`{"a":2}`)) {
		t.Error(got)
	}
}
