package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

var _ job.WebhookService = (*Client)(nil)

const webhooks = "/webhooks/subscriptions"

func webhookPath(id string) string { return webhooks + "/" + url.PathEscape(id) }

// noWebhook is the NotFound for what cannot stand in a path.
func noWebhook(id string) error {
	if id != "" && id != "." && id != ".." {
		return nil
	}
	return job.NoWebhook(id)
}

// CreateWebhook stores a webhook; see [job.WebhookService].
func (c *Client) CreateWebhook(ctx context.Context, spec job.WebhookSpec, secret job.Secret) (job.Webhook, error) {
	if err := spec.Validate(); err != nil { // only a valid one can be encoded
		return job.Webhook{}, err
	}
	return ask(ctx, c, post(webhooks, wire.WebhookBody(wire.NewWebhook{Spec: spec, Secret: secret})), wire.ReadWebhook)
}

// Webhooks lists all webhooks; see [job.WebhookService]. More than 200 would be read in
// several requests.
func (c *Client) Webhooks(ctx context.Context) ([]job.Webhook, error) {
	return listedWith(ctx, c, webhooks, url.Values{}, wire.ReadWebhooks)
}

// Webhook reads a webhook; see [job.WebhookService].
func (c *Client) Webhook(ctx context.Context, id string) (job.Webhook, error) {
	return ask(ctx, c, get(webhookPath(id)).unless(noWebhook(id)), wire.ReadWebhook)
}

// ChangeWebhook changes a webhook; see [job.WebhookService]. Its metadata can be replaced,
// and not be taken away.
func (c *Client) ChangeWebhook(ctx context.Context, id string, change job.WebhookChange) (job.Webhook, error) {
	r := call{method: http.MethodPatch, path: webhookPath(id), body: wire.WebhookChangeBody(change)}
	return ask(ctx, c, r.unless(noWebhook(id)), wire.ReadWebhook)
}

// DeleteWebhook removes a webhook; see [job.WebhookService].
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	_, err := ask(ctx, c, remove(webhookPath(id)).unless(noWebhook(id)), wire.ReadDone)
	return err
}

// TestWebhook sends a test event; see [job.WebhookService].
func (c *Client) TestWebhook(ctx context.Context, id string) (job.WebhookTrial, error) {
	return ask(ctx, c, post(webhookPath(id)+"/test", nil).unless(noWebhook(id)), wire.ReadWebhookTrial)
}

// RotateWebhookSecret gives a webhook another secret; see [job.WebhookService].
func (c *Client) RotateWebhookSecret(ctx context.Context, id string) (job.Secret, error) {
	return ask(ctx, c, post(webhookPath(id)+"/rotate-secret", nil).unless(noWebhook(id)), wire.ReadNewSecret)
}
