package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Webhooks are the webhooks that this process keeps. A *webhooks.Webhooks is one.
type Webhooks interface {
	job.WebhookService
	// Deliver reports whether anything is sent at all.
	Deliver() bool
}

// withWebhooks is h for a server that keeps webhooks.
func (a *api) withWebhooks(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if a.Webhooks == nil {
			return job.Errorf(job.Unsupported, "this server keeps no webhook subscriptions")
		}
		return h(c)
	}
}

// createWebhook stores a webhook (contract §3.24). The answer shows its secret.
func (a *api) createWebhook(c echo.Context) error {
	n, err := decoded(c, wire.MaxWebhookBytes, wire.DecodeWebhook)
	if err != nil {
		return err
	}
	h, err := a.Webhooks.CreateWebhook(c.Request().Context(), n.Spec, n.Secret)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", v1+"/webhooks/subscriptions/"+h.ID)
	return reply(c, http.StatusCreated, func(dst []byte) []byte { return wire.AppendWebhook(dst, h) })
}

// listWebhooks lists webhooks, as who asks may see them.
func (a *api) listWebhooks(c echo.Context) error {
	p, err := fromQuery(wire.DecodePages)(c)
	if err != nil {
		return err
	}
	all, err := a.Webhooks.Webhooks(c.Request().Context())
	if err != nil {
		return err
	}
	if !a.isOperator(c) {
		shown := make([]job.Webhook, len(all)) // all may be shared
		for i, h := range all {
			shown[i] = hidden(h)
		}
		all = shown
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendWebhooks(dst, all, p) })
}

// readWebhook reads a webhook, as who asks may see it.
func (a *api) readWebhook(c echo.Context) error {
	h, err := a.Webhooks.Webhook(c.Request().Context(), param(c, "id"))
	if err != nil {
		return err
	}
	if !a.isOperator(c) {
		h = hidden(h)
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendWebhook(dst, h) })
}

// hidden is a webhook as others than operators see it: whoever knows the URL of a chat's
// webhook may write there, so that no more of it is shown than where it leads.
func hidden(h job.Webhook) job.Webhook {
	if u, err := url.Parse(h.URL); err == nil && u.Host != "" {
		h.URL = u.Scheme + "://" + u.Host + "/…"
	} else {
		h.URL = "…"
	}
	return h
}

// changeWebhook makes the handler that changes a webhook.
func (a *api) changeWebhook(decode func([]byte) (job.WebhookChange, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		change, err := decoded(c, wire.MaxWebhookBytes, decode)
		if err != nil {
			return err
		}
		h, err := a.Webhooks.ChangeWebhook(c.Request().Context(), param(c, "id"), change)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendWebhook(dst, h) })
	}
}

func (a *api) deleteWebhook(ctx context.Context, id string) (struct{}, error) {
	return struct{}{}, a.Webhooks.DeleteWebhook(ctx, id)
}
