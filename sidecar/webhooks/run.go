package webhooks

import (
	"context"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// How the log is followed.
const (
	page      = 100                   // events that are read together
	breath    = 50 * time.Millisecond // between a commit and the next look: many commits cost one
	again     = time.Second           // behind a store that did not answer
	strides   = 1000                  // events that may be looked at before that is noted
	patience  = 5                     // failures in a row before new events are held back
	firstHold = 30 * time.Second      // of the hold behind so many, which doubles with each
	lastHold  = 10 * time.Minute
	goodbye   = 5 * time.Second // for the last note of a stop
)

// Run delivers until ctx ends. It returns when nothing is sent any more.
func (w *Webhooks) Run(ctx context.Context) error {
	for !w.settleOff(ctx) {
		if !sleep(ctx, again) {
			return nil
		}
	}
	if !w.Deliver() {
		<-ctx.Done()
		return nil
	}
	defer w.join()
	for {
		wait := (<-chan time.Time)(nil)
		all, err := w.stored(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Error("the webhook subscriptions cannot be read; the server tries again", "err", err)
			wait = time.After(again)
		}
		for _, h := range all {
			w.begin(ctx, h.ID)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-wait:
		}
	}
}

// settleOff notes of each webhook whether this server sends anything: what happened while
// none did is passed over.
func (w *Webhooks) settleOff(ctx context.Context) bool {
	off := !w.Deliver()
	all, err := w.stored(ctx)
	if err == nil && (len(all) > 0) {
		err = w.ledger.WriteWebhooks(ctx, func(tx job.WebhookTx) error {
			for _, h := range all {
				if h.Off || off {
					if err := tx.SkipWebhook(h.ID, off); err != nil {
						return err
					}
				}
			}
			return tx.PruneDeliveries(w.now().Add(-job.KeepDeliveries))
		})
	}
	if err != nil && ctx.Err() == nil {
		w.log.Error("the webhook subscriptions cannot be prepared; the server tries again", "err", err)
	}
	if err == nil && off && len(all) > 0 {
		w.log.Warn("there are webhook subscriptions, and nothing is sent to them: --allow-webhook says where events may be sent", "subscriptions", len(all))
	}
	return err == nil
}

func (w *Webhooks) stored(ctx context.Context) (all []job.Webhook, err error) {
	err = w.ledger.ReadWebhooks(ctx, func(r job.WebhookReader) (err error) {
		all, err = r.Webhooks()
		return err
	})
	return all, err
}

// begin starts to deliver for a webhook, unless that goes on already.
func (w *Webhooks) begin(ctx context.Context, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.posts[id] != nil {
		return
	}
	p := &courier{w: w, id: id, poked: make(chan struct{}, 1), done: make(chan struct{}), landed: make(chan flight, slots), aside: map[int64]bool{}, flying: map[int64]flight{}}
	w.posts[id] = p
	go func() {
		defer func() {
			w.mu.Lock()
			delete(w.posts, id)
			w.mu.Unlock()
			close(p.done)
		}()
		p.run(ctx)
	}()
}

// join waits for all who deliver.
func (w *Webhooks) join() {
	for {
		w.mu.Lock()
		var p *courier
		for _, p = range w.posts {
			break
		}
		w.mu.Unlock()
		if p == nil {
			return
		}
		<-p.done
	}
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// feed reads pages of the log, each once for all who have come as far.
type feed struct {
	ledger Ledger
	mu     sync.Mutex
	after  int64
	last   []job.Event     // behind after; nobody changes them
	end    int64           // there was nothing behind it
	still  <-chan struct{} // as long as this is open
}

// page returns the events behind a Seq, some of them, none at the end of the log. news is
// what the caller waits for behind that.
func (f *feed) page(ctx context.Context, after int64, news <-chan struct{}) ([]job.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.after == after && len(f.last) > 0:
		return f.last, nil
	case f.end == after && f.still == news:
		return nil, nil
	}
	es, err := f.ledger.Events(ctx, job.EventFilter{After: after, Limit: page})
	if err == nil && len(es) > 0 {
		f.after, f.last = after, es
	} else if err == nil {
		f.end, f.still = after, news
	}
	return es, err
}
