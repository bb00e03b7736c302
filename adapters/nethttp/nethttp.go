// Package nethttp lets jobs know which request they come from: a middleware of
// net/http puts what the request knows into its context, and [Annotate] puts
// that into the meta of a job, for whoever reads its logs, traces and events.
//
//	meta          from
//	request_id    X-Request-Id, or Options.RequestID
//	user_id       Options.User
//	tenant_id     Options.Tenant
//	locale        the first tag of Accept-Language, or Options.Locale
//	traceparent   traceparent (W3C Trace Context), in its form of version 00
//	tracestate    tracestate
//	trace_id      the second part of traceparent
//
// # What may be believed
//
// Anybody can send any header. request_id, locale and the trace say what the
// client says, and must decide nothing. User and tenant are what a worker acts
// on, so no header names them by itself: the program says where they come from.
// Whatever is longer or has other characters than it should is dropped, as if it
// had not come; no request is refused here, and nothing of it is logged.
//
// Meta is kept with the job, and seen by all who may look at jobs. A user is
// better named by a number than by an address.
package nethttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Options say where what a request knows comes from. A function may return the
// empty string for what is not known.
type Options struct {
	RequestID func(*http.Request) string // nil: the header X-Request-Id
	User      func(*http.Request) string // nil: no job has a user
	Tenant    func(*http.Request) string // nil: no job has a tenant; see TenantHeader
	Locale    func(*http.Request) string // nil: the first tag of Accept-Language, which browsers send in order of preference
}

// TenantHeader is a value for Options.Tenant: the header X-OJS-Tenant. It is only
// for a program behind a proxy that sets this header on every request and lets
// none through from outside: else any client names any tenant. A header that
// comes twice names none.
func TenantHeader(r *http.Request) string { return alone(r, "X-Ojs-Tenant") }

// Middleware puts what each request knows into its context. It stands behind the
// middleware that finds out about user and tenant. Where two of them are passed,
// the inner one counts.
func Middleware(o Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(Context(r, o)))
		})
	}
}

// Context is the request's context with what [Middleware] puts there, for a
// framework whose middleware has another form.
func Context(r *http.Request, o Options) context.Context {
	k := make(known, 0, 7)
	k.add("request_id", or(o.RequestID, requestID)(r), requestIDs.MatchString)
	k.add("user_id", or(o.User, nobody)(r), isUser)
	k.add("tenant_id", or(o.Tenant, nobody)(r), tenants.MatchString)
	k.add("locale", or(o.Locale, firstLanguage)(r), locales.MatchString)
	if parent := traceparent(alone(r, "Traceparent")); parent != "" {
		k.add("trace_id", parent[3:35], nil)
		k.add("traceparent", parent, nil)
		k.add("tracestate", tracestate(r.Header["Tracestate"]), nil)
	}
	return context.WithValue(r.Context(), key{}, k)
}

// Annotate returns e with what the request of ctx knows added to its meta. What
// the caller has set stays, a null too; who has set traceparent, tracestate or
// trace_id has set all three, as a program with a tracer of its own does to name
// its own span. Without a request in ctx, with a meta that is no JSON object, or
// where it would grow longer than [job.MaxMetaBytes], e is returned as it is. The
// bytes of e.Meta are never written to.
//
// A job with an id of the caller's own must have the same meta each time that it
// is added, or it is another job under the same id. A second request has another
// request id and another trace: such a job must not be annotated.
func Annotate(ctx context.Context, e job.Envelope) job.Envelope {
	if k, _ := ctx.Value(key{}).(known); len(k) > 0 {
		e.Meta = k.into(e.Meta)
	}
	return e
}

type key struct{}

// known is what a request knows: members of meta, in the order of the table above.
type known []member

type member struct{ name, value string }

func (k *known) add(name, value string, valid func(string) bool) {
	if value != "" && (valid == nil || valid(value)) {
		*k = append(*k, member{name, value})
	}
}

// into returns meta with those members that it lacks.
func (k known) into(meta json.RawMessage) json.RawMessage {
	given, ok := names(meta)
	if !ok {
		return meta // the job's own check says what is wrong with it
	}
	traced := given["trace_id"] || given["traceparent"] || given["tracestate"]
	b := rawjson.Object(make([]byte, 0, len(meta)+512))
	if len(given) > 0 {
		b = append(b[:0], bytes.TrimSpace(meta)...)
		b.Reopen()
	}
	for _, m := range k {
		if given[m.name] || traced && strings.HasPrefix(m.name, "trace") {
			continue
		}
		b.Str(m.name, m.value)
	}
	if len(b.Close()) > job.MaxMetaBytes {
		return meta
	}
	return json.RawMessage(b)
}

// names are those of the members of meta, and whether it is an object.
func names(meta json.RawMessage) (map[string]bool, bool) {
	if len(meta) == 0 {
		return nil, true
	}
	if job.CheckJSON(meta) != nil {
		return nil, false
	}
	given := map[string]bool{}
	err := job.Members(meta, func(name string, _ json.RawMessage) error {
		given[name] = true
		return nil
	})
	return given, err == nil
}

var (
	requestIDs = regexp.MustCompile(`^[A-Za-z0-9._~:/+=@-]{1,128}$`)
	tenants    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`) // as the job server has it
	locales    = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$`)
)

// maxUser is in bytes.
const maxUser = 256

func isUser(s string) bool {
	return len(s) <= maxUser && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func or(f, otherwise func(*http.Request) string) func(*http.Request) string {
	if f == nil {
		return otherwise
	}
	return f
}

func nobody(*http.Request) string { return "" }

func requestID(r *http.Request) string { return alone(r, "X-Request-Id") }

func firstLanguage(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("Accept-Language"), ",")
	tag, _, _ := strings.Cut(first, ";")
	return strings.TrimSpace(tag)
}

// alone is the value of a header that came once. Of two values one may be the
// client's and one the proxy's, and nobody knows which.
func alone(r *http.Request, canonical string) string {
	if v := r.Header[canonical]; len(v) == 1 {
		return v[0]
	}
	return ""
}

var traceparents = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$`)

// traceparent is the header in its form of version 00, or empty if it breaks
// §3.2 of W3C Trace Context. Of a later version the first four parts are read,
// and of its flags those that are known.
func traceparent(h string) string {
	const length = 55
	if len(h) < length || len(h) > 512 || len(h) > length && (h[:2] == "00" || h[length] != '-') {
		return ""
	}
	p := traceparents.FindStringSubmatch(h[:length])
	if p == nil || p[1] == "ff" || strings.Trim(p[2], "0") == "" || strings.Trim(p[3], "0") == "" {
		return ""
	}
	if p[1] == "00" {
		return h
	}
	flags, _ := strconv.ParseUint(p[4], 16, 8) // two hexadecimal digits
	return fmt.Sprintf("00-%s-%s-%02x", p[2], p[3], flags&(sampled|random))
}

// The flags of traceparent that have a meaning.
const sampled, random = 1, 2

// The limits of tracestate: no more members than this are allowed, and no more
// characters than this must be passed on (§3.3).
const maxStates, maxStateLen = 32, 512

var states = regexp.MustCompile(`^([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$`)

// tracestate is the list that the headers make together, or empty if it breaks
// §3.3 of W3C Trace Context or is longer than must be passed on.
func tracestate(headers []string) string {
	size := 0
	for _, h := range headers {
		size += len(h) + 1
	}
	if size > maxStateLen+1 {
		return ""
	}
	var list []string
	seen := map[string]bool{}
	for _, m := range strings.Split(strings.Join(headers, ","), ",") {
		if m = strings.Trim(m, " \t"); m == "" {
			continue // the list may have holes
		}
		name, _, _ := strings.Cut(m, "=")
		if seen[name] || !states.MatchString(m) || len(list) == maxStates {
			return ""
		}
		seen[name] = true
		list = append(list, m)
	}
	return strings.Join(list, ",")
}
