package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// The API has no password by default: whoever can reach it may use it. A web page in a
// browser on the same machine must not reach it. Three checks stand before every
// route: a page whose own name resolves to 127.0.0.1 is caught by its Host, one that
// calls across sites by its Origin or Sec-Fetch-Site. No answer has a CORS header.

// Values of headers that never change. They are shared by all answers, and
// nobody may write to them.
var (
	nosniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	versions = [...][]string{wire.Bare: {wire.Bare.Version()}, wire.RC1: {wire.RC1.Version()}, wire.V1: {wire.V1.Version()}}
	types    = [...][]string{wire.Bare: {wire.Bare.ContentType()}, wire.RC1: {wire.RC1.ContentType()}, wire.V1: {wire.V1.ContentType()}}
)

// enter runs before every request is routed: it sets the headers of the answer, so
// that errors have them too, and refuses callers that may not be here.
func (a *api) enter(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer a.rescue(c, &err)
		r := c.Request()
		p, unspoken := wire.ProfileOf(first(r.Header, headerVersion))
		h := c.Response().Header()
		h[headerVersion] = versions[p]
		h["Content-Type"] = types[p]
		h["X-Content-Type-Options"] = nosniff
		h["Cache-Control"] = noStore
		h[headerRequestID] = a.requestID(r)
		if a.Admit != nil {
			if err := a.Admit(c.Response(), r); err != nil {
				return err
			}
		}
		if err := a.guard(r); err != nil {
			return err
		}
		if unspoken != nil {
			return unspoken
		}
		own, err := spoken(r)
		if err != nil {
			return err
		}
		if own != r {
			r = own
			c.SetRequest(r)
		}
		trimSlash(r)
		return next(c)
	}
}

// requestID is the caller's X-Request-Id if it is harmless, and a new one if not.
func (a *api) requestID(r *http.Request) []string {
	if ids := r.Header[headerRequestID]; len(ids) > 0 && harmless(ids[0]) {
		return ids[:1:1]
	}
	return []string{a.NewRequestID()}
}

// harmless reports whether s is 1 to 128 characters of [A-Za-z0-9_.:-].
func harmless(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

// trimSlash makes /jobs/ the same as /jobs.
func trimSlash(r *http.Request) {
	u := r.URL
	if len(u.Path) > 1 && u.Path[len(u.Path)-1] == '/' {
		u.Path = u.Path[:len(u.Path)-1]
		u.RawPath = strings.TrimSuffix(u.RawPath, "/")
	}
}

// guard is nil for a caller that may ask, and Forbidden for any other.
func (a *api) guard(r *http.Request) error {
	if len(r.Header["Host"]) > 0 || !a.hostAllowed(r.Host) && !overUnixSocket(r) {
		return job.Errorf(job.Forbidden, "the host name %.80q is not one of this server's", r.Host)
	}
	if r.URL.Host != "" && r.URL.Host != r.Host {
		return job.Errorf(job.Forbidden, "the request is for another host, %.80q", r.URL.Host)
	}
	for _, o := range r.Header["Origin"] {
		if site, ok := strings.CutPrefix(o, "http://"); !ok || !strings.EqualFold(site, r.Host) {
			return job.Errorf(job.Forbidden, "requests from other origins are refused, this one is from %.80q", o)
		}
	}
	for _, s := range r.Header["Sec-Fetch-Site"] {
		if s != "none" && s != "same-origin" {
			return job.Errorf(job.Forbidden, "requests from other sites are refused, this one is %.40q", s)
		}
	}
	return nil
}

// hostAllowed reports whether a Host header names this machine or a configured name, with any port.
func (a *api) hostAllowed(host string) bool {
	name, bracketed, ok := cutPort(host)
	if !ok {
		return false
	}
	if !bracketed && strings.EqualFold(name, "localhost") {
		return true
	}
	for _, h := range a.Hosts {
		if strings.EqualFold(strings.Trim(h, "[]"), name) {
			return true
		}
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if bracketed {
		return ip == netip.IPv6Loopback() // also not an IPv4 address in disguise
	}
	return ip.Is4() && ip.IsLoopback()
}

// cutPort takes the port and the brackets off a Host header. It is strict: anything
// but a name and a number is not ok.
func cutPort(host string) (name string, bracketed, ok bool) {
	rest := ""
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", true, false
		}
		name, rest, bracketed = host[1:end], host[end+1:], true
	} else {
		colon := strings.IndexByte(host, ':')
		if colon < 0 {
			return host, false, host != ""
		}
		name, rest = host[:colon], host[colon:]
	}
	if name == "" {
		return "", bracketed, false
	}
	if rest == "" {
		return name, bracketed, true
	}
	if rest[0] != ':' || len(rest) < 2 || len(rest) > 6 {
		return "", bracketed, false
	}
	for _, c := range rest[1:] {
		if c < '0' || c > '9' {
			return "", bracketed, false
		}
	}
	return name, bracketed, true
}

// overUnixSocket reports whether the request came over a unix socket. Browsers do not
// use them, and clients that do send any Host they like.
func overUnixSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}
