package job

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Pressure is how full a queue with a bound is (contract §4.13).
type Pressure struct {
	Queue    string
	Depth    int64 // its jobs that have not ended
	Bound    int64
	Strategy string
	Warn     bool // from the threshold of its configuration on
}

// Part is Depth as a part of Bound, in whole hundredths.
func (p Pressure) Part() float64 {
	return math.Floor(100*float64(p.Depth)/float64(p.Bound)+1e-9) / 100
}

// Warning is what the sender of a job is told, where that is warranted.
func (p Pressure) Warning() Warning {
	return Warning{Field: "queue", Message: fmt.Sprintf("the queue %s is nearly full: %d of at most %d jobs; send slower, or have more workers, before jobs are refused", p.Queue, p.Depth, p.Bound)}
}

// PressureOf is how full a queue is that is configured so and has so many jobs that
// have not ended; nil where it has no bound.
func (b Backpressure) PressureOf(queue string, depth int64) *Pressure {
	if b.MaxDepth == 0 {
		return nil
	}
	p := &Pressure{Queue: queue, Depth: depth, Bound: b.MaxDepth, Strategy: b.Strategy}
	if p.Strategy == "" {
		p.Strategy = OverflowReject
	}
	p.Warn = float64(depth) >= b.Threshold()*float64(b.MaxDepth)
	return p
}

// Refusal is the QueueFull for n more jobs.
func (p Pressure) Refusal(n int) *Error {
	what := "one more job"
	if n > 1 {
		what = fmt.Sprintf("%d more jobs", n)
	}
	return Errorf(QueueFull, "the queue %s holds %d jobs that have not ended, of at most %d: it has no room for %s; send again later, or raise backpressure.max_depth", p.Queue, p.Depth, p.Bound, what).
		With(map[string]any{"queue": p.Queue, "depth": int(p.Depth), "bound": int(p.Bound), "strategy": p.Strategy})
}

// RefuseDraining is the QueueClosed for a PUSH to a queue that is draining.
func RefuseDraining(queue string) *Error {
	return Errorf(QueueClosed, "the queue %s is draining: it takes no new jobs until it is resumed; send again later, or to another queue", queue).
		With(map[string]any{"queue": queue, "status": QueueDraining})
}

// Displace discards an available job, the oldest of its queue, to make room for another
// one (contract §4.13). It never becomes a dead letter.
func (j *Job) Displace(now time.Time, p Pressure) error {
	if err := j.move(onDrop, Discarded, now); err != nil {
		return err
	}
	j.NextRetryAt, j.RetryDelay, j.Lost = time.Time{}, 0, nil
	f := Failure{Type: "queue_full", Code: "queue_full", Message: fmt.Sprintf("discarded to make room: the queue %s holds at most %d jobs", j.Queue, p.Bound)}
	j.Error = f.append(nil, j.Attempt, now, false)
	j.addEvent("backpressure.dropped", now, func(o *rawjson.Writer) {
		o.Int("depth", p.Depth)
		o.Int("bound", p.Bound)
		o.Str("strategy", p.Strategy)
	})
	j.addDiscarded(now, f)
	return nil
}

// How long a PUSH may wait for room in a queue whose strategy is block (contract §4.13).
const (
	DefaultBlock = 5 * time.Second
	MaxBlock     = 20 * time.Second
)

type blockKey struct{}

// WithBlock lets a PUSH under ctx wait so long for room in a queue whose strategy is
// block, instead of DefaultBlock: at most MaxBlock, and 0 is not at all.
func WithBlock(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, blockKey{}, max(0, min(d, MaxBlock)))
}

// BlockOf is how long a PUSH under ctx may wait for room, and whether WithBlock has said it.
func BlockOf(ctx context.Context) (d time.Duration, said bool) {
	if d, ok := ctx.Value(blockKey{}).(time.Duration); ok {
		return d, true
	}
	return DefaultBlock, false
}
