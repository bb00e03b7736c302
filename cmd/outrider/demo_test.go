//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The demo checks itself; here its words are checked too.
func TestDemo(t *testing.T) {
	out := demoProcess(t, nil, "--orders", "8")
	for _, want := range []string{
		"6 orders committed, 6 jobs completed, one to one; 2 rolled back, no job",
		"order 3 started again, attempt 2",
		"outbox init sqlite:./shop.db",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo did not say %q:\n%s", want, out)
		}
	}
}

// The server is killed at 20 random points of the demo and started again; the
// demo's own check, committed orders against completed jobs, must still hold.
func TestDemoSurvivesKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	var hit atomic.Int32
	t.Run("points", func(t *testing.T) {
		for i := range 20 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				after := time.Duration(r.Int64N(int64(700 * time.Millisecond)))
				t.Logf("seed %d, killed after %s", seed, after)
				if killedDemo(t, after) {
					hit.Add(1)
				}
			})
		}
	})
	if n := hit.Load(); n < 10 {
		t.Errorf("only %d of 20 servers were killed before the demo was over: the demo is too short for this test", n)
	}
}

// killedDemo kills the first server of a demo some time after it is up, and
// says whether the demo was still going on then.
func killedDemo(t *testing.T, after time.Duration) bool {
	t.Helper()
	var timer *time.Timer
	out := demoProcess(t, func(pid int) {
		if timer == nil {
			timer = time.AfterFunc(after, func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // one that is over needs no kill
		}
	}, "--orders", "200")
	timer.Stop()
	if !strings.Contains(out, "150 orders committed, 150 jobs completed, one to one; 50 rolled back, no job") {
		t.Errorf("the check does not hold:\n%s", out)
	}
	return strings.Contains(out, "was killed (signal: killed)")
}

var serverLine = regexp.MustCompile(`process (\d+) serves`)

// demoProcess runs the demo in a process of its own and returns what it said.
// served is told the process id of every server it starts.
func demoProcess(t *testing.T, served func(pid int), args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram)
	var said, stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(stdout); s.Scan(); {
		fmt.Fprintln(&said, s.Text())
		if m := serverLine.FindStringSubmatch(s.Text()); m != nil && served != nil {
			pid, _ := strconv.Atoi(m[1])
			served(pid)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo failed: %v\n%s\n%s", err, said.String(), stderr.String())
	}
	return said.String()
}
