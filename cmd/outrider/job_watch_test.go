package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// TestWatchTellsWhatHappens follows jobs to each of their ends. The first line says that
// the watch has begun: what happens behind it must be told, whole and in order.
func TestWatchTellsWhatHappens(t *testing.T) {
	w := newCronWorld(t)
	for _, c := range []struct {
		how  string
		code int
		told []string
	}{
		{"ok", exitOK, []string{"started  attempt 1, worker script", "progress  50%, half way", "completed  attempt 1, took 0s", "", "result", `  {"rows":[1,2]}`}},
		{"die", exitFailed, []string{"started  attempt 1, worker script", "progress  50%, half way", "failed  attempt 1, took 0s, Broken: no \\x1b[31m way", "discarded"}},
		{"cancel", exitFailed, []string{"cancelled"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			rs, err := w.side.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: c.how, Args: []byte("[]")})
			if err != nil {
				t.Fatal(err)
			}
			stdout := newLines()
			code := make(chan int, 1)
			a := &app{env: environment([]string{"OUTRIDER_URL=" + w.url}), stdout: stdout, stderr: &strings.Builder{}, clock: func() time.Time { return w.now }}
			go func() {
				code <- a.run(t.Context(), []string{"job", "watch", string(rs[0].ID)})
				stdout.Close()
			}()
			stdout.until(t, "a.b in queue "+c.how+", attempt 0/3: available, now")
			if c.how == "cancel" {
				_, err = w.side.Cancel(t.Context(), rs[0].ID, "", "")
			} else {
				args := map[string][]string{"ok": {"ok", "ok", `{"rows":[1,2]}`}, "die": {"die", "die", "Broken", "no \x1b[31m way"}}[c.how]
				err = works(w.url, args)
			}
			if err != nil {
				t.Fatal(err)
			}
			told := stdout.rest()
			for i, line := range strings.Split(told, "\n") {
				if at := w.now.Local().Format(time.TimeOnly) + "  "; i >= len(c.told) || strings.TrimPrefix(line, at) != c.told[i] {
					t.Fatalf("line %d is %q; all of it:\n%s", i, line, told)
				}
			}
			if got := <-code; got != c.code {
				t.Errorf("exit %d, want %d", got, c.code)
			}
		})
	}
}

// TestListsShowWhatAModelSays lists random jobs by random filters, page by page, and
// compares with what a plain loop over all of them finds.
func TestListsShowWhatAModelSays(t *testing.T) {
	w := newCronWorld(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	types, queues := []string{"email.send", "email.digest", "report.make"}, []string{"a", "b"}
	type made struct {
		id, kind, queue, state, word, tag string
		number                            int
	}
	var all []made
	for i := range 60 {
		m := made{kind: types[r.IntN(3)], queue: queues[r.IntN(2)], word: fmt.Sprint("w", r.IntN(3)), number: r.IntN(3), tag: fmt.Sprint("t", r.IntN(2)), state: "available"}
		e := job.Envelope{Type: m.kind, Queue: m.queue, Args: fmt.Appendf(nil, `[{"to":{"word":%q}},%d.0]`, m.word, m.number), Extra: fmt.Appendf(nil, `{"tags":[%q]}`, m.tag)}
		rs, err := w.side.Enqueue(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		m.id = string(rs[0].ID)
		if i%4 == 0 {
			m.state = "cancelled"
			if _, err := w.side.Cancel(t.Context(), rs[0].ID, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		all = append([]made{m}, all...) // the newest first
	}
	for range 60 {
		args, takes := []string{"job", "ls", "-o", "ndjson"}, []func(made) bool{}
		add := func(flag, value string, take func(made) bool) {
			if r.IntN(3) == 0 {
				args, takes = append(args, flag, value), append(takes, take)
			}
		}
		kind, queue, word, tag, n := types[r.IntN(3)], queues[r.IntN(2)], fmt.Sprint("w", r.IntN(3)), fmt.Sprint("t", r.IntN(2)), r.IntN(3)
		add("--type", kind, func(m made) bool { return m.kind == kind })
		add("--type", "email.*", func(m made) bool { return strings.HasPrefix(m.kind, "email.") })
		if len(takes) == 2 {
			takes = takes[1:] // a flag that is given twice holds the second value
		}
		add("--queue", queue, func(m made) bool { return m.queue == queue })
		add("--state", "cancelled,discarded", func(m made) bool { return m.state == "cancelled" })
		add("--arg", "to.word="+word, func(m made) bool { return m.word == word })
		add("--arg", fmt.Sprint("1=", n), func(m made) bool { return m.number == n })
		add("--arg", fmt.Sprint(n), func(m made) bool { return m.number == n })
		add("--tag", tag, func(m made) bool { return m.tag == tag })
		limit := 1 + r.IntN(70)
		args = append(args, "--limit", fmt.Sprint(limit))
		var want []string
		for _, m := range all {
			takesAll := len(want) < limit
			for _, take := range takes {
				takesAll = takesAll && take(m)
			}
			if takesAll {
				want = append(want, m.id)
			}
		}
		o := try(t, []string{"OUTRIDER_URL=" + w.url}, args...)
		var got []string
		for line := range strings.Lines(o.stdout) {
			got = append(got, anID.FindString(line))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || o.code != exitOK {
			t.Fatalf("seed %d, %q: got %d jobs, want %d: %v, %v %s", seed, args, len(got), len(want), got, want, o.stderr)
		}
	}
}
