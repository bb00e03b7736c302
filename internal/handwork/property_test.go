//go:build unix

package handwork

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// things that a script may do before it ends; none of them changes what becomes of the job.
var things = []string{
	"echo text", `echo '{"a":1}'`, "echo error >&2", "head -c 70000 /dev/zero", "head -c 70000 /dev/urandom >&2", "printf '\\377\\000'",
	"sleep 300 &", "(trap '' TERM; sleep 300 & sleep 300) &", "exec 0<&-", "exec 1>&-", "exec 2>&-", "cat >/dev/null", "read -r line", "trap '' TERM INT HUP PIPE",
	"cd /", "unset OJS_JOB_ID", "yes | head -n 1000", "ulimit -n 64", "umask 777", "(exit 65)", "kill -TERM $(sh -c 'echo $$') 2>/dev/null",
}

// TestAJobEndsAsTheTableSays: whatever else its script does.
func TestAJobEndsAsTheTableSays(t *testing.T) {
	t.Parallel()
	w, dir, n := newWorld(t), t.TempDir(), 0
	_, stop := w.work(t, Options{Mappings: execs(t, `p.run=read -r a; a=${a#??}; exec /bin/sh "${a%??}"`)})
	rapid.Check(t, func(rt *rapid.T) {
		code := rapid.OneOf(rapid.SampledFrom([]int{0, 65, 75, 1, 2, 64, 127, 128, 255}), rapid.IntRange(0, 255)).Draw(rt, "code")
		signal := rapid.SampledFrom([]string{"", "", "", "KILL", "SEGV", "ABRT", "USR1"}).Draw(rt, "signal")
		excluded := rapid.IntRange(0, 4).Draw(rt, "excluded") == 0
		body := append(rapid.SliceOfN(rapid.SampledFrom(things), 0, 5).Draw(rt, "things"), fmt.Sprintf("exit %d", code))
		kind := fmt.Sprintf("exit_%d", code)
		if signal != "" {
			body = append(body[:len(body)-1], "kill -"+signal+" $$", "sleep 300")
			kind = "signal_" + strings.ToLower(signal)
		}
		want := job.Retryable
		switch {
		case signal == "" && code == 0:
			want = job.Completed
		case signal == "" && code == exitDataErr, excluded:
			want = job.Discarded
		}
		policy := later
		if excluded {
			policy = strings.Replace(later, "{", `{"non_retryable_errors":["`+kind+`"],`, 1)
		}
		n++
		path := filepath.Join(dir, fmt.Sprint(n, ".sh"))
		if err := os.WriteFile(path, []byte(strings.Join(body, "\n")+"\n"), 0o600); err != nil {
			rt.Fatal(err)
		}
		id := w.push(t, job.Envelope{Type: "p.run", Args: json.RawMessage(fmt.Sprintf("[%q]", path)), Retry: json.RawMessage(policy)})
		j := w.await(t, id, tried)
		if j.State != want || want != job.Completed && member(j, "type") != kind {
			rt.Fatalf("is %s with %s, want %s with %s", j.State, j.Error, want, kind)
		}
	})
	stop()
	if left := marked(t, w.marker); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}
