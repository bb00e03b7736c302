package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Client is a [job.Service] over HTTP. It may be used by many goroutines at
// once. Every error is a *[job.Error] whose Kind is the server's. A request that
// never reached the server, or got no answer, is Unavailable; it may or may not
// have been carried out.
//
// A Client never repeats a request by itself that may have been carried out. It is safe
// to repeat an Enqueue whose envelopes have IDs, and an Ack, AckAll, Next or Fail whose
// claims have tokens.
type Client struct {
	http    *http.Client
	base    string // "http://host:port", no slash at the end
	shown   string // the address as the caller gave it
	timeout time.Duration
	token   string               // "Bearer …", or empty
	many    atomic.Pointer[bool] // whether the server takes several ACKs at once; nil is not known
}

var _ job.Service = (*Client)(nil)

// Options change how a Client works. The zero value is right for a server on
// this machine.
type Options struct {
	// Timeout limits one request, in addition to the caller's context. A Fetch that
	// waits gets its Wait on top. 0 is 30 s.
	Timeout time.Duration
	// Token is sent with each request, as a bearer token: who the caller is, where the
	// server has roles (contract §1.10). Over http it can be read on its way, so to
	// another machine use https.
	Token string
	// HTTP sends the requests instead of a client of our own; it is not modified. With
	// it a unix:// address is refused, because we do not control how it dials.
	HTTP *http.Client
}

const (
	defaultTimeout = 30 * time.Second
	// maxReply bounds an answer: the largest lists hold 200 jobs of 1 MiB.
	maxReply = 512 << 20
	// idleConns is how many connections are kept for the next requests: a worker
	// uses one for its ACKs (to an older server up to 16), one more for each job that
	// fails at the same moment.
	idleConns = 256
	// idleTime is shorter than a server keeps a silent connection, so that we
	// do not write to one that it is closing.
	idleTime = 60 * time.Second
)

// New makes a Client of the server at baseURL, which is http://host:port,
// https://host:port or unix:///path/to.sock. Nothing is sent yet. Any other address is
// Invalid; the error does not repeat it, because it may hold a password.
func New(baseURL string, opts Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, job.Errorf(job.Invalid, "server address: %w", errAddress)
	}
	c := &Client{http: opts.HTTP, shown: baseURL, timeout: opts.Timeout}
	if strings.ContainsFunc(opts.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, job.Errorf(job.Invalid, "the token has characters that no token has; is a line feed at its end?")
	}
	if opts.Token != "" {
		c.token = "Bearer " + opts.Token
	}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	socket := ""
	switch {
	case strings.HasPrefix(baseURL, "unix:///") && opts.HTTP == nil:
		socket, c.base = u.Path, "http://localhost"
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !strings.ContainsAny(baseURL, "@?#"):
		c.base = strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/")
	default:
		return nil, job.Errorf(job.Invalid, "server address: %w", errAddress)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: transport(socket), CheckRedirect: stay}
	}
	return c, nil
}

// errAddress says what an address must look like.
var errAddress = errors.New("want http://host:port or unix:///path/to.sock, without a user, a password and parameters")

// transport keeps connections open for reuse. A proxy from the environment is used for
// other machines only: ProxyFromEnvironment skips loopback names.
func transport(socket string) *http.Transport {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleTime,
		DisableCompression:  true,
		ReadBufferSize:      16 << 10,
		WriteBufferSize:     16 << 10,
	}
	if socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// stay does not follow redirects: a job server never sends one.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the connections that are idle. The Client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request, below /ojs/v1 but for the manifest.
type call struct {
	method string
	path   string // with the query
	whole  bool   // path is below the address, and not below /ojs/v1
	body   []byte
	wait   time.Duration // how long the server may take on top of the timeout
	block  string        // of a PUSH: how long it may wait for room in its queue; empty: as the server does

	refused error // why it is not sent
}

func get(path string) call { return call{method: http.MethodGet, path: path} }
func post(path string, body []byte) call {
	return call{method: http.MethodPost, path: path, body: body}
}
func remove(path string) call { return call{method: http.MethodDelete, path: path} }

// blocking makes the call one of a PUSH, which may wait for room as ctx says.
func (r call) blocking(ctx context.Context) call {
	if d, said := job.BlockOf(ctx); said {
		r.wait, r.block = d, strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	}
	return r
}

// unless makes the call fail with err, if there is one, and not be sent: its path
// would lead elsewhere.
func (r call) unless(err error) call {
	r.refused = err
	return r
}

// ask sends a request and reads what the answer holds.
func ask[T any](ctx context.Context, c *Client, r call, read func(body []byte) (T, error)) (v T, err error) {
	body, err := c.do(ctx, r)
	if err != nil {
		return v, err
	}
	return read(body)
}

// do sends a request and returns the body of a 2xx answer. Any other answer is
// returned as the error that it describes.
func (c *Client) do(ctx context.Context, r call) ([]byte, error) {
	status, body, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if status < 200 || status > 299 {
		return nil, wire.DecodeError(status, body)
	}
	return body, nil
}

// send sends a request and reads the whole answer, whatever its status.
func (c *Client) send(ctx context.Context, r call) (status int, body []byte, err error) {
	if r.refused != nil {
		return 0, nil, r.refused
	}
	inner, cancel := context.WithTimeout(ctx, c.timeout+max(0, r.wait))
	defer cancel()
	var content io.Reader
	if r.body != nil {
		content = bytes.NewReader(r.body)
	}
	root := c.base + "/ojs/v1"
	if r.whole {
		root = c.base
	}
	req, err := http.NewRequestWithContext(inner, r.method, root+r.path, content)
	if err != nil {
		return 0, nil, job.Errorf(job.Invalid, "request to %s: %w", c.shown, err)
	}
	c.dress(ctx, req)
	if r.body != nil {
		req.Header.Set("Content-Type", wire.MediaType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", c.token)
	}
	if r.block != "" {
		req.Header.Set("OJS-Block-Timeout", r.block)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, c.unreached(ctx, inner, err)
	}
	defer resp.Body.Close()
	body, err = readAll(resp)
	if errors.Is(err, errTooLong) {
		return 0, nil, job.Errorf(job.Internal, "the answer of %s is longer than %d MiB; ask for less at once", c.shown, maxReply>>20)
	}
	if err != nil {
		return 0, nil, c.unreached(ctx, inner, err)
	}
	if resp.Request != nil && resp.Request.Method != r.method { // the caller's own HTTP client has followed a redirect, and sent another request
		return 0, nil, wire.Foreign(http.StatusFound)
	}
	return resp.StatusCode, body, nil
}

// dress sets the headers that every request has.
func (c *Client) dress(ctx context.Context, req *http.Request) {
	req.Header.Set("Accept", wire.MediaType)
	if t := job.TenantOf(ctx); t != "" {
		req.Header.Set("X-OJS-Tenant", t)
	}
}

var errTooLong = errors.New("answer too long")

// readAll reads the body to its end, so that the connection can be used again.
func readAll(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > maxReply {
		return nil, errTooLong
	}
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 {
		b.Grow(int(min(n, 1<<20)) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(resp.Body, maxReply+1))
	if n > maxReply {
		return nil, errTooLong
	}
	return b.Bytes(), err
}

// unreached is the Unavailable for a request without an answer. ctx is the
// caller's context, inner the one with our own timeout.
func (c *Client) unreached(ctx, inner context.Context, err error) error {
	if ctx.Err() != nil {
		return job.Errorf(job.Unavailable, "gave up on %s: %w", c.shown, ctx.Err())
	}
	c.many.Store(nil)
	if inner.Err() != nil {
		return job.Errorf(job.Unavailable, "no answer from %s in %s: %w", c.shown, c.timeout, inner.Err())
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // without the method and the address, which we say ourselves
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return job.Errorf(job.Unavailable, "cannot reach %s: %w; is \"outrider serve\" running?", c.shown, dial.Err)
	}
	return job.Errorf(job.Unavailable, "connection to %s broke: %w", c.shown, err)
}

// inPath is the NotFound for a name that would make a path lead elsewhere.
func inPath(kind, name string) error {
	if name != "" && name != "." && name != ".." {
		return nil
	}
	return job.Errorf(job.NotFound, "there is no %s %q", kind, name).With(map[string]any{"resource_type": kind, "resource_id": name})
}

// Raw sends a request and returns the body of its answer as it came, for a tool that
// shows what the server says. path is below /ojs/v1, with its query; a nil body is
// none. An answer that is no success is returned as the error that it describes.
func (c *Client) Raw(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return c.do(ctx, call{method: method, path: path, body: body})
}
