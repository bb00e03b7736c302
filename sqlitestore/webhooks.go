package sqlitestore

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const webhookColumns = `SELECT id, spec, secret, created_at, updated_at, after, off, last_at, last_status, succeeded, failed, missed,
  (SELECT count(*) FROM webhook_deliveries WHERE webhook = id AND due_at IS NOT NULL),
  (SELECT count(*) FROM webhook_deliveries WHERE webhook = id AND due_at IS NULL)
FROM webhooks`

const (
	allWebhooks     = webhookColumns + ` ORDER BY id`
	oneWebhook      = webhookColumns + ` WHERE id = ?`
	deliveryColumns = `SELECT webhook, seq, type, attempt, due_at, at, `
	allDeliveries   = deliveryColumns + `'' FROM webhook_deliveries WHERE webhook = ? ORDER BY due_at, seq`
	oneDelivery     = deliveryColumns + `body FROM webhook_deliveries WHERE webhook = ? AND seq = ?`
)

// webhookSpec is how a spec is stored. What an older build has not written is as if it was not said.
type webhookSpec struct {
	URL      string            `json:"url"`
	Events   []string          `json:"events"`
	Filter   job.WebhookFilter `json:"filter"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Paused   bool              `json:"paused,omitempty"`
}

func (r reader) webhooks(query string, args ...any) (all []job.Webhook, err error) {
	var damaged error
	err = r.each(query, func(v *row[any]) {
		w := job.Webhook{ID: v.str()}
		var s webhookSpec
		if err := json.Unmarshal([]byte(v.str()), &s); err != nil {
			damaged = unreadable("the webhook %q", w.ID)
		}
		w.WebhookSpec = job.WebhookSpec(s)
		w.Secret, w.CreatedAt, w.UpdatedAt = job.Secret(v.str()), v.time(), v.time()
		w.After, w.Off, w.LastAt, w.LastStatus = v.int(), v.int() != 0, v.time(), v.str()
		w.Succeeded, w.Failed, w.Missed, w.Waiting, w.Dead = v.int(), v.int(), v.int(), v.int(), v.int()
		all = append(all, w)
	}, args...)
	if err == nil {
		err = damaged
	}
	return all, translate("read webhooks", err)
}

// Webhooks reads all webhooks by id.
func (r reader) Webhooks() ([]job.Webhook, error) { return r.webhooks(allWebhooks) }

// Webhook reads a webhook.
func (r reader) Webhook(id string) (job.Webhook, error) {
	found, err := r.webhooks(oneWebhook, id)
	return first(found, err, func() error { return job.NoWebhook(id) })
}

func (r reader) deliveries(query string, args ...any) (all []job.WebhookDelivery, err error) {
	err = r.each(query, func(v *row[any]) {
		d := job.WebhookDelivery{Webhook: v.str(), Seq: v.int(), Type: v.str(), Attempt: int(v.int()), DueAt: v.time(), At: v.time()}
		if body := v.str(); body != "" {
			d.Body = []byte(body)
		}
		all = append(all, d)
	}, args...)
	return all, translate("read the deliveries of a webhook", err)
}

// Deliveries reads what was not delivered, without the bodies.
func (r reader) Deliveries(id string) ([]job.WebhookDelivery, error) {
	return r.deliveries(allDeliveries, id)
}

// WebhookDelivery reads a delivery.
func (r reader) WebhookDelivery(id string, seq int64) (job.WebhookDelivery, error) {
	found, err := r.deliveries(oneDelivery, id, seq)
	return first(found, err, func() error {
		return job.Errorf(job.NotFound, "the webhook %s has no delivery of event %d that waits or was given up", id, seq)
	})
}

var (
	putWebhook = upsert("webhooks", "id, spec, secret, created_at, updated_at, after, off, succeeded, failed, missed", "created_at", "after", "off", "succeeded", "failed", "missed")
	// putDelivery stores nothing for a webhook that is gone.
	putDelivery = `INSERT INTO webhook_deliveries (webhook, seq, type, attempt, due_at, at, body)
SELECT id, ?, ?, ?, ?, ?, ? FROM webhooks WHERE id = ?
ON CONFLICT (webhook, seq) DO UPDATE SET attempt = excluded.attempt, due_at = excluded.due_at, at = excluded.at`
)

const (
	stepWebhook = `UPDATE webhooks SET after = max(after, ?), last_at = coalesce(?, last_at), last_status = coalesce(?, last_status),
  succeeded = succeeded + ?, failed = failed + ?, missed = missed + ? WHERE id = ?`
	skipWebhook = `UPDATE webhooks SET after = max(after, ?), off = ? WHERE id = ?`
	trimDead    = `DELETE FROM webhook_deliveries WHERE webhook = ?1 AND due_at IS NULL AND seq <= (
  SELECT seq FROM webhook_deliveries WHERE webhook = ?1 AND due_at IS NULL ORDER BY seq DESC LIMIT 1 OFFSET ?2)`
	deleteDelivery   = `DELETE FROM webhook_deliveries WHERE webhook = ? AND seq = ?`
	pruneDeliveries  = `DELETE FROM webhook_deliveries WHERE due_at IS NULL AND at < ?`
	deleteWebhook    = `DELETE FROM webhooks WHERE id = ?`
	deleteDeliveries = `DELETE FROM webhook_deliveries WHERE webhook = ?`
)

// PutWebhook stores a webhook.
func (t *tx) PutWebhook(w job.Webhook) error {
	spec, err := json.Marshal(webhookSpec(w.WebhookSpec))
	if err != nil {
		return job.Errorf(job.Internal, "encode webhook %s: %w", w.ID, err)
	}
	t.wrote = true
	_, err = t.doCold(putWebhook, w.ID, string(spec), w.Secret.Reveal(), w.CreatedAt.UnixMilli(), w.UpdatedAt.UnixMilli(), w.After, bit(w.Off), w.Succeeded, w.Failed, w.Missed)
	return t.fail("store webhook", err)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// StepWebhook adds what has become of a webhook.
func (t *tx) StepWebhook(id string, p job.WebhookProgress) error {
	var at, status any
	if !p.LastAt.IsZero() {
		at, status = p.LastAt.UnixMilli(), p.LastStatus
	}
	t.wrote = true
	_, err := t.doCold(stepWebhook, p.After, at, status, p.Succeeded, p.Failed, p.Missed, id)
	return t.fail("store what has become of a webhook", err)
}

// SkipWebhook goes on to the newest event.
func (t *tx) SkipWebhook(id string, off bool) error {
	t.wrote = true
	_, err := t.doCold(skipWebhook, t.nextSeq()-1, bit(off), id)
	return t.fail("store what has become of a webhook", err)
}

// PutDelivery stores a delivery.
func (t *tx) PutDelivery(d job.WebhookDelivery) error {
	var due any
	if !d.DueAt.IsZero() {
		due = d.DueAt.UnixMilli()
	}
	t.wrote = true
	_, err := t.doCold(putDelivery, d.Seq, d.Type, d.Attempt, due, d.At.UnixMilli(), string(d.Body), d.Webhook)
	if err == nil && due == nil {
		_, err = t.doCold(trimDead, d.Webhook, job.MaxDead)
	}
	return t.fail("store a delivery of a webhook", err)
}

// DeleteDelivery removes a delivery.
func (t *tx) DeleteDelivery(id string, seq int64) error {
	t.wrote = true
	_, err := t.doCold(deleteDelivery, id, seq)
	return t.fail("remove a delivery of a webhook", err)
}

// PruneDeliveries removes old deliveries that were given up.
func (t *tx) PruneDeliveries(before time.Time) error {
	t.wrote = true
	_, err := t.doCold(pruneDeliveries, before.UnixMilli())
	return t.fail("remove deliveries that were given up", err)
}

// DeleteWebhook removes a webhook with its deliveries.
func (t *tx) DeleteWebhook(id string) error {
	t.wrote = true
	n, err := t.doCold(deleteWebhook, id)
	if err == nil && n == 0 {
		return job.NoWebhook(id)
	}
	if err == nil {
		_, err = t.doCold(deleteDeliveries, id)
	}
	return t.fail("delete webhook", err)
}
