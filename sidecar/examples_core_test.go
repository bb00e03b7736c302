package sidecar_test

import "testing"

// ojs-core.md §13.1 to §13.6: a job is pushed as the document prints it, runs as
// the document says, and then looks as the document says. Where the document
// prints a job only as it is at the end, that very envelope is pushed: what is
// the server's in it must be ignored (§5.3).
func TestExamplesOfEnvelopes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, pushed, want string
		first              string   // the state after the push
		ends               string   // how each attempt ends: a for ack, f for fail
		more               []string // what our answer has beside (contract §2.1)
	}{
		{"13.1 minimal", "core-13.1", "core-13.1-2", "available", "", []string{"max_attempts"}},
		{"13.2 every optional attribute", "core-13.2", "core-13.2-2", "scheduled", "", []string{"max_attempts", "timeout_ms"}},
		{"13.3 completed", "core-13.3", "core-13.3", "available", "a", []string{"max_attempts", "timeout_ms"}},
		{"13.4 retryable", "core-13.4", "core-13.4", "available", "ff",
			[]string{"max_attempts", "timeout_ms", "errors", "next_retry_at", "next_attempt_at", "retry_delay_ms"}},
		{"13.5 discarded", "core-13.5", "core-13.5", "available", "fff", []string{"max_attempts", "timeout_ms", "errors", "discarded_at"}},
		{"13.6 scheduled", "core-13.6", "core-13.6-2", "scheduled", "", []string{"max_attempts"}}, // no enqueued_at: contract C-12
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) {
				want := decode(t, example(t, tt.want))
				j := d.push(example(t, tt.pushed))
				if j["state"] != tt.first {
					t.Fatalf("pushed: %v, want %s", j, tt.first)
				}
				for _, end := range tt.ends {
					if taken := d.take(j); end == 'a' {
						d.ask(200, "POST", "/ojs/v1/workers/ack", write(t, object{"job_id": taken["id"], "result": want["result"]}))
					} else {
						d.nack(taken, want["error"])
					}
				}
				if tt.ends == "" {
					d.holds(j, want, tt.more...)
				}
				d.holds(d.info(j["id"]), want, tt.more...)
				d.dead(j, false) // §13.5 too: its policy does not ask for it, contract C-11
			})
		})
	}
}

// ojs-core.md §13.7 on the job of §13.4, which it names: retryable while
// attempts remain, discarded after the fifth.
func TestExampleOfFail(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		j := d.push(example(t, "core-13.4"))
		for n := 1; n <= 5; n++ {
			d.take(j)
			d.ask(200, "POST", "/ojs/v1/workers/nack", example(t, "core-13.7"))
			after := d.info(j["id"])
			d.holds(after["error"].(object), decode(t, example(t, "core-13.7"))["error"].(object), "code", "attempt", "occurred_at")
			if want := map[bool]string{true: "retryable", false: "discarded"}[n < 5]; after["state"] != want {
				t.Errorf("after failure %d the job is %v, want %s", n, after["state"], want)
			}
		}
	})
}

// ojs-core.md §8.2: the error object is stored as it came.
func TestExampleOfAnError(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		failure := decode(t, example(t, "core-8.2"))
		j := d.push(example(t, "core-13.1"))
		d.nack(d.take(j), failure)
		d.holds(d.info(j["id"])["error"].(object), failure, "code", "attempt", "occurred_at")
	})
}

// ojs-core.md §5.2: the names of priorities.
func TestExampleOfPriorities(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		for name, want := range map[string]string{`"HIGH"`: "10", `"NORMAL"`: "0", `"LOW"`: "-10", `"high"`: "10"} {
			if j := d.push(`{"type":"a.b","args":[],"priority":` + name + `}`); write(t, j["priority"]) != want {
				t.Errorf("%s is %v, want %s", name, j["priority"], want)
			}
		}
	})
}
