package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func webhookOf(id string) job.Webhook {
	return job.Webhook{ID: id, Secret: job.Secret("secret of " + id), CreatedAt: Now, UpdatedAt: Now.Add(time.Second),
		WebhookSpec: job.WebhookSpec{URL: "https://example.com/" + id, Events: []string{"job.*"}, Metadata: json.RawMessage(`{"a":[1,2.50]}`),
			Filter: job.WebhookFilter{Queues: []string{"q"}, JobTypes: []string{"a.*"}, Types: []string{"job.failed"}, JobID: "x", Tenant: "t"}}}
}

func stored[T any](t *testing.T, s job.Store, read func(job.ReadTx) (T, error)) (v T) {
	t.Helper()
	if err := s.View(t.Context(), func(tx job.ReadTx) (err error) { v, err = read(tx); return err }); err != nil {
		t.Error(err)
	}
	return v
}

func written(t *testing.T, s job.Store, fn func(job.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Error(err)
	}
}

// webhooks come back as they were stored, and what has become of them is added up.
func webhooks(t *testing.T, s job.Store) {
	a, b := webhookOf("sub_a"), webhookOf("sub_b")
	b.After, b.Off, b.Paused = 7, true, true
	written(t, s, func(tx job.Tx) error {
		if err := tx.PutWebhook(b); err != nil {
			return err
		}
		return tx.PutWebhook(a)
	})
	if got := stored(t, s, job.ReadTx.Webhooks); !reflect.DeepEqual(got, []job.Webhook{a, b}) {
		t.Errorf("got %+v", got)
	}
	written(t, s, func(tx job.Tx) error {
		for _, p := range []job.WebhookProgress{
			{After: 9, LastAt: Now, LastStatus: "delivered", Succeeded: 2}, {After: 3, Failed: 4, Missed: 5, Succeeded: 1},
		} {
			if err := tx.StepWebhook("sub_b", p); err != nil {
				return err
			}
		}
		changed := b
		changed.URL, changed.Secret, changed.After = "http://other/", "another", 0
		if err := tx.PutWebhook(changed); err != nil {
			return err
		}
		return tx.StepWebhook("sub_none", job.WebhookProgress{After: 1})
	})
	b.URL, b.Secret = "http://other/", "another"
	b.WebhookProgress = job.WebhookProgress{After: 9, Off: true, LastAt: Now, LastStatus: "delivered", Succeeded: 3, Failed: 4, Missed: 5}
	if got := stored(t, s, func(tx job.ReadTx) (job.Webhook, error) { return tx.Webhook("sub_b") }); !reflect.DeepEqual(got, b) {
		t.Errorf("got  %+v\nwant %+v", got, b)
	}
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Webhook("sub_none"); return err }); job.KindOf(err) != job.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	written(t, s, func(tx job.Tx) error {
		for range 12 { // in the same commit as the skip, and before it
			if err := tx.AddEvent(job.Event{Type: "queue.paused", Time: Now}); err != nil {
				return err
			}
		}
		return tx.SkipWebhook("sub_b", false)
	})
	if got := stored(t, s, func(tx job.ReadTx) (job.Webhook, error) { return tx.Webhook("sub_b") }); got.After != 12 || got.Off {
		t.Errorf("skipped to %d, off %v", got.After, got.Off)
	}
	if last := stored(t, s, func(tx job.ReadTx) ([]job.Event, error) { return tx.Events(job.EventFilter{Limit: 100}) }); last[len(last)-1].Seq != 12 {
		t.Errorf("the last event is %d", last[len(last)-1].Seq)
	}
}

// deliveries that failed wait in the order of their time, and go with their webhook.
func deliveries(t *testing.T, s job.Store) {
	put := func(webhook string, seq int64, due time.Time, at time.Time) func(job.Tx) error {
		return func(tx job.Tx) error {
			return tx.PutDelivery(job.WebhookDelivery{Webhook: webhook, Seq: seq, Type: "job.failed", Attempt: 2, DueAt: due, At: at, Body: []byte(fmt.Sprintf(`{"seq":%d}`, seq))})
		}
	}
	written(t, s, func(tx job.Tx) error { return tx.PutWebhook(webhookOf("sub_a")) })
	written(t, s, put("sub_a", 1, Now.Add(time.Hour), Now))
	written(t, s, put("sub_a", 2, Now.Add(time.Minute), Now))
	written(t, s, put("sub_a", 3, time.Time{}, Now))
	written(t, s, put("sub_a", 4, time.Time{}, Now.Add(time.Second)))
	written(t, s, put("sub_none", 5, Now, Now))
	aside := func(id string) (all string) {
		t.Helper()
		for _, d := range stored(t, s, func(tx job.ReadTx) ([]job.WebhookDelivery, error) { return tx.Deliveries(id) }) {
			if d.Webhook != id || d.Body != nil || d.Type != "job.failed" || d.Attempt != 2 {
				t.Errorf("%+v", d)
			}
			wait := "given up"
			if !d.DueAt.IsZero() {
				wait = d.DueAt.Sub(Now).String()
			}
			all += fmt.Sprintf("%d %s %v; ", d.Seq, wait, d.At.Sub(Now))
		}
		return all
	}
	if got := aside("sub_a"); got != "3 given up 0s; 4 given up 1s; 2 1m0s 0s; 1 1h0m0s 0s; " {
		t.Errorf("aside: %q", got)
	}
	if got := aside("sub_none"); got != "" {
		t.Errorf("of a webhook that is not there: %q", got)
	}
	count := func(wantWaiting, wantDead int64) {
		t.Helper()
		if w := stored(t, s, func(tx job.ReadTx) (job.Webhook, error) { return tx.Webhook("sub_a") }); w.Waiting != wantWaiting || w.Dead != wantDead {
			t.Errorf("%d wait, %d were given up; want %d, %d", w.Waiting, w.Dead, wantWaiting, wantDead)
		}
	}
	count(2, 2)
	if d := stored(t, s, func(tx job.ReadTx) (job.WebhookDelivery, error) { return tx.WebhookDelivery("sub_a", 1) }); string(d.Body) != `{"seq":1}` {
		t.Errorf("body %s", d.Body)
	}
	written(t, s, func(tx job.Tx) error { return tx.PruneDeliveries(Now.Add(time.Millisecond)) })
	count(2, 1)
	written(t, s, func(tx job.Tx) error { return tx.DeleteDelivery("sub_a", 2) })
	written(t, s, func(tx job.Tx) error { return tx.DeleteDelivery("sub_a", 2) })
	count(1, 1)
	written(t, s, func(tx job.Tx) error {
		for seq := range int64(job.MaxDead + 5) {
			if err := put("sub_a", 100+seq, time.Time{}, Now)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	count(1, job.MaxDead)
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.WebhookDelivery("sub_a", 104); return err }); job.KindOf(err) != job.NotFound {
		t.Errorf("the oldest that was given up is still there: %v", err)
	}
	written(t, s, func(tx job.Tx) error { return tx.DeleteWebhook("sub_a") })
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.DeleteWebhook("sub_a") }); job.KindOf(err) != job.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
	written(t, s, func(tx job.Tx) error { return tx.PutWebhook(webhookOf("sub_a")) })
	count(0, 0)
}
