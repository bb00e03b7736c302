package httpapi

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
)

// measure takes the metrics for all who read them, as long as there is one, until ctx ends.
func (f *feed) measure(ctx context.Context) {
	t := time.NewTicker(f.a.times.metrics)
	defer t.Stop()
	before, at := tally{}, f.a.Now()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := f.a.Now()
		f.mu.Lock()
		all, gauges := f.tally, f.gauges
		f.mu.Unlock()
		if gauges > 0 {
			if p, err := f.a.pulse(ctx, all.since(before), now.Sub(at)); err == nil {
				f.publish(wire.AppendPulse(nil, p))
			} else {
				f.a.Log.Debug("the metrics of a stream could not be read", "err", err)
			}
		}
		before, at = all, now
	}
}

func (t tally) since(before tally) tally {
	return tally{t.enqueued - before.enqueued, t.processed - before.processed, t.failed - before.failed}
}

// pulse reads how the server does; what happened was counted for so long.
func (a *api) pulse(ctx context.Context, t tally, took time.Duration) (p wire.Pulse, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.times.stall)
	defer cancel()
	if p.Queues, err = a.svc.Queues(ctx); err != nil {
		return p, err
	}
	if p.Workers, err = a.svc.Workers(ctx); err != nil {
		return p, err
	}
	seconds := max(took, time.Millisecond).Seconds()
	p.Enqueued, p.Processed, p.Failed = float64(t.enqueued)/seconds, float64(t.processed)/seconds, float64(t.failed)/seconds
	p.At = a.Now()
	return p, nil
}

// publish hands new metrics to those who read them.
func (f *feed) publish(metrics []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.metrics = metrics
	for r := range f.readers {
		if r.gauges {
			r.fresh.Store(true)
			r.rouse()
		}
	}
}

// measured is the newest metrics, encoded.
func (f *feed) measured() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.metrics
}
