package job

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Webhook is a subscription: the events that it names are sent to its URL as they
// happen (contract §3.24).
type Webhook struct {
	ID string // "sub_" and a UUIDv7
	WebhookSpec
	Secret    Secret // signs what is sent; the service shows it when it is made and when it is changed, and empty otherwise
	CreatedAt time.Time
	UpdatedAt time.Time
	WebhookProgress
	Waiting  int64     // deliveries that failed and are tried again
	Dead     int64     // deliveries that were given up within the last [KeepDeliveries]
	Warnings []Warning // what the caller may not have meant, or does not know of the server, such as that it sends nothing; never stored
}

// WebhookSpec is what a caller says of a webhook.
type WebhookSpec struct {
	URL      string
	Events   []string        // "job.completed", "job.*" or "*"
	Filter   WebhookFilter   // narrows them
	Metadata json.RawMessage // an object of the caller's own, or nil
	Paused   bool            // it was set to be not active: what happens meanwhile is not sent, also not later
}

// WebhookFilter narrows the events of a webhook. Empty members do not restrict.
type WebhookFilter struct {
	Queues   []string `json:"queues,omitempty"`
	JobTypes []string `json:"job_types,omitempty"` // exact, or a prefix that ends in *
	Types    []string `json:"types,omitempty"`     // of the events, as in Events
	JobID    ID       `json:"job_id,omitempty"`
	Tenant   string   `json:"tenant_id,omitempty"`
}

// WebhookProgress is what has become of a webhook.
type WebhookProgress struct {
	After      int64 // Seq of the event up to which all was sent or put aside
	Off        bool  // it was left alone because the server sends nothing
	LastAt     time.Time
	LastStatus string // "delivered", "retrying" or "dead"
	Succeeded  int64  // deliveries
	Failed     int64  // attempts
	Missed     int64  // events that had left the log before they could be looked at
}

// A Secret signs what a webhook sends. It shows itself to nobody who prints it, logs it or
// encodes it; Reveal does.
type Secret string

// Reveal is the text of the secret.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string { return "***" }

// GoString hides the secret.
func (s Secret) GoString() string { return "***" }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalJSON hides the secret.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

// WebhookDelivery is an event that was not delivered at the first attempt.
type WebhookDelivery struct {
	Webhook string
	Seq     int64     // of the event
	Type    string    // of the event
	Body    []byte    // the event as it is sent; nil in a list
	Attempt int       // attempts that were made
	DueAt   time.Time // of the next one; zero: it was given up
	At      time.Time // of the latest one
}

// WebhookTrial is what came of sending a test event.
type WebhookTrial struct {
	Delivered bool
	Status    int // of the answer; 0 where none came
	Took      time.Duration
	Body      string // the beginning of the answer
	Problem   string // why it was not delivered
}

// WebhookChange changes a webhook. What is nil stays.
type WebhookChange struct {
	URL      *string
	Events   []string
	Filter   *WebhookFilter
	Metadata *json.RawMessage
	Paused   *bool
}

// WebhookService keeps webhooks (contract §3.24). A missing webhook is NotFound.
type WebhookService interface {
	// CreateWebhook stores a webhook. It gets the events that happen from then on. Without
	// a secret it is given one, which the answer shows. Invalid; TooLarge where
	// [MaxWebhooks] are stored.
	CreateWebhook(ctx context.Context, spec WebhookSpec, secret Secret) (Webhook, error)
	// Webhooks lists all webhooks by id, the oldest first.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook reads one.
	Webhook(ctx context.Context, id string) (Webhook, error)
	// ChangeWebhook changes one. Events that were not looked at yet are held to what
	// it says then. One that was paused and is not any more begins with the next event.
	ChangeWebhook(ctx context.Context, id string, c WebhookChange) (Webhook, error)
	// DeleteWebhook removes one, with what still waits to be delivered.
	DeleteWebhook(ctx context.Context, id string) error
	// TestWebhook sends an event webhook.test now, once, and waits for the answer. Conflict
	// where this server may not send anything there.
	TestWebhook(ctx context.Context, id string) (WebhookTrial, error)
	// RotateWebhookSecret gives a webhook another secret, and returns it. What is sent
	// from then on is signed with it.
	RotateWebhookSecret(ctx context.Context, id string) (Secret, error)
}

// At the limits of webhooks.
const (
	MaxWebhooks      = 100
	MaxWaiting       = 1000               // deliveries of one webhook that wait; more events stay in the log meanwhile
	MaxDead          = 1000               // deliveries of one webhook that were given up and are kept
	KeepDeliveries   = 7 * 24 * time.Hour // those that were given up
	maxWebhookURL    = 2048
	maxWebhookEvents = 100
	maxWebhookMeta   = 16 << 10
	maxSecretLen     = 256
	ShortSecret      = 16 // bytes: fewer can be guessed
)

// webhookRetries are the waits behind the first failed attempt and those after it.
var webhookRetries = [...]time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// WebhookRetryIn is how long a delivery waits after so many attempts that failed, and
// false where it is given up (contract §3.24).
func WebhookRetryIn(attempts int) (time.Duration, bool) {
	if attempts < 1 || attempts > len(webhookRetries) {
		return 0, false
	}
	return webhookRetries[attempts-1], true
}

// Validate is nil for what a webhook may be, and Invalid otherwise.
func (s WebhookSpec) Validate() error {
	if err := CheckWebhookURL(s.URL); err != nil {
		return err
	}
	if len(s.Events) == 0 || len(s.Events) > maxWebhookEvents {
		return invalid(Invalid, "events", "must name 1 to %d types of events, such as job.completed, job.* or *", maxWebhookEvents)
	}
	if err := checkPatterns("events", s.Events); err != nil {
		return err
	}
	if err := checkPatterns("filter.types", s.Filter.Types); err != nil {
		return err
	}
	for _, list := range []struct {
		field string
		of    []string
	}{{"filter.queues", s.Filter.Queues}, {"filter.job_types", s.Filter.JobTypes}, {"filter.types", s.Filter.Types}} {
		if len(list.of) > maxWebhookEvents {
			return invalid(Invalid, list.field, "must have at most %d elements", maxWebhookEvents)
		}
		for _, word := range list.of {
			if word == "" || len(word) > 255 {
				return invalid(Invalid, list.field, "must have elements of 1 to 255 bytes")
			}
		}
	}
	if s.Filter.JobID != "" && !ValidID(string(s.Filter.JobID)) {
		return invalid(Invalid, "filter.job_id", "must be the id of a job, a UUIDv7 in lower case")
	}
	if len(s.Filter.Tenant) > 128 {
		return invalid(Invalid, "filter.tenant_id", "must be at most 128 bytes")
	}
	if len(s.Metadata) > maxWebhookMeta || len(s.Metadata) > 0 && s.Metadata[0] != '{' {
		return invalid(Invalid, "metadata", "must be an object of at most %d bytes", maxWebhookMeta)
	}
	return nil
}

// CheckSecret is nil for a secret that a caller may choose.
func CheckSecret(s Secret) error {
	if len(s) > maxSecretLen {
		return invalid(Invalid, "secret", "must have at most %d bytes; leave it out to be given one", maxSecretLen)
	}
	return nil
}

// CheckWebhookURL is nil for a URL that events may be sent to, as far as its text shows.
// Its errors do not repeat it: the path of such a URL may be a secret.
func CheckWebhookURL(text string) error {
	wrong := func(why string) error { return invalid(Invalid, "url", "%s", why) }
	if text == "" || len(text) > maxWebhookURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return wrong("must be an http:// or https:// URL of at most 2048 bytes, without spaces, control characters and backslashes")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong("is no URL that can be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return wrong("must begin with http:// or https://")
	case u.User != nil:
		return wrong("must not hold a user or a password: what is sent is signed instead")
	case u.Opaque != "" || u.Hostname() == "":
		return wrong("must name a host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return wrong("must have a port from 1 to 65535, or none")
		}
	}
	return nil
}

// checkPatterns refuses what cannot be the type of an event, or the beginning of one.
func checkPatterns(field string, patterns []string) error {
	for _, p := range patterns {
		word, open := strings.CutSuffix(p, "*")
		bad := strings.ContainsFunc(word, func(r rune) bool { return r != '.' && r != '_' && (r < 'a' || r > 'z') }) ||
			word == "" && !open || open && word != "" && !strings.HasSuffix(word, ".") || len(p) > 100 || strings.HasPrefix(word, ".")
		if bad {
			return invalid(Invalid, field, "must hold types of events, such as job.completed, job.* or *, got %.40q", p)
		}
		if family, _, dotted := strings.Cut(word, "."); field != "events" && dotted && !slices.Contains(eventFamilies, family) {
			return invalid(Invalid, field, "holds types of events, and %.40q is none; types of jobs belong into filter.job_types", p)
		}
	}
	return nil
}

// eventFamilies are what types of events begin with (contract §4.18).
var eventFamilies = []string{"job", "queue", "worker", "cron", "workflow", "backpressure", "rate_limit", "system", "webhook"}

// Apply is the spec after a change.
func (c WebhookChange) Apply(s WebhookSpec) WebhookSpec {
	if c.URL != nil {
		s.URL = *c.URL
	}
	if c.Events != nil {
		s.Events = c.Events
	}
	if c.Filter != nil {
		s.Filter = *c.Filter
	}
	if c.Metadata != nil {
		s.Metadata = *c.Metadata
	}
	if c.Paused != nil {
		s.Paused = *c.Paused
	}
	return s
}

// Wants reports whether an event is one that the webhook is sent.
func (s WebhookSpec) Wants(e Event) bool {
	f := s.Filter
	return anyOf(s.Events, e.Type) && unlessEmpty(f.Types, e.Type) && unlessEmpty(f.Queues, e.Queue) && unlessEmpty(f.JobTypes, e.JobType) &&
		(f.JobID == "" || f.JobID == e.JobID) && (f.Tenant == "" || f.Tenant == e.Tenant())
}

// unlessEmpty is anyOf for a list that does not restrict when it is empty.
func unlessEmpty(patterns []string, s string) bool { return len(patterns) == 0 || anyOf(patterns, s) }

// anyOf reports whether a pattern is s, or with a star behind it the beginning of s.
func anyOf(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == s || open && strings.HasPrefix(s, prefix)
	})
}

// NoWebhook is the NotFound for a webhook.
func NoWebhook(id string) error {
	return Errorf(NotFound, "there is no webhook subscription %.100q", id).With(map[string]any{"resource_type": "webhook", "resource_id": id})
}

// None reports whether the filter restricts nothing.
func (f WebhookFilter) None() bool {
	return len(f.Queues)+len(f.JobTypes)+len(f.Types) == 0 && f.JobID == "" && f.Tenant == ""
}
