//go:build unix

package handwork

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// later is a retry policy under which a job waits for its next attempt until the test is over.
const later = `{"max_attempts":3,"initial_interval":"PT1H","max_interval":"PT1H","jitter":false}`

// TestHowACommandEnds is the table of docs/work.md.
func TestHowACommandEnds(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain.sh")
	if err := os.WriteFile(plain, []byte("echo never\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	cases := []struct {
		name, command string
		more          job.Envelope
		state         job.State
		want          string // the result, or the type of the error
		says          string // in the message of the error
	}{
		{"nothing printed", "true", job.Envelope{}, job.Completed, "", ""},
		{"JSON", `echo '{"a": [1, 2.50]}'`, job.Envelope{}, job.Completed, `{"a": [1, 2.50]}`, ""},
		{"a JSON string", `echo '"hi"'`, job.Envelope{}, job.Completed, `"hi"`, ""},
		{"text", "echo hello; echo", job.Envelope{}, job.Completed, `"hello"`, ""},
		{"two JSON values", "echo 1; echo 2", job.Envelope{}, job.Completed, `"1\n2"`, ""},
		{"no number in JSON", "echo 007", job.Envelope{}, job.Completed, `"007"`, ""},
		{"JSON that is too deep", "echo '" + deep + "'", job.Envelope{}, job.Completed, `"` + deep + `"`, ""},
		{"zero bytes", `printf 'a\000b'`, job.Envelope{}, job.Completed, `"a\u0000b"`, ""},
		{"no UTF-8", `printf 'a\377\376\303'`, job.Envelope{}, job.Completed, "\"a\uFFFD\uFFFD\uFFFD\"", ""},
		{"markup", `printf '<a&b>'`, job.Envelope{}, job.Completed, `"<a&b>"`, ""},
		{"as much as is kept", "head -c 65536 /dev/zero | tr '\\0' x", job.Envelope{}, job.Completed, `"` + x(65536) + `"`, ""},
		{"a byte more", "head -c 65537 /dev/zero | tr '\\0' x", job.Envelope{}, job.Completed, `"` + x(65536) + `… (cut by the worker: 65537 bytes)"`, ""},
		{"far too much", "head -c 5000000 /dev/zero | tr '\\0' x", job.Envelope{}, job.Completed, `"` + x(65536) + `… (cut by the worker: 5000000 bytes)"`, ""},
		{"the args", "cat", job.Envelope{Args: json.RawMessage("[ 1,\n\"a b\",9007199254740993 ]")}, job.Completed, `[1,"a b",9007199254740993]`, ""},
		{"one line", "read -r a; echo \"$a\"; cat | wc -c", job.Envelope{Args: json.RawMessage("[1,\n2]")}, job.Completed, `"[1,2]\n0"`, ""},
		{"args that nobody reads", "echo 1", job.Envelope{Args: json.RawMessage(`["` + x(900_000) + `"]`)}, job.Completed, `1`, ""},
		{"input closed", "exec 0<&-; sleep 0.1; echo 1", job.Envelope{Args: json.RawMessage(`["` + x(900_000) + `"]`)}, job.Completed, `1`, ""},
		{"all closed", "exec 0<&- 1>&- 2>&-; sleep 0.1", job.Envelope{}, job.Completed, ``, ""},
		{"output held by a child", "sleep 300 & echo 1", job.Envelope{}, job.Completed, `1`, ""},
		{"output held by a child that has left", "setsid sleep 3 & sleep 0.2; echo 1", job.Envelope{}, job.Completed, `1`, ""},
		{"stderr beside success", "echo bad >&2; echo 1", job.Envelope{}, job.Completed, `1`, ""},

		{"exit 1", "echo one >&2; printf 'two\n\n' >&2; exit 1", job.Envelope{}, job.Retryable, "exit_1", "the command ended with exit code 1: two"},
		{"exit 255", "exit 255", job.Envelope{}, job.Retryable, "exit_255", "the command ended with exit code 255"},
		{"exit 1 of the last attempt", "exit 1", job.Envelope{Retry: json.RawMessage(`{"max_attempts":1}`)}, job.Discarded, "exit_1", ""},
		{"exit 1, which the policy excludes", "exit 1", job.Envelope{Retry: json.RawMessage(`{"max_attempts":3,"non_retryable_errors":["exit_1"]}`)}, job.Discarded, "exit_1", ""},
		{"75", "echo busy >&2; exit 75", job.Envelope{}, job.Retryable, "exit_75", "exit code 75: busy"},
		{"75, where the policy excludes others", "exit 75", job.Envelope{Retry: json.RawMessage(strings.Replace(later, "{", `{"non_retryable_errors":["exit_7","exit_1"],`, 1))}, job.Retryable, "exit_75", ""},
		{"65", "echo wrong >&2; exit 65", job.Envelope{}, job.Discarded, "exit_65", "exit code 65: wrong"},
		{"65, kept as a dead letter", "exit 65", job.Envelope{Retry: json.RawMessage(`{"on_exhaustion":"dead_letter"}`)}, job.Discarded, "exit_65", ""},
		{"killed", "kill -9 $$", job.Envelope{}, job.Retryable, "signal_kill", "the command was ended by SIGKILL"},
		{"crashed", "echo oops >&2; kill -SEGV $$", job.Envelope{}, job.Retryable, "signal_segv", "ended by SIGSEGV: oops"},
		{"terminated by another", "kill $$", job.Envelope{}, job.Retryable, "signal_term", "SIGTERM"},
		{"no such file", "/nowhere/x.sh", job.Envelope{}, job.Retryable, "exit_127", "not found"},
		{"not executable", plain, job.Envelope{}, job.Retryable, "exit_126", "ermission denied"},
		{"what a terminal would obey", `printf 'a\033[31mb\007\r\n' >&2; exit 3`, job.Envelope{}, job.Retryable, "exit_3", "exit code 3: a [31mb"},
		{"errors that are no UTF-8", `printf '\377\376' >&2; exit 3`, job.Envelope{}, job.Retryable, "exit_3", "\uFFFD\uFFFD"},
		{"many errors", `i=0; while [ $i -lt 3000 ]; do echo "line $i é" >&2; i=$((i+1)); done; exit 4`, job.Envelope{}, job.Retryable, "exit_4", "line 2999 é"},
		{"a long line", `head -c 100000 /dev/zero | tr '\0' y >&2; exit 4`, job.Envelope{}, job.Retryable, "exit_4", "yyy…"},

		{"a time limit", "echo slow >&2; sleep 300", job.Envelope{Timeout: time.Second}, job.Retryable, "timeout", "longer than the job's time limit and was stopped: slow"},
		{"a time limit, and exit 0", "trap 'exit 0' TERM; sleep 300 & wait", job.Envelope{Timeout: time.Second}, job.Retryable, "timeout", ""},
		{"a time limit, and exit 65", "trap 'exit 65' TERM; sleep 300 & wait", job.Envelope{Timeout: time.Second}, job.Retryable, "timeout", ""},
		{"SIGTERM ignored by all", "trap '' TERM; (sleep 300; sleep 300) & sleep 300; sleep 300", job.Envelope{Timeout: time.Second}, job.Retryable, "timeout", ""},
		{"stopped", "kill -STOP $$", job.Envelope{Timeout: time.Second}, job.Retryable, "timeout", ""},
	}
	w := newWorld(t)
	var mapped []string
	ids := make([]job.ID, len(cases))
	for i, c := range cases {
		c.more.Type = fmt.Sprintf("t.case%d", i)
		mapped = append(mapped, c.more.Type+"="+c.command)
		if c.more.Retry == nil {
			c.more.Retry = json.RawMessage(later)
		}
		ids[i] = w.push(t, c.more)
	}
	lines, stop := w.work(t, Options{Mappings: execs(t, mapped...), Concurrency: 8})
	for i, c := range cases {
		j := w.await(t, ids[i], tried)
		if j.State != c.state {
			t.Errorf("%s: is %s, want %s: %s", c.name, j.State, c.state, j.Error)
			continue
		}
		if c.state == job.Completed {
			if got := string(j.Result); got != c.want {
				t.Errorf("%s: result %.200q, want %.200q", c.name, got, c.want)
			}
			continue
		}
		if got := member(j, "type"); got != c.want {
			t.Errorf("%s: error type %q, want %q", c.name, got, c.want)
		}
		contains(t, c.name, member(j, "message"), c.says)
		if len(j.Error) > 12<<10 || len(member(j, "message")) > 500 {
			t.Errorf("%s: an error of %d bytes is kept", c.name, len(j.Error))
		}
		if j.Dead != strings.Contains(string(c.more.Retry), "dead_letter") {
			t.Errorf("%s: dead letter %v", c.name, j.Dead)
		}
	}
	n := stop()
	if sum := n.Completed + n.Retried + n.Discarded + n.Dropped; sum != len(cases) {
		t.Errorf("%+v of %d jobs:\n%s", n, len(cases), lines)
	}
	if left := marked(t, w.marker); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}
