package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New("http://127.0.0.1:7373", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, job.Envelope{Type: "email.send", Args: json.RawMessage(`["ada@example.com","welcome"]`)}); err != nil {
		log.Fatal(err)
	}
	w := client.NewWorker(c, client.WorkerOptions{Concurrency: 20})
	w.HandleFunc("email.send", func(ctx context.Context, j *job.Job) error {
		var to, template string
		if err := client.Args(j, &to, &template); err != nil {
			return client.DeadLetter(err)
		}
		fmt.Println("sending", template, "to", to)
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleWorker_Handle() {
	w := client.NewWorker(newFake(), client.WorkerOptions{})
	w.Handle("report.build", func(ctx context.Context, j *job.Job) (any, error) {
		rows, err := count(ctx)
		switch {
		case errors.Is(err, errBusy):
			return nil, client.RetryAfter(err, time.Minute)
		case err != nil:
			return nil, err // the job's retry policy decides
		}
		return map[string]int{"rows": rows}, nil // stored as the job's result
	})
}

func ExampleArgs() {
	j := &job.Job{Envelope: job.Envelope{Type: "email.send", Args: json.RawMessage(`["ada@example.com",{"retries":2}]`)}}
	var to string
	var opts struct{ Retries int }
	err := client.Args(j, &to, &opts)
	fmt.Println(to, opts.Retries, err)
	// Output: ada@example.com 2 <nil>
}

var errBusy = errors.New("busy")

func count(context.Context) (int, error) { return 0, nil }
