package wire

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// MaxWebhookBytes bounds the body that describes a webhook.
const MaxWebhookBytes = 64 << 10

// NewWebhook is the request for a webhook.
type NewWebhook struct {
	Spec   job.WebhookSpec
	Secret job.Secret // empty: the server makes one
}

// DecodeWebhook reads the request for a webhook (contract §3.24).
func DecodeWebhook(raw []byte) (n NewWebhook, err error) {
	c, secret, err := webhookMembers(raw)
	if err != nil {
		return n, err
	}
	return NewWebhook{c.Apply(job.WebhookSpec{}), secret}, nil
}

// DecodeWebhookChange reads what is to be changed of a webhook.
func DecodeWebhookChange(raw []byte) (job.WebhookChange, error) {
	c, secret, err := webhookMembers(raw)
	if err == nil && secret != "" {
		err = refuse("secret", "is not changed like this: rotate-secret gives the subscription another one")
	}
	return c, err
}

// DecodeWebhookReplacement reads what a webhook is to be: what is not given is as if
// the webhook was made anew.
func DecodeWebhookReplacement(raw []byte) (job.WebhookChange, error) {
	c, err := DecodeWebhookChange(raw)
	if err != nil {
		return c, err
	}
	s := c.Apply(job.WebhookSpec{})
	if s.Events == nil {
		s.Events = []string{} // and not: as before
	}
	return job.WebhookChange{URL: &s.URL, Events: s.Events, Filter: &s.Filter, Metadata: &s.Metadata, Paused: &s.Paused}, nil
}

// webhookMembers reads the members of a webhook.
func webhookMembers(raw []byte) (c job.WebhookChange, secret job.Secret, err error) {
	err = object(raw, "", func(member string, v json.RawMessage) error {
		switch member {
		case "url":
			u, err := text(v, member)
			c.URL = &u
			return err
		case "events":
			events, err := eventTypes(v, member)
			if c.Events = events; events == nil {
				c.Events = []string{}
			}
			return err
		case "filter":
			f, err := webhookFilter(v)
			c.Filter = &f
			return err
		case "metadata":
			if v[0] != '{' {
				return refuse(member, "must be an object"+got(v))
			}
			c.Metadata = &v
		case "active":
			active, err := boolean(v, member)
			paused := !active
			c.Paused = &paused
			return err
		case "secret":
			if v[0] != '"' {
				return refuse(member, "must be a string") // and is not repeated
			}
			secret = job.Secret(rawjson.Unquote(v))
			return job.CheckSecret(secret)
		}
		return nil
	})
	return c, secret, err
}

// eventTypes are words that name types of events. "job:x" is "job.x".
func eventTypes(v json.RawMessage, field string) ([]string, error) {
	types, err := words(v, field)
	for i, t := range types {
		types[i] = strings.Replace(t, ":", ".", 1)
	}
	return types, err
}

// words is a text, or an array of them.
func words(v json.RawMessage, field string) ([]string, error) {
	if v[0] == '"' {
		s, err := text(v, field)
		return []string{s}, err
	}
	return names(v, field, 1000)
}

// webhookFilter reads what narrows the events of a webhook. A member that is not known is
// refused: what was meant to narrow must not be ignored.
func webhookFilter(raw json.RawMessage) (f job.WebhookFilter, err error) {
	if raw[0] != '{' {
		return f, refuse("filter", "must be an object"+got(raw))
	}
	err = job.Members(raw, func(member string, v json.RawMessage) (err error) {
		field, list := "filter."+member, (*[]string)(nil)
		if isNull(v) {
			return nil
		}
		switch member {
		case "queue", "queues":
			list = &f.Queues
		case "job_type", "job_types":
			list = &f.JobTypes
		case "type", "types", "event_types":
			f.Types, err = eventTypes(v, field)
			return err
		case "job_id":
			var id string
			id, err = text(v, field)
			f.JobID = job.ID(id)
			return err
		case "tenant_id":
			f.Tenant, err = name(v, field)
			return err
		default:
			return refuse(field, "is not known; there are queues, job_types, types, job_id and tenant_id")
		}
		more, err := words(v, field)
		*list = append(*list, more...)
		return err
	})
	return f, err
}

// WebhookBody is the body that asks for a webhook.
func WebhookBody(n NewWebhook) []byte {
	c := job.WebhookChange{URL: &n.Spec.URL, Events: n.Spec.Events, Filter: &n.Spec.Filter, Metadata: &n.Spec.Metadata, Paused: &n.Spec.Paused}
	b := rawjson.Object(nil)
	appendChange(&b, c)
	return b.Optional("secret", n.Secret.Reveal()).Close()
}

// WebhookChangeBody is the body that changes a webhook.
func WebhookChangeBody(c job.WebhookChange) []byte {
	b := rawjson.Object(nil)
	appendChange(&b, c)
	return b.Close()
}

func appendChange(b *rawjson.Writer, c job.WebhookChange) {
	if c.URL != nil {
		b.Str("url", *c.URL)
	}
	if c.Events != nil {
		rawjson.Strings(b, "events", c.Events)
	}
	if c.Filter != nil {
		webhookFilterMembers(b, *c.Filter)
	}
	if c.Metadata != nil && *c.Metadata != nil {
		b.Raw("metadata", *c.Metadata)
	}
	if c.Paused != nil {
		b.Bool("active", !*c.Paused)
	}
}

func webhookFilterMembers(b *rawjson.Writer, f job.WebhookFilter) {
	b.Object("filter")
	for _, list := range []struct {
		name string
		of   []string
	}{{"queues", f.Queues}, {"job_types", f.JobTypes}, {"types", f.Types}} {
		if len(list.of) > 0 {
			rawjson.Strings(b, list.name, list.of)
		}
	}
	b.Optional("job_id", string(f.JobID)).Optional("tenant_id", f.Tenant).End()
}

func webhookMembersOf(b *rawjson.Writer, h job.Webhook) {
	b.Str("id", h.ID).Str("url", h.URL)
	rawjson.Strings(b, "events", h.Events)
	b.Bool("active", !h.Paused)
	if !h.Filter.None() {
		webhookFilterMembers(b, h.Filter)
	}
	if len(h.Metadata) > 0 {
		b.Raw("metadata", h.Metadata)
	}
	b.Optional("secret", h.Secret.Reveal())
	b.Time("created_at", h.CreatedAt).Time("updated_at", h.UpdatedAt)
	b.Time("last_delivery_at", h.LastAt).Optional("last_delivery_status", h.LastStatus)
	b.Int("success_count", h.Succeeded).Int("failure_count", h.Failed)
	b.Int("waiting_count", h.Waiting).Int("dead_count", h.Dead).Int("missed_count", h.Missed)
	appendWarnings(b, h.Warnings)
}

// AppendWebhook appends a webhook, nested and flat (contract §3.24).
func AppendWebhook(dst []byte, h job.Webhook) []byte {
	b := rawjson.Object(dst)
	b.Object("subscription")
	webhookMembersOf(&b, h)
	b.End()
	webhookMembersOf(&b, h)
	return b.Close()
}

// AppendWebhooks appends a page of webhooks by their ids.
func AppendWebhooks(dst []byte, all []job.Webhook, p Paging) []byte {
	p.Items = true
	shown, l := byName(all, p, func(h job.Webhook) string { return h.ID })
	b := rawjson.Object(dst)
	return endList(&b, p, objects(&b, "subscriptions", shown, webhookMembersOf), l)
}

// AppendWebhookDeleted appends the answer about a webhook that was deleted.
func AppendWebhookDeleted(dst []byte, id string, _ struct{}) []byte {
	b := rawjson.Object(dst)
	return b.Bool("deleted", true).Str("id", id).Close()
}

// AppendNewSecret appends the secret that a webhook was given.
func AppendNewSecret(dst []byte, s job.Secret) []byte {
	b := rawjson.Object(dst)
	return b.Str("new_secret", s.Reveal()).Close()
}

// AppendWebhookTrial appends what came of a test.
func AppendWebhookTrial(dst []byte, t job.WebhookTrial) []byte {
	status := "failed"
	if t.Delivered {
		status = "delivered"
	}
	b := rawjson.Object(dst)
	b.Bool("success", t.Delivered).Int("status_code", int64(t.Status)).Str("status", status)
	b.Int("response_time_ms", t.Took.Milliseconds()).Str("response_body", t.Body)
	return b.Optional("message", t.Problem).Close()
}

type webhookRead struct {
	ID        string            `json:"id"`
	URL       string            `json:"url"`
	Events    []string          `json:"events"`
	Active    bool              `json:"active"`
	Filter    job.WebhookFilter `json:"filter"`
	Metadata  json.RawMessage   `json:"metadata"`
	Secret    string            `json:"secret"`
	Created   time.Time         `json:"created_at"`
	Updated   time.Time         `json:"updated_at"`
	LastAt    time.Time         `json:"last_delivery_at"`
	Last      string            `json:"last_delivery_status"`
	Succeeded int64             `json:"success_count"`
	Failed    int64             `json:"failure_count"`
	Waiting   int64             `json:"waiting_count"`
	Dead      int64             `json:"dead_count"`
	Missed    int64             `json:"missed_count"`
	Warnings  warnings          `json:"warnings"`
}

func (r webhookRead) webhook() job.Webhook {
	return job.Webhook{ID: r.ID, Secret: job.Secret(r.Secret), CreatedAt: r.Created.UTC(), UpdatedAt: r.Updated.UTC(), Waiting: r.Waiting, Dead: r.Dead,
		WebhookSpec:     job.WebhookSpec{URL: r.URL, Events: r.Events, Filter: r.Filter, Metadata: r.Metadata, Paused: !r.Active},
		WebhookProgress: job.WebhookProgress{LastAt: r.LastAt.UTC(), LastStatus: r.Last, Succeeded: r.Succeeded, Failed: r.Failed, Missed: r.Missed},
		Warnings:        r.Warnings.of(0)}
}

// ReadWebhook reads the answer about one webhook.
func ReadWebhook(body []byte) (job.Webhook, error) {
	r, err := readMember[webhookRead](body, "subscription", "there is no subscription in it")
	return r.webhook(), err
}

// ReadWebhooks reads a page of webhooks.
func ReadWebhooks(body []byte) (all []job.Webhook, rest Rest, err error) {
	var r struct {
		Subscriptions []webhookRead `json:"subscriptions"`
		Pages         pagination    `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, rest, err
	}
	for _, one := range r.Subscriptions {
		all = append(all, one.webhook())
	}
	return all, r.Pages.Rest, nil
}

// ReadNewSecret reads the secret that a webhook was given.
func ReadNewSecret(body []byte) (job.Secret, error) {
	var r struct {
		Secret string `json:"new_secret"`
	}
	err := read(body, &r)
	return job.Secret(r.Secret), err
}

// ReadDone reads an answer of which nothing is needed.
func ReadDone(body []byte) (struct{}, error) {
	var r struct{}
	return r, read(body, &r)
}

// ReadWebhookTrial reads what came of a test.
func ReadWebhookTrial(body []byte) (job.WebhookTrial, error) {
	var r struct {
		Success bool   `json:"success"`
		Status  int    `json:"status_code"`
		Took    int64  `json:"response_time_ms"`
		Body    string `json:"response_body"`
		Message string `json:"message"`
	}
	err := read(body, &r)
	return job.WebhookTrial{Delivered: r.Success, Status: r.Status, Took: time.Duration(r.Took) * time.Millisecond, Body: r.Body, Problem: r.Message}, err
}
