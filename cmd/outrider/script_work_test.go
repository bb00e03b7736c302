package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// scriptWorks fetches the next job of a queue, and ends it: works QUEUE ok [RESULT], works
// QUEUE fail|die TYPE MESSAGE, works QUEUE take leaves it active. It reports progress first. With
// & behind it the script goes on meanwhile.
func scriptWorks(ts *testscript.TestScript, neg bool, args []string) {
	if args[len(args)-1] == "&" {
		url := ts.Getenv("OUTRIDER_URL")
		done := make(chan error, 1)
		go func() { done <- works(url, args[:len(args)-1]) }()
		ts.Defer(func() { ts.Check(<-done) })
		return
	}
	ts.Check(works(ts.Getenv("OUTRIDER_URL"), args))
}

func works(url string, args []string) error {
	c, err := client.New(url, client.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var jobs []*job.Job
	for len(jobs) == 0 {
		if jobs, err = c.Fetch(ctx, job.FetchRequest{Queues: []string{args[0]}, Worker: "script", Count: 1, Wait: 5 * time.Second}); err != nil {
			return err
		}
	}
	args = slices.Concat(args, []string{"", "", ""})
	claim := job.Claim{ID: jobs[0].ID, Worker: "script"}
	if args[1] == "take" {
		return nil
	}
	half, way := 0.5, "half way"
	if _, err := c.Progress(ctx, claim, job.Report{Fraction: &half, Message: &way}); err != nil {
		return err
	}
	if args[1] == "ok" {
		_, err := c.Ack(ctx, claim, json.RawMessage(args[2]))
		return err
	}
	final := args[1] != "die"
	_, err = c.Fail(ctx, claim, job.Failure{Type: args[2], Message: strings.ReplaceAll(args[3], `\x1b`, "\x1b"), Retryable: &final})
	return err
}
