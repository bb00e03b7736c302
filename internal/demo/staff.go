package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// staff are the workers of the living shop, three in one process, until ctx ends.
func staff(ctx context.Context, c *client.Client, confirming client.Handler) error {
	till := client.NewWorker(c, settled(client.WorkerOptions{ID: "till", Queues: []string{"payments", "default"}, Concurrency: 6,
		Labels: map[string]string{"floor": "ground", "role": "checkout"}, Version: "2.3.1"}))
	post := client.NewWorker(c, settled(client.WorkerOptions{ID: "post-room", Queues: []string{"mail", "newsletter"}, Concurrency: 3,
		Labels: map[string]string{"floor": "first"}, Version: "2.3.1"}))
	studio := client.NewWorker(c, settled(client.WorkerOptions{ID: "photo-studio", Queues: []string{"images", "reports"}, Concurrency: 3,
		Labels: map[string]string{"floor": "attic", "gpu": "none"}, Version: "2.2.9"}))
	till.Handle(orderJob, confirming)
	till.Handle("payment.charge", charge)
	for kind, took := range map[string]time.Duration{"order.pick": 2 * time.Second, "order.pack": 3 * time.Second, "order.ship": time.Second,
		"search.reindex": 700 * time.Millisecond, "inventory.sync": 1500 * time.Millisecond, "cart.cleanup": time.Second} {
		till.Handle(kind, labour(took))
	}
	till.Handle("recommend.compute", recommend)
	post.Handle("email.send", mail)
	post.Handle("cart.remind", mail)
	post.Handle("newsletter.send", labour(time.Second))
	studio.Handle("photo.resize", labour(4*time.Second))
	studio.Handle("report.render", render)
	var all sync.WaitGroup
	workers := []*client.Worker{till, post, studio}
	ended := make([]error, len(workers))
	for i, w := range workers {
		all.Go(func() { ended[i] = w.Run(ctx) })
	}
	all.Wait()
	return errors.Join(ended...)
}

// trouble is an error with a type of its own.
type trouble struct{ kind, message string }

func (t trouble) Error() string     { return t.message }
func (t trouble) ErrorType() string { return t.kind }

// labour is a job that takes about so long.
func labour(about time.Duration) client.Handler {
	return func(ctx context.Context, j *job.Job) (any, error) {
		if err := pass(ctx, about/2+rand.N(about)); err != nil {
			return nil, err
		}
		return map[string]string{"done": j.Type}, nil
	}
}

// charge takes the money. One payment in five times out at first, some until they are
// given up, and now and then a card is refused.
func charge(ctx context.Context, j *job.Job) (any, error) {
	var s sold
	if err := client.Args(j, &s); err != nil {
		return nil, client.Discard(err)
	}
	if err := pass(ctx, 100*time.Millisecond+rand.N(600*time.Millisecond)); err != nil {
		return nil, err
	}
	switch {
	case s.Order%5 == 0 && j.Attempt == 1, s.Order%35 == 0:
		return nil, trouble{"payment.timeout", fmt.Sprintf("the bank did not answer within 5 s (order %d, %d.%02d %s)", s.Order, s.Cents/100, s.Cents%100, s.Currency)}
	case s.Order%31 == 0:
		return nil, client.DeadLetter(trouble{"card.refused", "the card was refused: insufficient funds"})
	}
	return map[string]any{"charged": s.Cents, "currency": s.Currency}, nil
}

// mail sends an e-mail. Some addresses nobody has, and the mail server is busy at times.
func mail(ctx context.Context, _ *job.Job) (any, error) {
	if err := pass(ctx, rand.N(500*time.Millisecond)); err != nil {
		return nil, err
	}
	if rand.N(40) == 0 {
		return nil, client.Discard(trouble{"smtp.550", "550 5.1.1 no such mailbox"})
	}
	if rand.N(12) == 0 {
		return nil, trouble{"smtp.421", "421 4.7.0 too many connections, try again later"}
	}
	return map[string]string{"accepted_by": "mx.example.com"}, nil
}

// render tells how far it is.
func render(ctx context.Context, _ *job.Job) (any, error) {
	const pages = 25
	for page := range pages {
		if err := pass(ctx, 600*time.Millisecond); err != nil {
			return nil, err
		}
		if err := client.Progress(ctx, float64(page+1)/pages, fmt.Sprintf("page %d of %d", page+1, pages)); err != nil && job.KindOf(err) == job.Conflict {
			return nil, err // it is another's by now
		}
	}
	return map[string]int{"pages": pages}, nil
}

// recommend has a fault that nobody has mended yet.
func recommend(_ context.Context, j *job.Job) (any, error) {
	var order int64
	if err := client.Args(j, &order); err != nil {
		return nil, client.Discard(err)
	}
	bought := make([]string, order%3)
	return bought[1], nil // panics where there are fewer than two
}

// pass lets so much time pass, or as much as ctx leaves.
func pass(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), ctx.Err())
	}
}
