package httpapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// hooked are two webhooks, of which the second is sent nothing.
type hooked struct{}

func (hooked) Deliver() bool { return true }

func (h hooked) CreateWebhook(_ context.Context, spec job.WebhookSpec, secret job.Secret) (job.Webhook, error) {
	if err := spec.Validate(); err != nil {
		return job.Webhook{}, err
	}
	return job.Webhook{ID: "sub_new", WebhookSpec: spec, Secret: secret, CreatedAt: noon, UpdatedAt: noon}, nil
}

func (hooked) Webhooks(context.Context) ([]job.Webhook, error) {
	return []job.Webhook{
		{ID: "sub_a", WebhookSpec: job.WebhookSpec{URL: "https://example.com/a", Events: []string{"job.*"}, Filter: job.WebhookFilter{Queues: []string{"mail"}, Tenant: "t"}, Metadata: []byte(`{"team":"a"}`)},
			CreatedAt: noon, UpdatedAt: noon, WebhookProgress: job.WebhookProgress{LastAt: noon, LastStatus: "delivered", Succeeded: 7, Failed: 2, Missed: 1}, Waiting: 3, Dead: 4},
		{ID: "sub_b", WebhookSpec: job.WebhookSpec{URL: "https://example.com/b", Events: []string{"*"}}, CreatedAt: noon, UpdatedAt: noon,
			Warnings: []job.Warning{{Field: "url", Message: "nothing is sent"}}},
	}, nil
}

func (h hooked) Webhook(ctx context.Context, id string) (job.Webhook, error) {
	all, _ := h.Webhooks(ctx)
	for _, one := range all {
		if one.ID == id {
			return one, nil
		}
	}
	return job.Webhook{}, job.NoWebhook(id)
}

func (h hooked) ChangeWebhook(ctx context.Context, id string, c job.WebhookChange) (job.Webhook, error) {
	one, err := h.Webhook(ctx, id)
	if err == nil {
		one.WebhookSpec = c.Apply(one.WebhookSpec)
		err = one.Validate()
	}
	return one, err
}

func (h hooked) DeleteWebhook(ctx context.Context, id string) error {
	_, err := h.Webhook(ctx, id)
	return err
}

func (h hooked) TestWebhook(_ context.Context, id string) (job.WebhookTrial, error) {
	if id == "sub_b" {
		return job.WebhookTrial{Status: 500, Took: 3 * time.Millisecond, Body: "oops", Problem: "the receiver answered 500"}, nil
	}
	return job.WebhookTrial{Delivered: true, Status: 204, Took: 12 * time.Millisecond}, nil
}

func (h hooked) RotateWebhookSecret(context.Context, string) (job.Secret, error) {
	return "another secret", nil
}

// A server that keeps no webhooks says so on each of their routes, and in its manifest.
func TestWithoutWebhooks(t *testing.T) {
	o := quiet()
	o.Webhooks = nil
	h := New(&fake{}, o)
	for _, r := range Routes() {
		if r.Section != "3.24" {
			continue
		}
		if w := serve(h, r.Method, r.Path, ""); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", r, w.Code, w.Body)
		}
	}
}
