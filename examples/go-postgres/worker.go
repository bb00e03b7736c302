package main

import (
	"context"
	"fmt"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// work could as well be a program of its own: it knows the job server's address
// and nothing of the database.
func work(server string) error {
	c, err := client.New(server, client.Options{})
	if err != nil {
		return err
	}
	w := client.NewWorker(c, client.WorkerOptions{})
	w.Handle("order.confirm", func(_ context.Context, j *job.Job) (any, error) {
		var id int
		var email string
		if err := client.Args(j, &id, &email); err != nil {
			return nil, client.Discard(err) // it would never get better
		}
		fmt.Printf("order %d: mail to %s\n", id, email)
		return map[string]string{"mailed": email}, nil
	})
	return w.Run(context.Background())
}
