package sidecar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A job whose policy says nothing of its end becomes what the server says, of
// its queue first; what a policy says itself, and a handler's word, stand.
func TestOnExhaustionOfTheServer(t *testing.T) {
	t.Parallel()
	const bury, drop = job.OnExhaustionDeadLetter, job.OnExhaustionDiscard
	for _, tt := range []struct {
		rules job.Rules
		retry string
		code  string
		dead  bool
	}{
		{job.Rules{}, ``, "", false}, {job.Rules{}, `{"on_exhaustion":"dead_letter"}`, "", true},
		{job.Rules{OnExhaustion: bury}, ``, "", true}, {job.Rules{OnExhaustion: bury}, `{"initial_interval":"PT2S"}`, "", true},
		{job.Rules{OnExhaustion: bury}, `{"on_exhaustion":"discard"}`, "", false}, {job.Rules{OnExhaustion: bury}, `{"onExhaustion":"discard"}`, "", false},
		{job.Rules{OnExhaustion: bury}, ``, "DISCARD", false}, {job.Rules{OnExhaustion: bury}, ``, "FAIL", false}, {job.Rules{}, ``, "DEAD_LETTER", true},
		{job.Rules{OnExhaustionOf: map[string]string{mail: bury}}, ``, "", true}, {job.Rules{OnExhaustionOf: map[string]string{"other": bury}}, ``, "", false},
		{job.Rules{OnExhaustion: bury, OnExhaustionOf: map[string]string{mail: drop}}, ``, "", false},
		{job.Rules{OnExhaustion: drop, OnExhaustionOf: map[string]string{mail: bury}}, ``, "", true},
	} {
		w := newWorld(t, Retention{})
		w.o.Rules = tt.rules
		push := func() *job.Job {
			return w.push(func(e *job.Envelope) {
				e.Visibility = time.Second
				if tt.retry != "" {
					e.Retry = json.RawMessage(tt.retry)
				}
			})
		}
		final := false
		failed := push()
		w.fail(w.take("", 0), job.Failure{Code: tt.code, Message: "no", Retryable: &final})
		if got := w.read(failed.ID); got.State != job.Discarded || got.Dead != tt.dead {
			t.Errorf("%+v: %s, dead %v", tt, got.State, got.Dead)
		}
		if tt.code != "" {
			continue
		}
		silent := push()
		for w.read(silent.ID).State != job.Discarded {
			if w.read(silent.ID).State == job.Available {
				w.take("", 0)
			}
			w.pass(10 * time.Second)
		}
		if got := w.read(silent.ID); got.Dead != tt.dead {
			t.Errorf("%+v, lost for the last time: dead %v", tt, got.Dead)
		}
	}
}

// What has failed for good is in the log, with what is needed to run it again
// and nothing of its args. What merely expired is not: nothing has failed.
func TestFinalFailuresAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, Retention{})
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	secret := func(e *job.Envelope) { e.Args = json.RawMessage(`["a secret"]`) }
	final := false
	for _, tt := range []struct {
		f    job.Failure
		want []string
	}{
		{job.Failure{Type: "net.refused", Message: "a secret", Retryable: &final}, []string{"level=WARN", "error_type=net.refused", "dead_letter=false"}},
		{job.Failure{Type: "net.refused", Code: "DEAD_LETTER"}, []string{"level=WARN", "dead_letter=true"}},
		{job.Failure{Type: "net.refused", Code: "DISCARD"}, []string{"level=INFO"}},
		{job.Failure{Type: "net.refused", Message: "once more"}, nil},
	} {
		log.Reset()
		w.push(secret)
		j := w.take("", 0)
		w.fail(j, tt.f)
		said := log.String()
		if tt.want != nil {
			tt.want = append(tt.want, "failed for good", "job="+string(j.ID), "type="+j.Type, "queue="+j.Queue, "attempts=1", fmt.Sprintf("/ojs/v1/admin/jobs/%s/retry", j.ID))
		} else if said != "" {
			t.Errorf("of a failure that is retried: %s", said)
		}
		for _, part := range tt.want {
			if !strings.Contains(said, part) {
				t.Errorf("%+v: %q is not in %s", tt.f, part, said)
			}
		}
		if strings.Contains(said, "secret") {
			t.Errorf("the log says %s", said)
		}
	}
	log.Reset()
	w.push(func(e *job.Envelope) { e.TTL, e.Queue = time.Second, "unrun" })
	w.pass(2 * time.Second)
	if said := log.String(); strings.Contains(said, "for good") {
		t.Errorf("of an expired job: %s", said)
	}
}
