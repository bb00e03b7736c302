package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// world is a server with jobs in all states, workers, schedules and workflows, whose
// clock stands still and whose ids are always the same.
type world struct {
	dir     string
	server  *httptest.Server
	environ []string // of programs that look at it
	names   *strings.Replacer

	t    *testing.T
	side *sidecar.Sidecar
	now  time.Time
	ids  int
	flow job.ID // its workflow
	dead job.ID // its dead letter
}

// worldTime is what time it is there in the end.
var worldTime = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), now: worldTime.Add(-3 * time.Hour)}
	store, err := sqlitestore.Open(t.Context(), filepath.Join(w.dir, "o.db"), sqlitestore.Options{})
	w.check(err)
	t.Cleanup(func() { _ = store.Close() })
	now := func() time.Time { return w.now }
	w.side = sidecar.New(store, sidecar.Options{Now: now, NewID: w.id, Rand: func() float64 { return 0.5 }})
	w.fill()
	w.now = worldTime
	w.server = httptest.NewServer(httpapi.New(w.side, httpapi.Options{Log: slog.New(slog.DiscardHandler), Now: now}))
	t.Cleanup(w.server.Close)
	shop := "sqlite:" + filepath.Join(w.dir, "shop.db")
	w.environ = []string{"OUTRIDER_URL=" + w.server.URL, asProgram, "TEST_OUTRIDER_CLOCK=" + worldTime.Format(time.RFC3339), "TZ=UTC", "OUTRIDER=" + w.self()}
	for _, args := range []string{"outbox init " + shop, "outbox add " + shop + " order.confirm 17"} {
		if o := try(t, nil, strings.Fields(args)...); o.code != exitOK {
			t.Fatalf("%s: exit %d, %s", args, o.code, o.stderr)
		}
	}
	w.names = strings.NewReplacer("FLOW", string(w.flow), "DEAD", string(w.dead), "DSN", "sqlite:shop.db")
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// id is a UUIDv7 of the clock, and a number.
func (w *world) id() job.ID {
	w.ids++
	ms := fmt.Sprintf("%012x", w.now.UnixMilli())
	return job.ID(fmt.Sprintf("%s-%s-7000-8000-%012x", ms[:8], ms[8:], w.ids))
}

func (w *world) push(kind, queue string, change func(*job.Envelope)) job.ID {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	e := job.Envelope{Type: kind, Queue: queue, Args: json.RawMessage(`["ada@example.com",42]`)}
	if change != nil {
		change(&e)
	}
	got, err := w.side.Enqueue(w.t.Context(), e)
	w.check(err)
	return got[0].ID
}

// fetch has a worker begin the next job of a queue.
func (w *world) fetch(worker, queue string) job.Claim {
	w.t.Helper()
	w.now = w.now.Add(3 * time.Second)
	jobs, err := w.side.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{queue}, Worker: worker})
	w.check(err)
	if len(jobs) != 1 {
		w.t.Fatalf("there is no job in %s", queue)
	}
	return job.Claim{ID: jobs[0].ID, Token: jobs[0].Lease.Token, Worker: worker}
}

func (w *world) fail(c job.Claim, f job.Failure) {
	w.t.Helper()
	w.now = w.now.Add(2 * time.Second)
	_, err := w.side.Fail(w.t.Context(), c, f)
	w.check(err)
}

func (w *world) done(c job.Claim) {
	w.t.Helper()
	w.now = w.now.Add(4 * time.Second)
	_, err := w.side.Ack(w.t.Context(), c, json.RawMessage(`{"sent":true}`))
	w.check(err)
}

func (w *world) fill() {
	ctx := w.t.Context()
	final := false
	dead := func(e *job.Envelope) { e.Retry = json.RawMessage(`{"on_exhaustion":"dead_letter"}`) }
	w.push("email.send", "mail", nil)
	w.done(w.fetch("mailer-1", "mail"))
	w.dead = w.push("email.send", "mail", dead)
	w.fail(w.fetch("mailer-1", "mail"), job.Failure{Type: "SMTPError", Message: "550 5.1.1 no such user: ada@example.com, and there never was one", Retryable: &final})
	w.push("report.make", "reports", nil)
	w.fail(w.fetch("reports-1", "reports"), job.Failure{Type: "Timeout", Message: "the database did not answer within 30 s", Retryable: &final})
	cancelled := w.push("report.make", "reports", nil)
	_, err := w.side.Cancel(ctx, cancelled, "ops", "not needed")
	w.check(err)
	w.push("invoice.render", "a-queue-with-quite-a-long-name", func(e *job.Envelope) { e.Hold = true })
	w.push("email.digest", "mail", func(e *job.Envelope) { e.Delay = 24 * time.Hour })

	flow := job.Graph("nightly-import",
		job.Do("extract", job.Envelope{Type: "data.extract", Queue: "data", Args: json.RawMessage("[]")}),
		job.Do("clean", job.Envelope{Type: "data.clean", Queue: "data", Args: json.RawMessage("[]")}).After("extract"),
		job.Inside("enrich", job.Group("", job.Do("", job.Envelope{Type: "data.geo", Queue: "data", Args: json.RawMessage("[]")}),
			job.Do("", job.Envelope{Type: "data.prices", Queue: "data", Args: json.RawMessage("[]")}))).After("extract"),
		job.Do("load", job.Envelope{Type: "data.load", Queue: "data", Args: json.RawMessage("[]")}).After("clean", "enrich"))
	flow.ID = w.id()
	got, _, err := w.side.StartWorkflow(ctx, flow)
	w.check(err)
	w.flow = got.ID
	w.done(w.fetch("data-1", "data"))
	w.done(w.fetch("data-1", "data"))
	w.fetch("data-1", "data")

	w.now = worldTime.Add(-4 * time.Minute)
	for _, c := range []job.CronSpec{{Name: "nightly-report", Expression: "0 3 * * *", Timezone: "Europe/Berlin"}, {Name: "heartbeat", Expression: "@every 5m"}} {
		c.Template = json.RawMessage(`{"type":"report.make","queue":"reports","args":[]}`)
		_, _, err := w.side.PutCron(ctx, c)
		w.check(err)
	}
	w.push("email.send", "mail", dead)
	w.fail(w.fetch("mailer-1", "mail"), job.Failure{Type: "SMTPError", Message: "421 try again later"})
	w.now = worldTime.Add(-3 * time.Minute)
	unique := json.RawMessage(`{"keys":["args"],"period":"PT1H"}`)
	w.push("email.send", "mail", func(e *job.Envelope) { e.Unique = unique })
	w.push("email.send", "mail", func(e *job.Envelope) { e.Priority = 10 })
	w.fetch("mailer-1", "mail")
	w.now = worldTime.Add(-10 * time.Second)
	for _, id := range []string{"mailer-1", "reports-1", "data-1"} {
		w.now = w.now.Add(time.Second)
		_, err := w.side.Register(ctx, job.WorkerInfo{ID: id, Hostname: "app-01.example.com", Queues: []string{"mail"}, Concurrency: 10})
		w.check(err)
	}
	_, err = w.side.Direct(ctx, "reports-1", job.Quiet)
	w.check(err)
	_, err = w.side.SetQueueStatus(ctx, "reports", job.QueuePaused, "ops")
	w.check(err)
}

// self is the program under test.
func (w *world) self() string {
	self, err := os.Executable()
	w.check(err)
	return self
}

// pipe is what a command writes where there is no terminal.
func (w *world) pipe(t *testing.T, args []string) string {
	t.Helper()
	cmd := exec.Command(w.self(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir = w.dir
	cmd.Env, cmd.Stdout, cmd.Stderr = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}, w.environ...), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return sinceNow.ReplaceAllString(stdout.String(), "for AGO")
}
