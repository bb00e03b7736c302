package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
)

// ServeBaseline serves what a run with a baseline compares with, until ctx ends,
// and says on stdout where.
func ServeBaseline(ctx context.Context, stdout, stderr io.Writer) error {
	at := netguard.Address{Network: "tcp", Where: "127.0.0.1:0"}
	ln, err := at.Listen(ctx)
	if err != nil {
		return err
	}
	srv := netguard.NewServer(baselineHandler(), slog.New(slog.NewTextHandler(stderr, nil)))
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	unhook := context.AfterFunc(ctx, func() { _ = srv.Close() }) // Serve reports the end
	defer unhook()
	fmt.Fprintf(stdout, "outrider: listening on %s (nothing is stored)\n", at.URL(ln, false))
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// baselineHandler does what a PUSH costs at the least: HTTP, the router, the
// body decoded by the same parser, an answer of the same shape.
func baselineHandler() http.Handler {
	e := echo.New()
	e.POST(pathPush, func(c echo.Context) error {
		raw, err := io.ReadAll(io.LimitReader(c.Request().Body, job.MaxJobBytes))
		if err != nil {
			return err
		}
		checked, err := job.ParseEnvelope(raw)
		if err != nil {
			return c.String(http.StatusBadRequest, err.Error())
		}
		now := time.Now()
		env := checked.Envelope()
		env.ID = "01900000-0000-7000-8000-000000000000"
		j := job.Job{Envelope: env, Status: job.Status{State: job.Available, CreatedAt: now, EnqueuedAt: now}}
		body := append(j.AppendJSON([]byte(`{"job":`), job.View{}), '}')
		return c.Blob(http.StatusCreated, "application/openjobspec+json", body)
	})
	return e
}

// Comparison sets PUSH against the same load on a server that stores nothing.
type Comparison struct {
	Push     Result  `json:"push"`
	Baseline Result  `json:"baseline"`
	Ratio    float64 `json:"push_to_baseline"` // of their jobs a second
}

func (b *bench) baseline(ctx context.Context, rep *Report) error {
	b.point = point{work: Workloads()[0], concurrency: b.cfg.Concurrency[0]}
	b.cfg.Profile = ""
	stop, err := b.startPrivate(ctx)
	if err != nil {
		return err
	}
	ours := *b
	nothing, err := b.start(ctx, BaselineCommand)
	if err != nil {
		return errors.Join(err, stop(nil))
	}
	defer nothing.stop()
	theirs := *b
	theirs.target, theirs.server = nothing.url, nothing.process
	played := [2][]Result{}
	for r := range rounds {
		for _, i := range turns(2, r) {
			var one Result
			if one, err = []*bench{&ours, &theirs}[i].round(ctx); err != nil {
				return errors.Join(err, stop(nil))
			}
			played[i] = append(played[i], one)
		}
	}
	both := &Comparison{Push: merge("push", played[0]), Baseline: merge("baseline", played[1])}
	both.Ratio = both.Push.PerSecond / both.Baseline.PerSecond
	rep.Compared = both
	return stop(nil)
}

// merge adds rounds up; the latencies are those of the round in the middle.
func merge(name string, rs []Result) Result {
	slices.SortFunc(rs, func(a, b Result) int { return cmp.Compare(a.P50, b.P50) })
	sum := Result{Workload: name, What: rs[0].What, Concurrency: rs[0].Concurrency, P50: rs[len(rs)/2].P50, P99: rs[len(rs)/2].P99}
	for _, r := range rs {
		sum.Requests += r.Requests
		sum.Seconds += r.Seconds
		sum.Samples += r.Samples
		sum.ServerCPU += r.ServerCPU * float64(r.Jobs)
		sum.ClientCPU += r.ClientCPU * float64(r.Jobs)
		sum.Jobs += r.Jobs
	}
	sum.PerSecond = float64(sum.Jobs) / sum.Seconds
	sum.ServerCPU /= float64(sum.Jobs)
	sum.ClientCPU /= float64(sum.Jobs)
	return sum
}
