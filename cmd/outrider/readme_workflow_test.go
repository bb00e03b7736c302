//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// TestTheWorkflowOfREADME runs the commands word for word, but for the address.
func TestTheWorkflowOfREADME(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	url := readyURL(t, p.stdout)
	script := strings.ReplaceAll(block(t, "Workflows", "sh"), "http://127.0.0.1:8080", url)
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput()
	if err != nil || strings.Count(string(out), `"state":"running"`) < 2 {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.Workflows(t.Context(), job.WorkflowFilter{})
	if err != nil || page.Total != 1 || page.Workflows[0].Name != "order-42" || page.Workflows[0].Total != 2 {
		t.Errorf("there are %+v, %v", page, err)
	}
	p.signal(t)
	p.end(t, 20*time.Second)
}
