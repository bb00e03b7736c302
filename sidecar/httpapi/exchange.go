package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Canonical header names, for reading and writing the map without a conversion.
const (
	headerVersion   = "Ojs-Version"
	headerRequestID = "X-Request-Id"
)

// first is the value of a header, the first of several, and empty without one. Its name
// must be canonical: [http.Header.Get] makes it so for each request anew.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// firstRead is how much is set aside for a body before any of it has come.
const firstRead = 1 << 20

// body reads a request's body, at most limit bytes. The slice is new and may be kept:
// a job points into it. A longer body is TooLarge; if there is a Content-Length it is
// refused before anything is read (contract §1.8).
func body(c echo.Context, limit int64) ([]byte, error) {
	r := c.Request()
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	if err := readable(r); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, tooLarge(c, r.ContentLength, limit)
	}
	size := r.ContentLength
	if size < 0 {
		size = limit + 1 // one more byte tells a body that is too long
	}
	in, err := exchange(c).receive(r.Context(), r.Body, r.ContentLength)
	if err != nil {
		c.Response().Header().Set("Connection", "close") // the body is still on its way
		return nil, err
	}
	defer in.end()
	raw, err := read(in, size, r.ContentLength >= 0)
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, tooLarge(c, -1, limit)
	}
	return raw, nil
}

// read reads up to size bytes; exact means that fewer are an error. Memory is
// allocated as the bytes come, so that a false Content-Length costs little.
func read(r *incoming, size int64, exact bool) ([]byte, error) {
	start := size
	if !exact {
		start = 4 << 10
	}
	buf := make([]byte, 0, min(start, size, firstRead))
	for int64(len(buf)) < size {
		if len(buf) == cap(buf) {
			to := min(2*int64(cap(buf)), size)
			if r.grow != nil {
				if err := r.grow(to - int64(cap(buf))); err != nil {
					return nil, err
				}
			}
			grown := make([]byte, len(buf), to)
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err == wire.ErrStalled {
			return nil, job.Errorf(job.Unavailable, "no more of the body came after %d bytes, and others need the memory; nothing was done: %w", len(buf), err)
		}
		if err != nil {
			return nil, job.Errorf(job.Malformed, "the body broke off after %d bytes: %w", len(buf), err)
		}
	}
	if exact && int64(len(buf)) < size {
		return nil, job.Errorf(job.Malformed, "the body ended after %d of %d bytes", len(buf), size)
	}
	return buf, nil
}

// tooLarge refuses a body and closes the connection, as the rest of the body is still
// on its way. size is negative where it is not known.
func tooLarge(c echo.Context, size, limit int64) error {
	c.Response().Header().Set("Connection", "close")
	e := job.Errorf(job.TooLarge, "the body is larger than %d bytes", limit)
	e.Details = map[string]any{"limit": limit}
	if size >= 0 {
		e.Details["size"] = size
	}
	return e
}

// readable checks what the headers say of a body: on a verb that needs one it must be
// JSON or of no stated type (contract §1.2), and it must not be compressed.
func readable(r *http.Request) error {
	if coding := first(r.Header, "Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return job.Errorf(job.Unsupported, "Content-Encoding %.40q is not supported, send the body as it is", coding).
			With(map[string]any{"received": coding, "supported": []string{"identity"}})
	}
	sent := first(r.Header, "Content-Type")
	if sent == "" || r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return nil
	}
	media, _, _ := strings.Cut(sent, ";")
	media = strings.TrimSpace(media)
	if strings.EqualFold(media, wire.MediaType) || strings.EqualFold(media, "application/json") {
		return nil
	}
	return job.Errorf(job.Invalid, "Content-Type must be %s or application/json, got %.80q", wire.MediaType, sent).With(map[string]any{"received": sent})
}

// query is the request's query; one that cannot be read is Invalid.
func query(c echo.Context) (url.Values, error) {
	q, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, job.Errorf(job.Invalid, "the query is not well formed: %w", err)
	}
	return q, nil
}

// param is a path parameter, decoded. One that cannot be decoded is returned as
// it is: it names nothing.
func param(c echo.Context, name string) string {
	v := c.Param(name)
	if c.Request().URL.RawPath != "" {
		if s, err := url.PathUnescape(v); err == nil {
			return s
		}
	}
	return v
}

// jobID is the path parameter "id". Text that is no id is NotFound, as an
// unknown id is (contract §3.4).
func jobID(c echo.Context) (job.ID, error) {
	id := param(c, "id")
	if !job.ValidID(id) {
		return "", wire.NoJob(id)
	}
	return job.ID(id), nil
}

func profile(c echo.Context) wire.Profile {
	p, _ := wire.ProfileOf(first(c.Request().Header, headerVersion)) // enter has refused other versions
	return p
}

// buffers holds bodies of answers. A very long one is not kept.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

const keepBuffer = 256 << 10

func buffer() *[]byte { return buffers.Get().(*[]byte) }

// send answers with b, which must come from buffer, and takes it back.
func send(c echo.Context, status int, b *[]byte) error {
	err := exchange(c).answer(c.Request(), int64(cap(*b)))
	if err == nil {
		err = write(c, status, *b)
	}
	if cap(*b) <= keepBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
	return err
}

func write(c echo.Context, status int, b []byte) error {
	w := c.Response()
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(status)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	_, err := w.Writer.Write(b)
	return err
}

// fail is the only exit for errors of requests. An Internal error is logged with its cause; the
// caller gets the request id to find it by. An Unavailable one is logged at debug: a
// broken disk fails every request, and the store reports it itself.
func (a *api) fail(err error, c echo.Context) {
	w := c.Response()
	if w.Committed {
		return // the answer is on its way: it is too late for an error
	}
	var he *echo.HTTPError
	if errors.As(err, &he) {
		err = routeError(he, c.Request())
	}
	if gone := c.Request().Context().Err(); gone != nil && errors.Is(err, gone) {
		err = job.Errorf(job.Unavailable, "the caller has gone: %w", gone)
	}
	if err != error(errPanicked) {
		a.log(c, err)
	}
	status, b := wire.EncodeError(err, requestID(c))
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusTooManyRequests {
		refusedFull(w.Header(), err)
	}
	_ = write(c, status, b) // if this fails the caller has gone, and cannot be told
}

// log logs an Internal error, and at debug an Unavailable one. Others are the caller's,
// and nil is none.
func (a *api) log(c echo.Context, err error) {
	if err == nil {
		return
	}
	level := slog.LevelError
	switch job.KindOf(err) {
	case job.Internal:
	case job.Unavailable:
		level = slog.LevelDebug
	default:
		return
	}
	if a.Log.Enabled(c.Request().Context(), level) {
		a.Log.LogAttrs(c.Request().Context(), level, "request failed",
			slog.String("request_id", requestID(c)), slog.String("method", c.Request().Method), slog.String("route", c.Path()),
			slog.String("error", err.Error()), slog.Any("cause", errors.Unwrap(err)))
	}
}

// requestID is the id of the present request, which its answer has.
func requestID(c echo.Context) string { return first(c.Response().Header(), headerRequestID) }

// maxEndpoint is how much of an endpoint that is not there is repeated, in bytes.
const maxEndpoint = 200

// routeError translates what the router says: no such path, or no such verb on it.
func routeError(he *echo.HTTPError, r *http.Request) error {
	switch he.Code {
	case http.StatusNotFound:
		endpoint := r.Method + " " + r.URL.Path
		if len(endpoint) > maxEndpoint {
			endpoint = strings.ToValidUTF8(endpoint[:maxEndpoint], "") + "…"
		}
		return job.Errorf(job.NotFound, "this server has no endpoint %s", endpoint).
			With(map[string]any{"resource_type": "endpoint", "resource_id": endpoint, "hint": "GET /ojs/manifest lists the endpoints that this server has."})
	case http.StatusMethodNotAllowed:
		return job.Errorf(job.NotAllowed, "this path does not have the method")
	}
	return job.Errorf(job.Internal, "router: %w", he)
}

// errPanicked stands for a panic that has been logged.
var errPanicked = job.Errorf(job.Internal, "a handler panicked")

// rescue turns a panic into an Internal error, with the stack in the log.
func (a *api) rescue(c echo.Context, err *error) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p) // net/http's own way to drop a connection
	}
	a.Log.LogAttrs(c.Request().Context(), slog.LevelError, "handler panicked",
		slog.String("request_id", c.Response().Header().Get(headerRequestID)),
		slog.String("route", c.Path()), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	*err = errPanicked
}
