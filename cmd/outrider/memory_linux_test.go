//go:build !race

package main

import (
	"fmt"
	"testing"
)

// A server that is as busy as it can be holds what its work needs and a bounded amount
// of garbage: what is in use for a moment, as many large FETCHes and batches at once, is
// not followed by a multiple of itself. How many jobs are stored makes no difference.
func TestABusyServerHoldsLittle(t *testing.T) {
	const most = 120 << 20
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t))
	url := readyURL(t, p.stdout)
	for _, workload := range []string{"ack", "batch"} { // ack fetches 100 jobs a request before
		rep, _ := benchReport(t, fmt.Sprintf("-n 40000 --duration 20s --workload %s --url", workload), url)
		if rep.Server == nil || rep.Server.PeakRSS > most {
			t.Fatalf("after %s: %+v", workload, rep.Server)
		}
		t.Logf("after %s: %d MB held, %d MB at most", workload, rep.Server.RSS>>20, rep.Server.PeakRSS>>20)
	}
}
