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
				// The demo of 60 orders says some 100 things while orders and jobs are on their way.
				point := rand.New(rand.NewPCG(seed, uint64(i))).IntN(90)
				t.Logf("seed %d, killed %d lines after the server was up", seed, point)
				if killedDemo(t, point) {
					hit.Add(1)
				}
			})
		}
	})
	if n := hit.Load(); n < 10 {
		t.Errorf("only %d of 20 demos were still going on when their server was killed", n)
	}
}

// killedDemo runs a demo whose first server is killed when so many lines have
// been said after it was up. It says whether the demo had to start another.
func killedDemo(t *testing.T, point int) bool {
	t.Helper()
	pid, since := 0, 0
	out := demoProcess(t, func(line string) {
		if m := serverLine.FindStringSubmatch(line); m != nil && pid == 0 {
			pid, _ = strconv.Atoi(m[1])
		}
		if pid == 0 {
			return
		}
		if since == point {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("kill: %v", err)
			}
		}
		since++
	}, "--orders", "60")
	if !strings.Contains(out, "45 orders committed, 45 jobs completed, one to one; 15 rolled back, no job") {
		t.Errorf("the check does not hold:\n%s", out)
	}
	return strings.Contains(out, "was killed (signal: killed)")
}

var serverLine = regexp.MustCompile(`process (\d+) serves`)

// demoProcess runs the demo in a process of its own and returns what it said.
// each is called with every line as it comes.
func demoProcess(t *testing.T, each func(line string), args ...string) string {
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
		if each != nil {
			each(s.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo failed: %v\n%s\n%s", err, said.String(), stderr.String())
	}
	return said.String()
}
