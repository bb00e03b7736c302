package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryGroups is where version 1 of the memory cgroups is mounted.
const memoryGroups = "/sys/fs/cgroup/memory"

// A cage is a control group with a limit of memory, in which a server runs. What
// takes more than the limit is killed by the kernel.
type cage struct {
	t   *testing.T
	dir string
}

// newCage makes one of so many bytes. Without root or version 1 of the control
// groups there is none, and the test is skipped.
func newCage(t *testing.T, limit int64) *cage {
	t.Helper()
	c := &cage{t, filepath.Join(memoryGroups, fmt.Sprintf("outrider-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		t.Skipf("skipped: no memory control group can be made here, which needs root and version 1 of them: %v", err)
	}
	t.Cleanup(func() {
		for range 100 { // the kernel lets go of the dead a little later
			if err := os.Remove(c.dir); err == nil || errors.Is(err, os.ErrNotExist) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("the control group %s is left behind", c.dir)
	})
	if err := os.WriteFile(filepath.Join(c.dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs the program in the cage. It is a build without the race detector,
// whose own memory would be measured otherwise.
func (c *cage) start(args ...string) *process {
	c.t.Helper()
	bin := filepath.Join(c.t.TempDir(), "outrider")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("go build: %v\n%s", err, out)
	}
	enter := `echo $$ > "$0/cgroup.procs" && exec "$@"`
	p := begin(c.t, "sh", append([]string{"-c", enter, c.dir, bin}, args...)...)
	c.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// kills is how often the kernel has ended a process for its memory.
func (c *cage) kills() int {
	b, err := os.ReadFile(filepath.Join(c.dir, "memory.oom_control"))
	if err != nil {
		c.t.Fatal(err)
	}
	_, n, _ := strings.Cut(string(bytes.TrimSpace(b)), "oom_kill ")
	kills, _ := strconv.Atoi(n) // older kernels do not count: 0
	return kills
}

// held is a field of the memory of a process, as VmRSS or VmHWM, in bytes; 0 when it is gone.
func held(p *process, field string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field+":" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
