package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/job"
)

// How a delivery is bounded (contract §3.24).
const (
	timeout      = 30 * time.Second // for all of it: names, connections, redirects and the answer
	maxRedirects = 3
	maxAnswer    = 4 << 10 // bytes of an answer that are read
	maxWait      = 24 * time.Hour
)

// A Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// refusal is why this server sends nothing somewhere.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// sender makes the requests of deliveries.
type sender struct {
	allowed  Allowed
	resolver Resolver
	client   *http.Client
}

func newSender(a Allowed, r Resolver) *sender {
	s := &sender{allowed: a, resolver: r}
	s.client = &http.Client{
		CheckRedirect: redirect,
		Transport: &http.Transport{ // no Proxy: one would resolve the names
			DialContext:            s.dial,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConnsPerHost:    slots,
			MaxIdleConns:           64,
			IdleConnTimeout:        30 * time.Second,
			DisableCompression:     true,
		},
	}
	return s
}

// redirect follows what keeps the POST a POST, to a URL that a webhook may have.
func redirect(to *http.Request, via []*http.Request) error {
	if code := to.Response.StatusCode; code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects {
		return &refusal{"the receiver redirects more than 3 times"}
	}
	if err := job.CheckWebhookURL(to.URL.String()); err != nil {
		return &refusal{"the receiver redirects to a URL that no webhook may have"}
	}
	if via[len(via)-1].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return &refusal{"the receiver redirects from https to http"}
	}
	to.Header.Del("Referer") // the URL of a webhook may be a secret
	return nil
}

// dial connects to an address of a host that is allowed. It looks the host up itself and
// connects to what it found, so that a name cannot mean another address a moment later.
func (s *sender) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = s.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	last := error(&refusal{"no address of the receiver is allowed; --allow-webhook says which are"})
	var d net.Dialer
	for _, ip := range ips {
		if !s.allowed.Address(host, ip) {
			continue
		}
		conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip.Unmap(), uint16(port)).String())
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// letter is one attempt of a delivery.
type letter struct {
	to     job.Webhook
	id     string // of the delivery
	kind   string // of the event
	body   []byte
	sentAt time.Time
}

// deliveryID names a delivery: it is the same at each attempt.
func deliveryID(webhook, event string) string {
	sum := sha256.Sum256([]byte(webhook + "\x00" + event))
	return "dlv_" + hex.EncodeToString(sum[:16])
}

// Sign is the signature of a body: the hexadecimal HMAC-SHA256 with the secret of the
// webhook, behind "sha256=".
func Sign(secret job.Secret, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret.Reveal()))
	h.Write(body)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

func (l letter) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.to.URL, bytes.NewReader(l.body))
	if err != nil {
		return nil, &refusal{"the URL of the webhook cannot be read"}
	}
	for name, v := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "OJS-Webhook/1.0",
		"X-OJS-Event-Type": l.kind, "X-OJS-Delivery-ID": l.id, "X-OJS-Subscription-ID": l.to.ID,
		"X-OJS-Timestamp": strconv.FormatInt(l.sentAt.Unix(), 10), "X-OJS-Signature": Sign(l.to.Secret, l.body),
	} {
		r.Header[name] = []string{v} // in the spelling of the contract
	}
	return r, nil
}

// outcome is what came of an attempt.
type outcome struct {
	status int           // of the answer; 0 where none came
	body   string        // its beginning
	after  time.Duration // that the receiver asks to wait
	err    error         // why no answer came
}

// post makes one attempt.
func post(ctx context.Context, do func(*http.Request) (*http.Response, error), l letter) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := l.request(ctx)
	if err != nil {
		return outcome{err: err}
	}
	answer, err := do(r)
	if err != nil {
		return outcome{err: err}
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil && ctx.Err() != nil {
		return outcome{err: ctx.Err()} // an answer that does not end in time is none
	}
	o := outcome{status: answer.StatusCode, body: strings.ToValidUTF8(string(raw), "\uFFFD")}
	if o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable {
		o.after = retryAfter(answer.Header.Get("Retry-After"), l.sentAt)
	}
	return o
}

// retryAfter is how long a header asks to wait, at most a day.
func retryAfter(v string, now time.Time) time.Duration {
	d := time.Duration(0)
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		d = time.Duration(min(max(n, 0), int64(maxWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxWait)
}

// The three things that an attempt can come to.
const (
	delivered = "delivered"
	retrying  = "retrying"
	dead      = "dead"
)

// verdict is what an attempt comes to, the nth of its delivery (contract §3.24): 2xx is
// delivered, 4xx other than 429 is given up at once, all else is tried again as long as
// the schedule goes. wait is until the next attempt.
func (o outcome) verdict(attempt int) (v string, wait time.Duration) {
	switch {
	case o.err == nil && o.status >= 200 && o.status < 300:
		return delivered, 0
	case o.err == nil && o.status >= 400 && o.status < 500 && o.status != http.StatusTooManyRequests:
		return dead, 0
	}
	wait, more := job.WebhookRetryIn(attempt)
	if !more {
		return dead, 0
	}
	return retrying, max(wait, o.after)
}

// problem says why an attempt has failed, without the URL, whose path may be a secret.
func (o outcome) problem() string {
	var asked *url.Error
	err := o.err
	if errors.As(err, &asked) {
		err = asked.Err
	}
	var refused *refusal
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case o.err == nil && o.status >= 300 && o.status < 400:
		return fmt.Sprintf("the receiver answered %d; only 307 and 308 are followed, which keep the POST", o.status)
	case o.err == nil:
		return fmt.Sprintf("the receiver answered %d", o.status)
	case errors.As(err, &refused):
		return refused.text
	case errors.Is(err, context.DeadlineExceeded):
		return "the receiver did not answer within 30 s"
	case errors.As(err, &dns):
		return "the name of the receiver cannot be resolved"
	case errors.As(err, &op) && op.Op == "dial":
		return "the receiver cannot be connected to"
	}
	return "the exchange with the receiver failed: " + plain(err.Error())
}

// plain is a text without what a terminal or a log would obey, and not longer than a line.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 200)]
}
