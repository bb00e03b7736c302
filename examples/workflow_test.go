package examples_test

import (
	"path/filepath"
	"testing"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func TestWorkflow(t *testing.T) {
	t.Parallel()
	at := start(t, program("outrider"), "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "outrider.db"), "--log-level", "warn").address(t)
	must(t, try(t, program("workflow"), "-server", at))
	s, err := client.New(at, client.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	page, err := s.Workflows(t.Context(), job.WorkflowFilter{State: job.WorkflowCompleted})
	if err != nil || page.Total != 1 || page.Workflows[0].Completed != 3 {
		t.Fatalf("there are %+v, %v", page, err)
	}
	jobs, err := s.Jobs(t.Context(), job.Filter{Type: "order.ship"})
	if err != nil || len(jobs.Jobs) != 1 || string(jobs.Jobs[0].ParentResults) != `["charge is done",["pack.pens is done","pack.ink is done"]]` {
		t.Errorf("it was shipped as %+v, %v", jobs, err)
	}
}
