package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestEnqueue holds what the command prints, word for word but for ids.
func TestEnqueue(t *testing.T) {
	w := newCronWorld(t)
	var b strings.Builder
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|req_\S+`)
	play := func(stdin string, args ...string) {
		var out, wrong bytes.Buffer
		a := &app{env: environment([]string{"OUTRIDER_URL=" + w.url}), stdin: strings.NewReader(stdin), stdout: &out, stderr: &wrong, clock: time.Now}
		code := a.run(t.Context(), append([]string{"enqueue"}, args...))
		fmt.Fprintf(&b, "$ outrider enqueue %s\n%s%sexit %d\n\n", strings.Join(args, " "), id.ReplaceAllString(out.String(), "ID"), id.ReplaceAllString(wrong.String(), "ID"), code)
	}
	play("", "email.send")
	play("", "email.send", `["ada@example.com", 1e2]`, "--queue", "mail", "--priority", "7", "--delay", "PT5M")
	play(`{"type":"email.send","args":[],"options":{"job_id":"mine"}}`, "--file", "-")
	play(`{"type":"email.send","args":[],"options":{"job_id":"mine"}}`, "--file", "-")
	play(`{"jobs":[{"type":"a.b","args":[]},{"type":"a.c","args":[]}]}`, "--file", "-")
	play(`{"type":"chain","name":"n","steps":[{"type":"a.one","args":[]},{"type":"a.two","args":[]}]}`, "--file", "-")
	play(`{"type":"group","jobs":[{"type":"a.one","args":[]}]}`, "--file", "-")
	play(`{"steps":[{"id":"charge","type":"a.one","args":[]},{"id":"ship","type":"a.two","args":[],"depends_on":["chrage"]}]}`, "--file", "-")
	play(`{"type":`, "--file", "-")
	play("")
	play("", "email.send", "ada@example.com", "17", "007")
	play("", "email.send", `{"to":1}`)
	play("", "email.send", `["a"`)
	play("", "email.send", `["a"]`, "b")
	play("", "email.send", "--file", "-")
	play("", "Email")
	play("", "email.send", "--priority", "500")
	golden(t, "testdata/enqueue.golden", b.String())
	page := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(page, []byte(`{"type":"from.file","args":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if play("", "--file", page); !strings.Contains(b.String(), "from.file in the queue default, available\nexit 0") {
		t.Error(b.String())
	}
}
