// Command workflow charges an order, packs its parts at the same time, and ships it:
// three steps, of which each has the results of those before it. It starts the workflow
// and works on it until that has ended.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "address of the job server")
	flag.Parse()
	if err := run(context.Background(), *server); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server string) error {
	s, err := client.New(server, client.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	do := func(id, kind, args string) job.Step {
		return job.Do(id, job.Envelope{Type: kind, Queue: "orders", Args: json.RawMessage(args)})
	}
	w, _, err := s.StartWorkflow(ctx, job.Chain("order-42",
		do("charge", "order.charge", `[42]`),
		job.Inside("pack", job.Group("", do("pens", "order.pack", `["pens"]`), do("ink", "order.pack", `["ink"]`))),
		do("ship", "order.ship", `[42]`),
	))
	if err != nil {
		return err
	}
	for w.State == job.WorkflowRunning {
		jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{"orders"}, Worker: "example"})
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			return fmt.Errorf("workflow %s runs, and there is no job of it", w.ID)
		}
		j := jobs[0]
		fmt.Printf("%s %s, after %s\n", j.Flow.Step, j.Args, j.ParentResults)
		result := json.RawMessage(fmt.Sprintf("%q", j.Flow.Step+" is done"))
		if _, err := s.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, result); err != nil {
			return err
		}
		if w, err = s.Workflow(ctx, w.ID); err != nil {
			return err
		}
	}
	fmt.Printf("%s %s\n", w.Name, w.State)
	return nil
}
