package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// A handler tells of its attempt under its own claim, and goes on where an earlier one
// has stopped.
func TestHandlersTellOfTheirAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJob(1, "a.b")
		j.Checkpoint = &job.Checkpoint{State: json.RawMessage(`{"row":7}`)}
		f := newFake(j, newJob(2, "a.b"))
		o := quietly()
		o.Concurrency = 1
		w := client.NewWorker(f, o)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		w.HandleFunc("a.b", func(ctx context.Context, j *job.Job) error {
			if n++; n == 2 {
				cancel()
			}
			var at struct{ Row int }
			resumed, err := client.Resume(j, &at)
			if want := n == 1; err != nil || resumed != want || want && at.Row != 7 {
				t.Errorf("job %d: resumed %v at %+v, %v", n, resumed, at, err)
			}
			inner, stop := context.WithCancel(ctx) // as a handler passes it on
			defer stop()
			for _, err := range []error{
				client.Progress(inner, 0.5, "half"), client.Progress(inner, 0.75, ""),
				client.Checkpoint(inner, map[string]int{"row": 9}), client.Report(inner, job.Report{Data: json.RawMessage("[]")}),
			} {
				if err != nil {
					t.Error(err)
				}
			}
			if err := client.Checkpoint(inner, func() {}); job.KindOf(err) != job.Invalid {
				t.Errorf("what is no JSON: %v", err)
			}
			return nil
		})
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		var got []string
		for _, told := range f.told {
			line := fmt.Sprintf("%.36s %s %s ", told.claim.ID, told.claim.Token, told.state)
			if told.report.Fraction != nil {
				line += fmt.Sprint(*told.report.Fraction)
			}
			if told.report.Message != nil {
				line += *told.report.Message
			}
			got = append(got, line+string(told.report.Data))
		}
		var want []string
		for i, token := range []string{f.words[0].claim.Token, f.words[1].claim.Token} {
			for _, said := range []string{" 0.5half", " 0.75", `{"row":9} `, " []"} {
				want = append(want, fmt.Sprintf("%s %s %s", newJob(i+1, "").ID, token, said))
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("told\n%q\nwant\n%q", got, want)
		}
	})
	for what, err := range map[string]error{"Progress": client.Progress(t.Context(), 1, ""), "Checkpoint": client.Checkpoint(t.Context(), struct{}{})} {
		if job.KindOf(err) != job.Invalid {
			t.Errorf("%s outside of a handler: %v", what, err)
		}
	}
	broken := newJob(1, "a.b")
	broken.Checkpoint = &job.Checkpoint{State: json.RawMessage(`{"row":"x"}`)}
	var at struct{ Row int }
	if ok, err := client.Resume(broken, &at); ok || job.KindOf(err) != job.Invalid {
		t.Errorf("a checkpoint of another shape: %v, %v", ok, err)
	}
}
