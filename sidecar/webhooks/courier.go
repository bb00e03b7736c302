package webhooks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// courier delivers for one webhook. Its members are of its goroutine alone, but for the channels.
type courier struct {
	w      *Webhooks
	id     string
	poked  chan struct{} // room for one: the webhook has changed
	done   chan struct{}
	landed chan flight // room for all

	hook    job.Webhook
	seen    int64            // events up to it have been looked at
	noted   int64            // After, as it is stored
	missed  int64            // events that left the log unseen, and are not stored as such
	aside   map[int64]bool   // events behind After that were put aside before this server started
	fresh   []job.Event      // that are wanted, and were not sent, in order
	waiting []flight         // that are to be sent again, those that are due first at the front
	out     int              // that have not landed
	flying  map[int64]flight // by Seq: they are sent, or their end is not stored
	ended   []flight         // of them, those whose end is not stored
	streak  int              // attempts in a row that failed for no fault of the event
	hold    time.Time        // no new event is sent before
	pause   time.Time        // the store is not asked before
}

// flight is a delivery on its way.
type flight struct {
	seq     int64
	kind    string
	body    []byte // the event; nil: it is stored
	attempt int    // this one
	due     time.Time
	at      time.Time // when it ended
	what    string    // its verdict
	status  int
	broken  bool // the stop of the server broke it off, or its delivery is gone
	gone    bool
	fault   bool // that is the receiver's, and not the event's
	why     string
}

// look has the post read its webhook again. It does not block.
func (p *courier) look() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

// run delivers until ctx ends or the webhook is deleted.
func (p *courier) run(ctx context.Context) {
	out, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := p.load(ctx, true)
	for alive && ctx.Err() == nil {
		news := p.fill(ctx)
		select {
		case <-p.poked: // before what has happened since is sent
			alive = p.load(ctx, false)
			continue
		default:
		}
		if p.send(out) && len(p.fresh) == 0 && len(p.flying) < p.room() {
			continue // there is room for what the log has behind it
		}
		timer := time.NewTimer(p.idle())
		select {
		case <-ctx.Done():
		case f := <-p.landed:
			p.land(f)
			p.note(ctx)
		case <-news:
			p.breathe(ctx)
		case <-p.poked:
			alive = p.load(ctx, false)
		case <-timer.C:
			if len(p.ended) > 0 {
				p.note(ctx)
			}
		}
		timer.Stop()
	}
	cancel()
	p.rest(ctx)
}

// breathe waits a moment, so that the commits of a busy server cost one look.
func (p *courier) breathe(ctx context.Context) { sleep(ctx, breath) }

// load reads the webhook, and reports whether there is one. A store that does not answer is asked again.
func (p *courier) load(ctx context.Context, first bool) bool {
	for {
		var h job.Webhook
		var aside []job.WebhookDelivery
		err := p.w.ledger.ReadWebhooks(ctx, func(r job.WebhookReader) (err error) {
			if h, err = r.Webhook(p.id); err == nil && first {
				aside, err = r.Deliveries(p.id)
			}
			return err
		})
		switch {
		case job.KindOf(err) == job.NotFound:
			return false
		case err == nil:
			p.take(h, aside)
			return true
		case ctx.Err() != nil:
			return true
		}
		p.w.log.Error("a webhook subscription cannot be read; the server tries again", "subscription", p.id, "err", err)
		if !sleep(ctx, again) {
			return true
		}
	}
}

// take goes on with the webhook as it is stored.
func (p *courier) take(h job.Webhook, aside []job.WebhookDelivery) {
	p.hook = h
	p.seen, p.noted = max(p.seen, h.After), max(p.noted, h.After)
	for _, d := range aside {
		if d.Seq > h.After {
			p.aside[d.Seq] = true
		}
		if d.DueAt.IsZero() {
			continue
		}
		p.waiting = append(p.waiting, flight{seq: d.Seq, kind: d.Type, attempt: d.Attempt + 1, due: d.DueAt})
	}
	p.fresh = slices.DeleteFunc(p.fresh, func(e job.Event) bool { return h.Paused || e.Seq <= h.After || !h.Wants(e) })
}

// held reports whether no new event is to be sent at present.
func (p *courier) held(now time.Time) bool {
	return p.hook.Paused || now.Before(p.hold) || len(p.waiting) >= job.MaxWaiting
}

// fill reads the log until it has something to send. At the end of the log it returns what
// the next commit closes.
func (p *courier) fill(ctx context.Context) (news <-chan struct{}) {
	now := p.w.now()
	if len(p.fresh) > 0 || p.held(now) || now.Before(p.pause) {
		return nil
	}
	news = p.w.ledger.News()
	for len(p.fresh) == 0 && ctx.Err() == nil {
		es, err := p.w.feed.page(ctx, p.seen, news)
		if err != nil {
			if ctx.Err() == nil {
				p.w.log.Error("the log of events cannot be read for a webhook subscription; the server tries again", "subscription", p.id, "err", err)
			}
			p.pause = now.Add(again)
			return nil
		}
		if len(es) == 0 {
			break
		}
		if gap := es[0].Seq - p.seen - 1; gap > 0 {
			p.missed += gap
			p.w.log.Warn("events had left the log before they could be sent to a webhook subscription, which never gets them; its receiver has failed for longer than events are kept, or the server was stopped for so long",
				"subscription", p.id, "events", gap)
		}
		for _, e := range es {
			if p.hook.Wants(e) && !p.aside[e.Seq] {
				p.fresh = append(p.fresh, e)
			}
		}
		p.seen = es[len(es)-1].Seq
	}
	if p.position()-p.noted >= strides || p.missed > 0 {
		p.note(ctx)
	}
	if len(p.fresh) > 0 {
		return nil
	}
	return news
}

// room is how many deliveries may be on their way.
func (p *courier) room() int {
	if p.streak > 0 {
		return 1
	}
	return slots
}

// send begins as many deliveries as there is room for, those first that are tried again.
// It reports whether it has begun one.
func (p *courier) send(ctx context.Context) (begun bool) {
	now := p.w.now()
	for !p.hook.Paused && len(p.flying) < p.room() {
		var f flight
		switch {
		case len(p.waiting) > 0 && !now.Before(p.waiting[0].due):
			f, p.waiting = p.waiting[0], p.waiting[1:]
		case len(p.fresh) > 0 && !p.held(now):
			e := p.fresh[0]
			f, p.fresh = flight{seq: e.Seq, kind: e.Type, attempt: 1, body: wire.AppendEvent(nil, e)}, p.fresh[1:]
		default:
			return begun
		}
		begun = true
		p.flying[f.seq], p.out = f, p.out+1
		hook := p.hook
		go func() { p.landed <- p.w.fly(ctx, hook, f) }()
	}
	return begun
}

// idle is how long there is nothing to do if nothing happens.
func (p *courier) idle() time.Duration {
	now := p.w.now()
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if now.Before(p.pause) {
		sooner(p.pause)
	}
	if !p.hook.Paused && len(p.flying) < p.room() {
		if len(p.waiting) > 0 {
			sooner(p.waiting[0].due)
		}
		if now.Before(p.hold) {
			sooner(p.hold)
		}
	}
	if next.IsZero() {
		return 24 * time.Hour
	}
	return max(next.Sub(now), time.Millisecond)
}

// fly makes one attempt.
func (w *Webhooks) fly(ctx context.Context, to job.Webhook, f flight) flight {
	select {
	case w.sending <- struct{}{}:
		defer func() { <-w.sending }()
	case <-ctx.Done():
		f.broken = true
		return f
	}
	if f.body == nil {
		if err := w.ledger.ReadWebhooks(ctx, func(r job.WebhookReader) error {
			d, err := r.WebhookDelivery(to.ID, f.seq)
			f.body = d.Body
			return err
		}); err != nil {
			f.broken, f.gone = true, job.KindOf(err) == job.NotFound
			return f
		}
	}
	now := w.now()
	o := post(ctx, w.do, letter{to: to, id: deliveryID(to.ID, rawjson.Unquote(rawjson.Member(f.body, "id"))), kind: f.kind, body: f.body, sentAt: now})
	if o.err != nil && ctx.Err() != nil {
		f.broken = true
		return f
	}
	f.at, f.status = w.now(), o.status
	wait := time.Duration(0)
	if f.what, wait = o.verdict(f.attempt); f.what == retrying {
		f.due = f.at.Add(wait)
	}
	if f.what != delivered {
		f.why = o.problem()
		f.fault = o.err != nil || o.status < 400 || o.status >= 500 || o.status == 429
	}
	return f
}

// land takes the end of a delivery, and of all others that have ended.
func (p *courier) land(f flight) {
	for {
		p.landOne(f)
		select {
		case f = <-p.landed:
		default:
			return
		}
	}
}

func (p *courier) landOne(f flight) {
	p.out--
	switch {
	case f.gone:
		delete(p.flying, f.seq)
		return
	case f.broken && f.attempt == 1: // the server stops; the position stays before it
		return
	case f.broken: // that, or its store did not answer
		delete(p.flying, f.seq)
		f.broken, f.body, f.due = false, nil, p.w.now().Add(again)
		p.wait(f)
		return
	case f.what == delivered:
		p.streak, p.hold = 0, time.Time{}
	case f.fault:
		p.streak++
		if n := p.streak - patience; n >= 0 {
			p.hold = f.at.Add(min(firstHold<<min(n, 10), lastHold))
		}
	default: // it was refused by a receiver that works
		p.streak, p.hold = 0, time.Time{}
	}
	p.ended = append(p.ended, f)
}

// wait puts a delivery among those that wait, by the time at which they are due.
func (p *courier) wait(f flight) {
	at, _ := slices.BinarySearchFunc(p.waiting, f, func(a, b flight) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return int(a.seq - b.seq)
	})
	p.waiting = slices.Insert(p.waiting, at, f)
}

// position is the event up to which all was sent or is put aside, once what has ended is stored.
func (p *courier) position() int64 {
	at := p.seen
	if len(p.fresh) > 0 {
		at = min(at, p.fresh[0].Seq-1)
	}
	for seq, f := range p.flying {
		if f.attempt == 1 && !slices.ContainsFunc(p.ended, func(e flight) bool { return e.seq == seq }) {
			at = min(at, seq-1)
		}
	}
	return at
}

// note stores what has become of deliveries, in one transaction. What cannot be stored is stored later.
func (p *courier) note(ctx context.Context) {
	step := job.WebhookProgress{After: p.position(), Missed: p.missed}
	for _, f := range p.ended {
		step.LastAt, step.LastStatus = f.at, f.what
		if f.what == delivered {
			step.Succeeded++
		} else {
			step.Failed++
		}
	}
	now := p.w.now()
	if err := p.w.ledger.WriteWebhooks(ctx, func(tx job.WebhookTx) error {
		for _, f := range p.ended {
			if err := p.putAside(tx, f); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(p.ended, func(f flight) bool { return f.what == dead }) {
			if err := tx.PruneDeliveries(now.Add(-job.KeepDeliveries)); err != nil {
				return err
			}
		}
		return tx.StepWebhook(p.id, step)
	}); err != nil {
		if ctx.Err() == nil {
			p.w.log.Error("what has become of deliveries to a webhook subscription cannot be stored; the server tries again", "subscription", p.id, "err", err)
		}
		p.pause = now.Add(again)
		return
	}
	p.noted, p.missed = max(p.noted, step.After), 0
	for _, f := range p.ended {
		delete(p.flying, f.seq)
		switch f.what {
		case retrying:
			f.attempt, f.body = f.attempt+1, nil
			p.wait(f)
		case dead:
			p.w.mourn(p.id, f)
		}
	}
	p.ended = p.ended[:0]
}

// putAside stores the end of one attempt.
func (p *courier) putAside(tx job.WebhookTx, f flight) error {
	switch {
	case f.what != delivered:
		return tx.PutDelivery(job.WebhookDelivery{Webhook: p.id, Seq: f.seq, Type: f.kind, Attempt: f.attempt, DueAt: dueAt(f), At: f.at, Body: f.body})
	case f.attempt > 1:
		return tx.DeleteDelivery(p.id, f.seq)
	}
	return nil
}

// dueAt is when a delivery is tried again, the zero time if it was given up.
func dueAt(f flight) time.Time {
	if f.what == dead {
		return time.Time{}
	}
	return f.due
}

// rest ends the post: what is on its way is broken off, and what has come of the rest is stored.
func (p *courier) rest(ctx context.Context) {
	for p.out > 0 {
		p.landOne(<-p.landed)
	}
	if len(p.ended) == 0 && p.position() <= p.noted {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	p.note(last)
}

// mourn tells of a delivery that was given up, of a few of them in each minute.
func (w *Webhooks) mourn(id string, f flight) {
	if more, ok := w.deaths.take(w.now()); ok {
		w.log.Warn("a delivery to a webhook subscription was given up", "subscription", id, "event", f.kind, "status", f.status, "attempts", f.attempt, "reason", f.why, "not_logged_before", more)
	}
}

// quota lets some lines of a log through in each minute.
type quota struct {
	mu     sync.Mutex
	minute time.Time
	told   int
	untold int
}

const linesPerMinute = 10

// take reports whether a line may be written, and how many were not before it.
func (q *quota) take(now time.Time) (untold int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := now.Truncate(time.Minute); !m.Equal(q.minute) {
		q.minute, q.told = m, 0
	}
	if q.told == linesPerMinute {
		q.untold++
		return 0, false
	}
	untold, q.untold = q.untold, 0
	q.told++
	return untold, true
}
