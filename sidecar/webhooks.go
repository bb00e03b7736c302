package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// News returns what is closed behind the next commit, which may have added events to the
// log. Whoever calls it looks at the log behind that, and then waits: so nothing can
// come between the look and the wait. As long as nobody waits, commits cost nothing for it.
func (s *Sidecar) News() <-chan struct{} { return s.news.wait() }

// ReadWebhooks runs fn on one snapshot of what is stored of webhooks.
func (s *Sidecar) ReadWebhooks(ctx context.Context, fn func(job.WebhookReader) error) error {
	return s.store.View(ctx, func(tx job.ReadTx) error { return fn(tx) })
}

// WriteWebhooks runs fn in one transaction. It may run more than once.
func (s *Sidecar) WriteWebhooks(ctx context.Context, fn func(job.WebhookTx) error) error {
	return s.update(ctx, func(t *turn) error { return fn(t.WorkTx) })
}
