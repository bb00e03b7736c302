package handwork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar/webhooks"
)

// maxAfter is the longest Retry-After that is passed on.
const maxAfter = 24 * time.Hour

// newHTTP makes the client of all requests. It follows no redirect: a POST would become a
// GET, or a job go where nobody has sent it.
func newHTTP(concurrency int) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConns:           concurrency,
			MaxIdleConnsPerHost:    concurrency,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// post sends a job to the URL of a mapping.
func (w *worker) post(ctx context.Context, m *Mapping, j *job.Job) (any, error) {
	body, err := j.MarshalJSON() // without the token of its reservation
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, v := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "outrider-work", "X-OJS-Job-ID": string(j.ID), "X-OJS-Job-Type": j.Type,
		"X-OJS-Attempt": strconv.Itoa(j.Attempt), "X-OJS-Timestamp": strconv.FormatInt(time.Now().Unix(), 10),
	} {
		r.Header[name] = []string{v} // in the spelling of the specification
	}
	if w.o.Secret != "" {
		r.Header["X-OJS-Signature"] = []string{webhooks.Sign(w.o.Secret, body)}
	}
	answer, err := w.http.Do(r)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	defer answer.Body.Close()
	kept := &head{limit: maxResult}
	// One byte more than is kept says that there is more. The rest is not read, however
	// much it is, and the connection then not used again.
	if _, err := io.Copy(kept, io.LimitReader(answer.Body, maxResult+1)); err != nil {
		return nil, unanswered(ctx, err)
	}
	return judge(answer, kept)
}

// judge is what an answer says of the attempt.
func judge(answer *http.Response, kept *head) (any, error) {
	status := answer.StatusCode
	if status >= 200 && status < 300 {
		if kept.size > maxResult {
			return quote(fmt.Sprintf("%s… (cut by the worker: more than %d bytes)", legible(kept.kept), maxResult)), nil
		}
		if raw := kept.result(); raw != nil {
			return raw, nil
		}
		return nil, nil
	}
	text := legible(kept.kept[:min(len(kept.kept), maxTail)])
	f := &failed{kind: fmt.Sprintf("http_%d", status), what: fmt.Sprintf("HTTP %d", status), details: map[string]any{"status": status}}
	f.message = because(fmt.Sprintf("the answer was %d %s", status, http.StatusText(status)), firstLine(text))
	if text != "" {
		f.details["body"] = text
	}
	switch {
	case status >= 300 && status < 400:
		f.message = fmt.Sprintf("the answer was a redirect (%d), which is not followed; map the type to the URL that it leads to", status)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		if after, ok := retryAfter(answer.Header.Get("Retry-After"), time.Now()); ok {
			f.details["retry_after_s"] = after.Seconds()
			return nil, client.RetryAfter(f, after)
		}
	case status >= 400:
		return nil, client.NonRetryable(f)
	}
	return nil, f // a redirect, or no answer of HTTP, such as a switch of protocols
}

// retryAfter is how long a header asks to wait. What asks for no time, or cannot be read,
// asks for nothing.
func retryAfter(v string, now time.Time) (d time.Duration, asked bool) {
	if n, err := strconv.ParseUint(v, 10, 63); err == nil {
		d = time.Duration(min(n, uint64(maxAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = min(at.Sub(now), maxAfter)
	}
	return d, d > 0
}

// unanswered is why no whole answer came, without the URL, which may hold a secret.
func unanswered(ctx context.Context, err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	var dns *net.DNSError
	var op *net.OpError
	f := &failed{kind: "http_unanswered", what: "no answer", message: "no whole answer came: " + Plain(err.Error(), maxReason), err: err}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.kind, f.what, f.err = "timeout", "time limit", context.DeadlineExceeded
		f.message = "no whole answer came within the job's time limit"
	case ctx.Err() != nil:
		f.kind, f.what, f.message = "stopped", "stopped", fmt.Sprintf("the request was ended: %v", context.Cause(ctx))
	case errors.As(err, &dns):
		f.kind, f.message = "http_unreachable", fmt.Sprintf("the host %s cannot be found", dns.Name)
	case errors.As(err, &op) && op.Op == "dial":
		f.kind, f.message = "http_unreachable", "no connection: "+Plain(op.Err.Error(), maxReason)
	}
	return f
}
