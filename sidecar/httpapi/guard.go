package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// The API has no password by default: whoever can reach it may use it. A web page in a
// browser on the same machine must not reach it. Three checks stand before every
// route: a page whose own name resolves to 127.0.0.1 is caught by its Host, one that
// calls across sites by its Origin or Sec-Fetch-Site. Only the pages of Options.Origins may
// call across sites, and only answers to them have CORS headers (contract §1.9).

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
		if a.shared(h, r) {
			return c.NoContent(http.StatusNoContent)
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
	others := 0
	for _, o := range r.Header["Origin"] {
		site, ok := strings.CutPrefix(o, a.scheme()+"://")
		switch {
		case ok && strings.EqualFold(site, r.Host):
		case a.allows(o):
			others++
		default:
			return job.Errorf(job.Forbidden, "requests from other origins are refused, this one is from %.80q", o).
				With(map[string]any{"hint": "Serve the page from the server itself, or start the server with --allow-origin and the origin of the page."})
		}
	}
	if others > 0 && others == len(r.Header["Origin"]) { // and so it comes from another site
		return nil
	}
	for _, s := range r.Header["Sec-Fetch-Site"] {
		if s != "none" && s != "same-origin" {
			return job.Errorf(job.Forbidden, "requests from other sites are refused, this one is %.40q", s)
		}
	}
	return nil
}

func (a *api) scheme() string {
	if a.TLS {
		return "https"
	}
	return "http"
}

// allows reports whether the pages of an origin may use the server. Origins are compared
// as they are written: a browser writes each in one way.
func (a *api) allows(origin string) bool { return slices.Contains(a.Origins, origin) }

// What a page of another origin is told (contract §1.9).
var (
	corsMethods = []string{"GET, POST, PUT, PATCH, DELETE, OPTIONS"}
	corsSends   = []string{"Content-Type, Accept, Authorization, X-Request-Id, OJS-Version, OJS-Block-Timeout, X-OJS-Tenant, Idempotency-Key, If-None-Match, Last-Event-ID"}
	corsReads   = []string{"X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, OJS-Version, Retry-After, Location, " +
		"X-OJS-Queue-Depth, X-OJS-Queue-Bound, X-OJS-Queue-Pressure, X-OJS-Batch-Size, X-OJS-Max-Batch-Size"}
	corsMaxAge = []string{"86400"}
	varyOrigin = []string{"Origin"}
	yes        = []string{"true"}
)

// shared sets the headers for a page of another origin that may use the server, and
// reports whether the request only asks for them.
func (a *api) shared(h http.Header, r *http.Request) (preflight bool) {
	if len(a.Origins) == 0 {
		return false
	}
	h["Vary"] = varyOrigin
	from := r.Header["Origin"]
	if len(from) != 1 || !a.allows(from[0]) {
		return false
	}
	h["Access-Control-Allow-Origin"] = from[:1:1]
	h["Access-Control-Expose-Headers"] = corsReads
	if r.Method != http.MethodOptions || first(r.Header, "Access-Control-Request-Method") == "" {
		return false
	}
	h["Access-Control-Allow-Methods"] = corsMethods
	h["Access-Control-Allow-Headers"] = corsSends
	h["Access-Control-Max-Age"] = corsMaxAge
	if first(r.Header, "Access-Control-Request-Private-Network") == "true" { // a browser asks that of a page on the internet
		h["Access-Control-Allow-Private-Network"] = yes
	}
	delete(h, "Content-Type")
	return true
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
	if a.AnyAddress { // no page has an address of ours for its name but one that we have served
		return bracketed == ip.Is6() && ip.Zone() == ""
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
