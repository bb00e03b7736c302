package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// live keeps the shop open until ctx ends: it is furnished, and people order, behind the
// order with that id. A server that is away for a moment costs it nothing: the shop needs
// only its own database.
func (d *demo) live(ctx context.Context, id int64) error {
	d.mu.Lock()
	d.living = true
	d.mu.Unlock()
	if err := d.furnish(ctx); err != nil {
		return fmt.Errorf("furnish the shop: %w", err)
	}
	for range 24 { // what came in overnight
		id++
		if err := d.serveCustomer(ctx, id); err != nil {
			return err
		}
	}
	d.welcome()
	for {
		pause := time.NewTimer(500*time.Millisecond + rand.N(time.Second))
		select {
		case <-ctx.Done():
			pause.Stop()
			d.say("shop", "closes after %d orders; the server and the worker are asked to end", id)
			return ctx.Err()
		case <-pause.C:
		}
		id++
		if err := d.serveCustomer(ctx, id); err != nil {
			return err
		}
	}
}

// welcome says where everything is.
func (d *demo) welcome() {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := ""
	if !strings.HasSuffix(d.url, usualPort) {
		at = " --url " + d.url
	}
	fmt.Fprintf(d.stdout, `
The shop stays open: an order every second or so, payments that fail and are retried, e-mails,
photos in groups, schedules. What needs a person is there, too: dead letters, a paused queue, a
row of the outbox that can never become a job.

  dashboard   %[1]s/
  databases   %[2]s: shop.db (the app and its outbox), outrider.db (the jobs)

From another terminal:

  %[3]s top%[4]s
  %[3]s job ls --state retryable%[4]s
  %[3]s outbox ls sqlite:%[5]s

Ctrl-C ends it all and removes what it made.

`, d.url, d.dir, program(), at, d.shop.path)
}

// serveCustomer is one order and all that it leads to. Only the shop itself has to work.
func (d *demo) serveCustomer(ctx context.Context, id int64) error {
	if err := d.shop.sell(ctx, id); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("sell order %d: %w", id, err)
	}
	err := d.askDirectly(ctx, id)
	if err != nil && ctx.Err() == nil && job.KindOf(err) != job.Unavailable {
		return fmt.Errorf("ask the server for the jobs beside order %d: %w", id, err)
	}
	return nil
}

// askDirectly is what the app asks of the server without a transaction.
func (d *demo) askDirectly(ctx context.Context, id int64) error {
	var es []job.Envelope
	if id%2 == 0 { // many orders of one product: the index is built once for all of them
		es = append(es, job.Envelope{Type: "search.reindex", Args: list(fmt.Sprintf("shelf-%d", id%5)), Delay: 15 * time.Second,
			Unique: json.RawMessage(`{"keys":["type","args"],"on_conflict":"ignore"}`)})
	}
	if id%7 == 0 {
		es = append(es, job.Envelope{Type: "cart.remind", Queue: "mail", Args: list(customer(id)), Delay: time.Hour,
			Extra: json.RawMessage(`{"tags":["marketing"]}`)})
	}
	if id%9 == 0 {
		es = append(es, job.Envelope{Type: "recommend.compute", Args: list(id), Priority: -10,
			Retry: json.RawMessage(`{"max_attempts":2,"initial_interval":"PT5S","on_exhaustion":"dead_letter"}`)})
	}
	if id%40 == 0 {
		es = append(es, job.Envelope{Type: "newsletter.send", Queue: "newsletter", Args: list(fmt.Sprintf("issue-%d", id/40))})
	}
	if len(es) > 0 {
		if _, err := d.client.Enqueue(ctx, es...); err != nil {
			return err
		}
	}
	if id%15 == 0 {
		_, _, err := d.client.StartWorkflow(ctx, photoShoot(id))
		return err
	}
	return nil
}

// photoShoot is a batch: photos that are resized side by side, and one who is told.
func photoShoot(id int64) job.WorkflowSpec {
	var steps []job.Step
	for _, side := range []string{"front", "back", "left", "right"} {
		steps = append(steps, job.Do(side, job.Envelope{Type: "photo.resize", Queue: "images", Args: list(fmt.Sprintf("product-%d-%s.jpg", id, side))}))
	}
	told := job.Envelope{Type: "email.send", Queue: "mail", Args: list(map[string]any{"to": "studio@example.com", "template": "photos-ready"})}
	return job.Batch(fmt.Sprintf("photos-%d", id), steps...).On(job.OnComplete, told)
}

// furnish makes what a shop has before the first customer: limits, schedules, a queue that
// somebody has paused, and a row that somebody wrote wrongly.
func (d *demo) furnish(ctx context.Context) error {
	if _, err := d.client.SetQueueConfig(ctx, "images", json.RawMessage(`{"concurrency":2}`), false); err != nil {
		return err
	}
	if _, err := d.client.CreateQueue(ctx, "newsletter", nil, "demo"); err != nil {
		return err
	}
	if _, err := d.client.SetQueueStatus(ctx, "newsletter", "paused", "marketing, until the new logo is there"); err != nil {
		return err
	}
	for issue := range 12 {
		e := job.Envelope{Type: "newsletter.send", Queue: "newsletter", Args: list(fmt.Sprintf("draft-%d", issue+1))}
		if _, err := d.client.Enqueue(ctx, e); err != nil {
			return err
		}
	}
	for _, c := range schedules() {
		if _, _, err := d.client.PutCron(ctx, c); err != nil {
			return err
		}
	}
	if _, err := d.client.TriggerCron(ctx, "sales-report"); err != nil { // not in a minute: now
		return err
	}
	return d.shop.spoil(ctx)
}

// schedules of the shop. One is paused.
func schedules() []job.CronSpec {
	off := false
	return []job.CronSpec{
		{Name: "inventory-sync", Expression: "@every 20s", Description: "Ask the warehouse what is left.",
			Template: json.RawMessage(`{"type":"inventory.sync","args":["warehouse-1"]}`)},
		{Name: "sales-report", Expression: "* * * * *", Description: "The sales of this minute, for the screen in the office.",
			Template: json.RawMessage(`{"type":"report.render","args":["sales"],"options":{"queue":"reports"}}`)},
		{Name: "nightly-cleanup", Expression: "30 2 * * *", Timezone: "Europe/Berlin", Description: "Remove carts that nobody came back to.",
			Template: json.RawMessage(`{"type":"cart.cleanup","args":[]}`)},
		{Name: "newsletter-weekly", Expression: "0 9 * * MON", Timezone: "America/New_York", Enabled: &off, Description: "Paused until the new logo is there.",
			Template: json.RawMessage(`{"type":"newsletter.send","args":["weekly"],"options":{"queue":"newsletter"}}`)},
	}
}

// list is one argument of a job. What it is given can be written as JSON.
func list(arg any) json.RawMessage {
	raw, err := json.Marshal([]any{arg})
	if err != nil {
		panic(errors.Join(errors.New("an argument of the demo"), err))
	}
	return raw
}
