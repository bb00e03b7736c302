package sidecar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// guarded is a sidecar with middleware: names and functions in turn.
func guarded(t *testing.T, ms ...any) *sidecar.Sidecar {
	t.Helper()
	var c sidecar.Chain
	for i := 0; i < len(ms); i += 2 {
		if err := c.Add(ms[i].(string), ms[i+1].(func(context.Context, *job.Envelope, sidecar.EnqueueFunc) error)); err != nil {
			t.Fatal(err)
		}
	}
	return sidecar.New(openStore(t), sidecar.Options{Middleware: &c})
}

func plain() job.Envelope { return job.Envelope{Type: "email.send", Args: json.RawMessage(`[1]`)} }

// stored is how many jobs there are.
func stored(t *testing.T, s *sidecar.Sidecar) int64 {
	t.Helper()
	p, err := s.Jobs(t.Context(), job.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Total
}

func through(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
	return next(ctx, e)
}

func TestMiddlewareRunsInOrderAndChangesTheJob(t *testing.T) {
	t.Parallel()
	type key struct{}
	var trace []string
	note := func(ctx context.Context, name string, e *job.Envelope) {
		trace = append(trace, fmt.Sprintf("%s %v %s %t", name, ctx.Value(key{}), e.Meta, job.ValidID(string(e.ID))))
	}
	s := guarded(t, "outer", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		note(ctx, "in", e)
		e.Meta = json.RawMessage(`{"tenant":"a"}`)
		err := next(context.WithValue(ctx, key{}, 1), e)
		note(ctx, "out", e)
		e.Meta = json.RawMessage(`{"too":"late"}`)
		return err
	}, "inner", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		note(ctx, "inner", e)
		other := *e // it may also let another envelope pass
		other.Queue, other.Priority = "mail", 7
		return next(ctx, &other)
	})
	given := []job.Envelope{plain()}
	rs, err := s.Enqueue(t.Context(), given...)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"in <nil>  true", `inner 1 {"tenant":"a"} true`, `out <nil> {"tenant":"a"} true`}; !reflect.DeepEqual(trace, want) {
		t.Errorf("got %q, want %q", trace, want)
	}
	j, err := s.Job(t.Context(), rs[0].ID)
	if err != nil || string(j.Meta) != `{"tenant":"a"}` || j.Queue != "mail" || j.Priority != 7 {
		t.Errorf("got %+v, %v", j, err)
	}
	if !reflect.DeepEqual(given[0], plain()) {
		t.Errorf("the caller's envelope became %+v", given[0])
	}
}

// TestMiddlewareWritesIntoRawJSON: what a middleware writes into the JSON itself
// before next is a change as any other, and what it writes after next is none.
func TestMiddlewareWritesIntoRawJSON(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write   func(args []byte)
		before  bool
		want    string
		refused bool
	}{
		"before next":          {func(args []byte) { args[1] = '2' }, true, `[2]`, false},
		"invalid, before next": {func(args []byte) { args[0] = 'x' }, true, ``, true},
		"after next":           {func(args []byte) { args[1] = '2' }, false, `[1]`, false},
	} {
		for place, others := range map[string][]any{"the first": {"last", through}, "the last": nil} {
			ms := append([]any{"writer", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
				if tt.before {
					tt.write(e.Args)
				}
				err := next(ctx, e)
				if !tt.before {
					tt.write(e.Args)
				}
				return err
			}}, others...)
			if place == "the last" {
				ms = append([]any{"first", through}, ms...)
			}
			s := guarded(t, ms...)
			c, err := plain().Check()
			if err != nil {
				t.Fatal(err)
			}
			rs, err := s.EnqueueChecked(t.Context(), c)
			if tt.refused {
				refusedBy(t, name+", "+place, err, job.Invalid, "args must be a JSON array: the JSON is not valid at byte 1: invalid character 'x' looking for beginning of value", "writer")
				continue
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", name, place, err)
			}
			j, err := s.Job(t.Context(), rs[0].ID)
			if err != nil || string(j.Args) != tt.want {
				t.Errorf("%s, %s: stored %s, %v", name, place, j.Args, err)
			}
			if e := c.Envelope(); string(e.Args) != `[1]` {
				t.Errorf("%s, %s: the caller's args became %s", name, place, e.Args)
			}
		}
	}
}

// A guard is a middleware in a test's table.
type guard = func(context.Context, *job.Envelope, sidecar.EnqueueFunc) error

func says(err error) guard {
	return func(context.Context, *job.Envelope, sidecar.EnqueueFunc) error { return err }
}

func wrapping(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
	if err := next(ctx, e); err != nil {
		return fmt.Errorf("outer: %w", err)
	}
	return nil
}

func hiding(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
	_ = next(ctx, e)
	return nil
}

func regretting(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
	return errors.Join(next(ctx, e), errors.New("after all, no"))
}

func renaming(id job.ID) guard {
	return func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		e.ID = id
		return next(ctx, e)
	}
}

var errTemplate = &job.Error{Kind: job.Invalid, Message: "no such template", Details: map[string]any{"field": "args"}}

const noReason = "it did not let the job pass and gave no reason"

// refusals are two guards each, and what comes of them.
var refusals = []struct {
	name         string
	outer, inner guard
	kind         job.Kind
	message      string
	by           string
}{
	{"an error", through, says(errors.New("closed on Sundays")), job.Rejected, "closed on Sundays", "inner"},
	{"an error of the first", says(errors.New("closed on Sundays")), through, job.Rejected, "closed on Sundays", "outer"},
	{"an error that is wrapped on its way out", wrapping, says(errors.New("closed")), job.Rejected, "outer: closed", "inner"},
	{"an error that is hidden on its way out", hiding, says(errors.New("closed")), job.Rejected, "closed", "inner"},
	{"no call of next", through, says(nil), job.Rejected, noReason, "inner"},
	{"no call of next by the first", says(nil), through, job.Rejected, noReason, "outer"},
	{"a second thought", through, regretting, job.Rejected, "after all, no", "inner"},
	{"a second thought that is hidden", hiding, regretting, job.Rejected, "after all, no", "inner"},
	{"an error of ours keeps its kind", wrapping, says(errTemplate), job.Invalid, "outer: no such template", "inner"},
	{"what cannot be told now", through, says(job.Errorf(job.Unavailable, "no answer")), job.Unavailable, "no answer", "inner"},
	{"a look-up that took too long", through, says(fmt.Errorf("look up: %w", context.DeadlineExceeded)), job.Unavailable, "look up: context deadline exceeded", "inner"},
	{"another id", renaming("019539a4-b68c-7def-8000-000000000002"), through, job.Rejected, `the id of a job must not change, from 019539a4-b68c-7def-8000-000000000001 to "019539a4-b68c-7def-8000-000000000002"`, "outer"},
	{"no id", through, renaming(""), job.Rejected, `the id of a job must not change, from 019539a4-b68c-7def-8000-000000000001 to ""`, "inner"},
}

func TestMiddlewareRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, "outer", tt.outer, "inner", tt.inner)
			e := plain()
			e.ID = "019539a4-b68c-7def-8000-000000000001"
			c, err := e.Check()
			if err != nil {
				t.Fatal(err)
			}
			for verb, push := range map[string]func(context.Context, ...job.Checked) ([]job.Receipt, error){"EnqueueChecked": s.EnqueueChecked, "EnqueueNew": s.EnqueueNew} {
				_, err := push(t.Context(), c)
				refusedBy(t, verb, err, tt.kind, tt.message, tt.by)
			}
			if n := stored(t, s); n != 0 {
				t.Errorf("%d jobs are stored", n)
			}
			if errTemplate.Details["middleware"] != nil {
				t.Error("the middleware's own error was changed")
			}
		})
	}
}

func refusedBy(t *testing.T, what string, err error, kind job.Kind, message, by string) *job.Error {
	t.Helper()
	var e *job.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Message != message || e.Details["middleware"] != by {
		t.Errorf("%s: got %v, %+v, want kind %d, %q by %s", what, err, e, kind, message, by)
		return &job.Error{}
	}
	return e
}

func TestMiddlewareMayTryAgain(t *testing.T) {
	t.Parallel()
	s := guarded(t, "retrying", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		if next(ctx, e) == nil {
			t.Error("args of another shape passed")
		}
		e.Args = json.RawMessage(`["again"]`)
		return next(ctx, e)
	}, "spoiling", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		if string(e.Args) == "[1]" {
			e.Args = json.RawMessage(`{}`)
		}
		return next(ctx, e)
	})
	rs, err := s.Enqueue(t.Context(), plain())
	if err != nil || string(rs[0].Args) != `["again"]` || stored(t, s) != 1 {
		t.Errorf("got %v, %v", rs, err)
	}
}

func TestMiddlewareIsValidatedAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*job.Envelope)
		kind   job.Kind
		field  string
	}{
		"args that are no JSON": {func(e *job.Envelope) { e.Args = json.RawMessage(`[1`) }, job.Invalid, "args"},
		"a queue":               {func(e *job.Envelope) { e.Queue = "No" }, job.Invalid, "queue"},
		"meta over 64 KiB":      {func(e *job.Envelope) { e.Meta = json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<16) + `"}`) }, job.TooLarge, "meta"},
		"a retry policy":        {func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":-1}`) }, job.BadRetry, "retry.max_attempts"},
	} {
		for _, at := range []int{0, 1, 2} {
			t.Run(fmt.Sprint(name, " by number ", at), func(t *testing.T) {
				t.Parallel()
				var ms []any
				for i := range 3 {
					ms = append(ms, fmt.Sprint("m", i), func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
						if i == at {
							tt.change(e)
						}
						return next(ctx, e)
					})
				}
				s := guarded(t, ms...)
				_, err := s.Enqueue(t.Context(), plain())
				var e *job.Error
				if !errors.As(err, &e) || e.Kind != tt.kind || !strings.Contains(e.Message, tt.field) || e.Details["middleware"] != fmt.Sprint("m", at) {
					t.Errorf("got %v, %+v", err, e)
				}
				if n := stored(t, s); n != 0 {
					t.Errorf("%d jobs are stored", n)
				}
			})
		}
	}
}

// A default that a middleware takes away is filled again.
func TestMiddlewareIsGivenDefaultsAgain(t *testing.T) {
	t.Parallel()
	s := guarded(t, "emptying", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		e.Queue, e.MaxAttempts = "", 0
		return next(ctx, e)
	})
	rs, err := s.Enqueue(t.Context(), plain())
	if err != nil || rs[0].Queue != job.DefaultQueue || rs[0].MaxAttempts != 3 {
		t.Errorf("got %+v, %v", rs, err)
	}
}

func TestMiddlewareOfABatch(t *testing.T) {
	t.Parallel()
	var asked []string
	s := guarded(t, "picky", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		asked = append(asked, e.Type)
		if e.Type == "email.spam" {
			return errors.New("no spam")
		}
		return next(ctx, e)
	})
	send, spam, broken := plain(), plain(), plain()
	spam.Type, broken.Type = "email.spam", "Broken"
	_, err := s.Enqueue(t.Context(), send, spam, send)
	if e := refusedBy(t, "batch", err, job.Rejected, "jobs[1]: no spam", "picky"); e.Details["index"] != 1 {
		t.Errorf("got %+v", e.Details)
	}
	if want := []string{"email.send", "email.spam"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	asked = nil
	if _, err := s.Enqueue(t.Context(), send, spam, broken); job.KindOf(err) != job.Invalid || asked != nil {
		t.Errorf("an invalid batch: got %v, asked for %v", err, asked)
	}
	if n := stored(t, s); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
	if rs, err := s.Enqueue(t.Context(), send, send); err != nil || len(rs) != 2 || stored(t, s) != 2 {
		t.Errorf("got %v, %v", rs, err)
	}
}

var requestID = regexp.MustCompile(`,"request_id":"[^"]*"`)

func TestMiddlewareOverHTTP(t *testing.T) {
	t.Parallel()
	s := guarded(t, "tenant", through, "picky", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		if e.Type == "email.spam" {
			return errors.New("no spam")
		}
		return next(ctx, e)
	})
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	defer server.Close()
	for _, tt := range []struct{ path, body, want string }{
		{"/jobs", `{"type":"email.spam","args":[]}`, `422 {"error":{"code":"x_middleware_rejected","message":"no spam","retryable":false,"details":{"middleware":"picky"},` +
			`"hint":"Ask who runs the server what the named middleware wants of a job.","docs_url":"https://openjobspec.org/spec/v1/ojs-core","doc_url":"https://openjobspec.org/spec/v1/ojs-core"}}`},
		{"/jobs/batch", `{"jobs":[{"type":"email.send","args":[]},{"type":"email.spam","args":[]}]}`, `422 {"error":{"code":"x_middleware_rejected","message":"jobs[1]: no spam","retryable":false,"details":{"index":1,"middleware":"picky"},` +
			`"hint":"Ask who runs the server what the named middleware wants of a job.","docs_url":"https://openjobspec.org/spec/v1/ojs-core","doc_url":"https://openjobspec.org/spec/v1/ojs-core"}}`},
	} {
		resp, err := http.Post(server.URL+"/ojs/v1"+tt.path, "application/json", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // all of it is read
		if got := fmt.Sprintf("%d %s", resp.StatusCode, bytes.TrimSpace(requestID.ReplaceAll(body, nil))); err != nil || got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.path, got, tt.want)
		}
	}
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spam := plain()
	spam.Type = "email.spam"
	_, err = c.Enqueue(t.Context(), spam)
	refusedBy(t, "client", err, job.Rejected, "no spam", "picky")
	if n := stored(t, s); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
}

// What a middleware moves is answered and stored as it was moved to.
func TestMiddlewareMovesATime(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Millisecond)
	s := guarded(t, "later", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		e.ScheduledAt = at
		return next(ctx, e)
	})
	c, err := job.ParseEnvelope([]byte(`{"type":"a.b","args":[],"scheduled_at":"2126-03-15t09:30:00+01:00"}`))
	if err != nil {
		t.Fatal(err)
	}
	rs, err := s.EnqueueChecked(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(rs[0].AppendJSON(nil, job.View{})); !strings.Contains(got, `"scheduled_at":"`+job.FormatTime(at)+`"`) || strings.Contains(got, "2126") {
		t.Errorf("got %s, want %s", got, job.FormatTime(at))
	}
}

// The chain may change while jobs come; each job sees it as it is at one moment.
func TestMiddlewareChangesWhileJobsCome(t *testing.T) {
	t.Parallel()
	var c sidecar.Chain
	s := sidecar.New(openStore(t), sidecar.Options{Middleware: &c})
	stamp := func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		e.Meta = json.RawMessage(`{"stamped":true}`)
		return next(ctx, e)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if rs, err := s.Enqueue(t.Context(), plain(), plain()); err != nil || !bytes.Equal(rs[0].Meta, rs[1].Meta) {
					t.Errorf("got %v, %v", rs, err)
				}
			}
		})
	}
	for range 100 {
		if err := errors.Join(c.Add("stamp", stamp), c.Remove("stamp")); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := c.Add("stamp", stamp); err != nil || !slices.Equal(c.Names(), []string{"stamp"}) {
		t.Errorf("got %v, %v", c.Names(), err)
	}
	if rs, err := s.Enqueue(t.Context(), plain()); err != nil || string(rs[0].Meta) != `{"stamped":true}` {
		t.Errorf("got %v, %v", rs, err)
	}
}

// A middleware that panics at a job refuses it, as the one that it is: for a
// caller in this process, over HTTP, and in a batch, of which nothing is stored.
func TestMiddlewareThatPanicsRefusesTheJob(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var chain sidecar.Chain
	for name, m := range map[string]sidecar.Middleware{
		"falls": func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
			if strings.HasPrefix(e.Type, "falls.") {
				var none *job.Envelope
				return next(ctx, &job.Envelope{Type: none.Type})
			}
			return next(ctx, e)
		},
		"outer": through,
	} {
		if err := chain.Add(name, m); err != nil {
			t.Fatal(err)
		}
	}
	s := sidecar.New(openStore(t), sidecar.Options{Middleware: &chain, Log: slog.New(slog.NewTextHandler(&log, nil))})
	bad := job.Envelope{Type: "falls.run", Args: json.RawMessage(`["a secret"]`)}
	_, err := s.Enqueue(t.Context(), plain(), bad, plain())
	var e *job.Error
	if !errors.As(err, &e) || e.Kind != job.Rejected || e.Details["middleware"] != "falls" || e.Details["index"] != 1 || !strings.Contains(e.Message, "panicked") {
		t.Errorf("got %#v", err)
	}
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	defer server.Close()
	r, err := http.Post(server.URL+"/ojs/v1/jobs", "application/json", strings.NewReader(`{"type":"falls.run","args":["a secret"]}`))
	if err != nil || r.StatusCode != http.StatusUnprocessableEntity {
		t.Fatalf("%+v, %v", r, err)
	}
	body, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if !strings.Contains(string(body), `"middleware":"falls"`) || !strings.Contains(string(body), `x_middleware_rejected`) {
		t.Errorf("got %s", body)
	}
	if n := stored(t, s); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
	if said := log.String(); strings.Count(said, "middleware=falls") != 2 || !strings.Contains(said, "stack=") || strings.Contains(said, "a secret") {
		t.Errorf("the log says %s", said)
	}
	if _, err := s.Enqueue(t.Context(), plain()); err != nil {
		t.Errorf("another job: %v", err)
	}
}
