package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// TestWorkers holds what the commands about workers print, word for word.
func TestWorkers(t *testing.T) {
	w := newCronWorld(t)
	var b strings.Builder
	play := func(args ...string) {
		var out, wrong bytes.Buffer
		a := &app{env: environment([]string{"OUTRIDER_URL=" + w.url}), stdout: &out, stderr: &wrong, clock: func() time.Time { return w.now }}
		code := a.run(t.Context(), append([]string{"worker"}, args...))
		fmt.Fprintf(&b, "$ outrider worker %s\n%s%sexit %d\n\n", strings.Join(args, " "), out.String(), wrong.String(), code)
	}
	play("ls")
	for _, i := range []job.WorkerInfo{{ID: "web-1/a b", Hostname: "one", State: "running"}, {ID: "web-2\x1b[31m", Active: 3}} {
		if _, err := w.side.Beat(t.Context(), job.Beat{Worker: i}); err != nil {
			t.Fatal(err)
		}
	}
	play("quiet", "web-1/a b")
	play("ls")
	play("terminate", "--all")
	play("ls")
	play("resume", "--all", "-o", "json")
	play("ls")
	play("quiet", "nobody")
	play("quiet")
	play("quiet", "a", "b")
	play("quiet", "a", "--all")
	play("stop", "a")
	golden(t, "testdata/workers.golden", b.String())
}
