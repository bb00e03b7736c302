package webhooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Ledger is where webhooks and events are kept. A *sidecar.Sidecar is one.
type Ledger interface {
	// News returns what is closed behind the next commit.
	News() <-chan struct{}
	// Events reads the log; see [job.Operator].
	Events(ctx context.Context, f job.EventFilter) ([]job.Event, error)
	// ReadWebhooks runs fn on one snapshot.
	ReadWebhooks(ctx context.Context, fn func(job.WebhookReader) error) error
	// WriteWebhooks runs fn in one transaction. It may run more than once.
	WriteWebhooks(ctx context.Context, fn func(job.WebhookTx) error) error
}

// Options sets webhooks up. The zero value sends nothing.
type Options struct {
	Allowed  Allowed          // where events may be sent
	Log      *slog.Logger     // nil is nowhere
	Resolver Resolver         // of the names of receivers; nil is that of the system
	Now      func() time.Time // the clock; nil is time.Now
	NewID    func() string    // of webhooks; nil: "sub_" and a UUIDv7
	Secret   func() job.Secret

	// Do sends a request in place of the client that keeps to Allowed, in tests.
	Do func(*http.Request) (*http.Response, error)
}

// Webhooks keeps subscriptions, and sends them what they subscribed to while Run runs.
// It is safe for concurrent use.
type Webhooks struct {
	ledger  Ledger
	o       Options
	log     *slog.Logger
	do      func(*http.Request) (*http.Response, error)
	feed    feed
	sending chan struct{} // as many as may be sent at once
	testing chan struct{} // and as tests
	changed chan struct{} // room for one: Run must look at what there is
	deaths  quota

	mu    sync.Mutex
	posts map[string]*courier // of Run, by the webhook
}

var _ job.WebhookService = (*Webhooks)(nil)

// How much is sent at once.
const (
	slots     = 4  // deliveries of one webhook; one after a failure, until the next success
	allSlots  = 64 // of all
	testSlots = 4
)

// New makes webhooks. It starts nothing.
func New(l Ledger, o Options) *Webhooks {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func() string { return "sub_" + uuid.Must(uuid.NewV7()).String() }
	}
	if o.Secret == nil {
		o.Secret = newSecret
	}
	if o.Do == nil {
		o.Do = newSender(o.Allowed, o.Resolver).client.Do
	}
	return &Webhooks{ledger: l, o: o, log: o.Log, do: o.Do, feed: feed{ledger: l}, sending: make(chan struct{}, allSlots),
		testing: make(chan struct{}, testSlots), changed: make(chan struct{}, 1), posts: map[string]*courier{}}
}

func newSecret() job.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return job.Secret(hex.EncodeToString(b[:]))
}

// now is the time in milliseconds, as it is stored.
func (w *Webhooks) now() time.Time { return w.o.Now().UTC().Truncate(time.Millisecond) }

// Deliver reports whether anything is sent at all.
func (w *Webhooks) Deliver() bool { return w.o.Allowed.Any() }

// shown is a webhook as its service shows it.
func (w *Webhooks) shown(h job.Webhook) job.Webhook {
	h.Secret = ""
	if !w.Deliver() {
		h.Warnings = []job.Warning{{Field: "url", Message: "nothing is sent: this server was started without --allow-webhook, and what happens until it is started with it will not be sent later"}}
	} else if u, err := url.Parse(h.URL); err == nil {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !w.o.Allowed.Address(u.Hostname(), ip) {
			h.Warnings = []job.Warning{{Field: "url", Message: "nothing can be sent there: the address is none of those that --allow-webhook names"}}
		}
	}
	return h
}

// touch has Run, and who delivers for a webhook, look again.
func (w *Webhooks) touch(id string) {
	select {
	case w.changed <- struct{}{}:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.posts[id]; p != nil {
		p.look()
	}
}

// CreateWebhook is part of [job.WebhookService].
func (w *Webhooks) CreateWebhook(ctx context.Context, spec job.WebhookSpec, secret job.Secret) (job.Webhook, error) {
	if err := spec.Validate(); err != nil {
		return job.Webhook{}, err
	}
	if secret == "" {
		secret = w.o.Secret()
	} else if err := job.CheckSecret(secret); err != nil {
		return job.Webhook{}, err
	}
	now := w.now()
	h := job.Webhook{ID: w.o.NewID(), WebhookSpec: spec, Secret: secret, CreatedAt: now, UpdatedAt: now}
	if err := w.ledger.WriteWebhooks(ctx, func(tx job.WebhookTx) error {
		all, err := tx.Webhooks()
		if err == nil && len(all) >= job.MaxWebhooks {
			err = job.Errorf(job.TooLarge, "there are %d webhook subscriptions, and no more are kept; delete those that nobody needs", len(all)).
				With(map[string]any{"size": len(all), "limit": job.MaxWebhooks})
		}
		if err != nil {
			return err
		}
		if err := tx.PutWebhook(h); err != nil {
			return err
		}
		return tx.SkipWebhook(h.ID, !w.Deliver())
	}); err != nil {
		return job.Webhook{}, err
	}
	w.touch(h.ID)
	h = w.shown(h)
	if h.Secret = secret; len(secret) < job.ShortSecret {
		h.Warnings = append(h.Warnings, job.Warning{Field: "secret", Message: fmt.Sprintf("a secret of less than %d bytes can be guessed by whoever sees what is sent; leave it out to be given one", job.ShortSecret)})
	}
	return h, nil
}

// Webhooks is part of [job.WebhookService].
func (w *Webhooks) Webhooks(ctx context.Context) (all []job.Webhook, err error) {
	err = w.ledger.ReadWebhooks(ctx, func(r job.WebhookReader) (err error) {
		all, err = r.Webhooks()
		return err
	})
	for i, h := range all {
		all[i] = w.shown(h)
	}
	return all, err
}

// Webhook is part of [job.WebhookService].
func (w *Webhooks) Webhook(ctx context.Context, id string) (job.Webhook, error) {
	h, err := w.read(ctx, id)
	if err != nil {
		return job.Webhook{}, err
	}
	return w.shown(h), nil
}

// read reads a webhook with its secret.
func (w *Webhooks) read(ctx context.Context, id string) (h job.Webhook, err error) {
	err = w.ledger.ReadWebhooks(ctx, func(r job.WebhookReader) (err error) {
		h, err = r.Webhook(id)
		return err
	})
	return h, err
}

// ChangeWebhook is part of [job.WebhookService].
func (w *Webhooks) ChangeWebhook(ctx context.Context, id string, c job.WebhookChange) (job.Webhook, error) {
	return w.change(ctx, id, func(tx job.WebhookTx, h *job.Webhook) error {
		was := h.Paused
		h.WebhookSpec = c.Apply(h.WebhookSpec)
		if err := h.Validate(); err != nil {
			return err
		}
		if was && !h.Paused {
			return tx.SkipWebhook(id, !w.Deliver())
		}
		return nil
	})
}

// change changes a webhook in one transaction.
func (w *Webhooks) change(ctx context.Context, id string, fn func(job.WebhookTx, *job.Webhook) error) (h job.Webhook, err error) {
	now := w.now()
	err = w.ledger.WriteWebhooks(ctx, func(tx job.WebhookTx) error {
		if h, err = tx.Webhook(id); err != nil {
			return err
		}
		if err := fn(tx, &h); err != nil {
			return err
		}
		h.UpdatedAt = now
		return tx.PutWebhook(h)
	})
	if err != nil {
		return job.Webhook{}, err
	}
	w.touch(id)
	return w.shown(h), nil
}

// DeleteWebhook is part of [job.WebhookService].
func (w *Webhooks) DeleteWebhook(ctx context.Context, id string) error {
	err := w.ledger.WriteWebhooks(ctx, func(tx job.WebhookTx) error { return tx.DeleteWebhook(id) })
	if err == nil {
		w.touch(id)
	}
	return err
}

// RotateWebhookSecret is part of [job.WebhookService].
func (w *Webhooks) RotateWebhookSecret(ctx context.Context, id string) (job.Secret, error) {
	secret := w.o.Secret()
	_, err := w.change(ctx, id, func(_ job.WebhookTx, h *job.Webhook) error {
		h.Secret = secret
		return nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// TestWebhook is part of [job.WebhookService].
func (w *Webhooks) TestWebhook(ctx context.Context, id string) (job.WebhookTrial, error) {
	h, err := w.read(ctx, id)
	if err != nil {
		return job.WebhookTrial{}, err
	}
	if !w.Deliver() {
		return job.WebhookTrial{}, job.Errorf(job.Conflict, "nothing is sent to webhooks: this server was started without --allow-webhook; start it with --allow-webhook public, or with the receiver's address, network or host name")
	}
	select {
	case w.testing <- struct{}{}:
		defer func() { <-w.testing }()
	case <-ctx.Done():
		return job.WebhookTrial{}, job.Errorf(job.Unavailable, "the test of webhook %s did not begin: %w", id, ctx.Err())
	}
	now := w.now()
	e := job.Event{Seq: mathrand.Int64(), Type: "webhook.test", Time: now, Data: []byte(`{"subscription_id":"` + id + `"}`)}
	o := post(ctx, w.do, letter{to: h, id: deliveryID(id, wire.EventID(e)), kind: e.Type, body: wire.AppendEvent(nil, e), sentAt: now})
	var refused *refusal
	switch {
	case errors.As(o.err, &refused):
		return job.WebhookTrial{}, job.Errorf(job.Conflict, "the test of webhook %s was not sent: %s", id, refused.text)
	case o.err != nil && ctx.Err() != nil:
		return job.WebhookTrial{}, job.Errorf(job.Unavailable, "the test of webhook %s was broken off: %w", id, ctx.Err())
	}
	t := job.WebhookTrial{Status: o.status, Took: max(w.o.Now().Sub(now), 0), Body: o.body}
	v, _ := o.verdict(1)
	if t.Delivered = v == delivered; !t.Delivered {
		t.Problem = o.problem()
	}
	return t, nil
}
