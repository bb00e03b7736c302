package sidecar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

func ExampleMiddleware() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "outrider")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "jobs.db"), sqlitestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	var chain sidecar.Chain
	err = chain.Add("region", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		if e.Type == "email.spam" {
			return errors.New("no spam from here")
		}
		if e.Meta == nil {
			e.Meta = json.RawMessage(`{"region":"eu"}`)
		}
		return next(ctx, e)
	})
	if err != nil {
		log.Fatal(err)
	}
	s := sidecar.New(store, sidecar.Options{Middleware: &chain})

	rs, err := s.Enqueue(ctx, job.Envelope{Type: "email.send", Args: json.RawMessage(`["ada@example.com"]`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(rs[0].Meta))
	_, err = s.Enqueue(ctx, job.Envelope{Type: "email.spam", Args: json.RawMessage(`[]`)})
	fmt.Println(job.KindOf(err) == job.Rejected, err)
	// Output:
	// {"region":"eu"}
	// true no spam from here
}
