//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// plant makes n schedules of each second at a server: most are of the policy
// allow and nobody does their jobs; those of the other policies are worked on.
func plant(t *testing.T, c *client.Client, n int, policies ...job.Overlap) {
	t.Helper()
	for i := range n {
		s := job.CronSpec{Name: fmt.Sprintf("second-%03d", i), Expression: "* * * * * *", Overlap: policies[i%len(policies)]}
		if i%5 == 4 {
			s.Expression = "@every 1s"
		}
		s.Template = json.RawMessage(`{"type":"chaos.tick","args":[],"options":{"queue":"` + string(s.Overlap) + `"}}`)
		if _, _, err := c.PutCron(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// workTicks does the jobs of schedules until the test ends or stop is called:
// most at once, and one in twenty for longer than a tick.
func workTicks(t *testing.T, c *client.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := client.NewWorker(c, client.WorkerOptions{Queues: []string{string(job.OverlapSkip), string(job.OverlapEnqueue)}, Concurrency: 40,
		Heartbeat: 500 * time.Millisecond, Visibility: 2 * time.Second, Wait: time.Second, Grace: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("chaos.tick", func(context.Context, *job.Job) (any, error) {
		if mathrand.IntN(20) == 0 {
			time.Sleep(1100 * time.Millisecond)
		}
		return nil, nil
	})
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := w.Run(ctx); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// decidedUntil waits until each schedule of a server has decided what is due until an instant.
func decidedUntil(t *testing.T, c *client.Client, at time.Time) {
	t.Helper()
	if n := settles(func() (behind int64) {
		page, err := c.Crons(t.Context(), job.CronFilter{})
		if err != nil {
			return 1
		}
		for _, cron := range page.Crons {
			if !cron.NextRunAt.After(at) {
				behind++
			}
		}
		return behind
	}); n > 0 {
		t.Errorf("%d schedules have stopped", n)
	}
}

// moment waits, and every other time on until servers are at work on their ticks.
func moment(r *mathrand.Rand, wait time.Duration) {
	time.Sleep(wait)
	if r.IntN(2) == 0 {
		next := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(next) + time.Duration(r.Int64N(int64(80*time.Millisecond))) - 20*time.Millisecond)
	}
}

// sight waits until a tick has just made jobs: what is stored apart from them is
// not stored yet.
func sight(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	made := func() int64 {
		q, _ := c.Queue(ctx, string(job.OverlapAllow)) // none: it is dead, or too new
		return q.Counts[job.Available]
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	for before := made(); ctx.Err() == nil && made() == before; {
		continue
	}
}

// tickers is how many schedules there are: so many that those of one instant are
// stored together, where the race detector leaves time for their jobs.
func tickers() int {
	if raced {
		return 60
	}
	return 260
}

// TestChaosOfTicks: a server with many schedules of each second is killed again
// and again. No tick makes two jobs, what passes while the server is dead is made
// up for once, by the newest, and what passes while it lives is not lost.
func TestChaosOfTicks(t *testing.T) {
	tickers, rows, seed := tickers(), chaosRows(t, 4000), uint64(time.Now().UnixNano())
	r := mathrand.New(mathrand.NewPCG(seed, 0))
	addr, path := freePort(t), filepath.Join(t.TempDir(), "jobs.db")
	url := "http://" + addr
	server := keep(t, "server", "serve", "--listen", addr, "--db", path)
	up(t, server, url)
	c := clientOf(t, url)
	policies := append(slices.Repeat([]job.Overlap{job.OverlapAllow}, 11), job.OverlapSkip, job.OverlapEnqueue)
	plant(t, c, tickers, policies...)
	felt, stopFeeling := feelServer(t, url)
	stopWorker := workTicks(t, c)
	var dead []outage
	began := time.Now()
	for server.kills < 3 || int(time.Since(began).Seconds())*tickers < rows {
		life := 300*time.Millisecond + time.Duration(r.Int64N(int64(1700*time.Millisecond)))
		if r.IntN(4) == 0 {
			life /= 5 // it may not even have come up
		} else {
			up(t, server, url)
		}
		if r.IntN(2) == 0 {
			time.Sleep(life)
			sight(c)
		} else {
			moment(r, life)
		}
		server.crash(func() {
			o := outage{from: time.Now()}
			time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond << (3 * (server.kills % 2)))))) // every other one is long
			o.to = time.Now()
			dead = append(dead, o)
		})
	}
	up(t, server, url)
	ended := time.Now()
	decidedUntil(t, c, ended)
	left := settles(func() int64 { return unended(t, c, ended) })
	if left > 0 {
		t.Errorf("%d jobs of ticks are not done though all is well again", left)
	}
	stopWorker()
	stopFeeling()
	server.stop()

	book := bookOf(t, path)
	told := book.tryAll(t, tickers, cronTrial{outages: dead, owed: felt.steady})
	book.auditChains(t)
	t.Logf("seed %d: %d schedules, %d kills in %v: %s", seed, tickers, server.kills, ended.Sub(began).Round(time.Second), told)
}

// unended are the jobs of schedules that were made before an instant, are
// worked on and have not ended.
func unended(t *testing.T, c *client.Client, before time.Time) (n int64) {
	t.Helper()
	for _, queue := range []job.Overlap{job.OverlapSkip, job.OverlapEnqueue} {
		page, err := c.Jobs(t.Context(), job.Filter{Queue: string(queue), Until: before, Limit: 1,
			States: []job.State{job.Pending, job.Scheduled, job.Available, job.Active, job.Retryable}})
		if err != nil {
			return 1
		}
		n += page.Total
	}
	return n
}

func clientOf(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// tryAll audits all schedules, and says what has become of their ticks.
func (b *cronBook) tryAll(t *testing.T, want int, trial cronTrial) string {
	t.Helper()
	if len(b.crons) != want || len(b.jobs) != want {
		t.Errorf("%d schedules, %d have jobs, want %d", len(b.crons), len(b.jobs), want)
	}
	kinds, ticks, owed, prompt, faults := map[string]int{}, 0, 0, 0, []string{}
	for _, c := range b.crons {
		faults = append(faults, b.audit(c, trial)...)
		for _, e := range b.told[c.Name] {
			if kinds[e.kind]++; e.at.Equal(e.first) {
				prompt++
			}
			for at := e.first; !at.After(e.last); at = at.Add(time.Second) {
				if ticks++; trial.owed(at) {
					owed++
				}
			}
		}
	}
	for _, f := range faults[:min(20, len(faults))] {
		t.Error(f)
	}
	if len(faults) > 20 {
		t.Errorf("and %d faults more", len(faults)-20)
	}
	judged(t, owed)
	return fmt.Sprintf("%d ticks, %d of which no excuse would be heard for; %d were decided at their very instant, %d made jobs, %d were skipped, %d times some were missed",
		ticks, owed, prompt, kinds[job.CronTriggered], kinds[job.CronSkipped], kinds[job.CronMissed])
}

// auditChains looks at the runs of the policy enqueue: none began before the end
// of the one that it waited for.
func (b *cronBook) auditChains(t *testing.T) {
	t.Helper()
	waited := 0
	for _, j := range b.byID {
		before := cronMetaIn(j.Meta).After
		if before == "" {
			continue
		}
		waited++
		if p := b.byID[before]; j.State != job.Pending && (p == nil || !p.State.Terminal() || p.FinishedAt.After(j.ActivatedAt)) {
			t.Errorf("%s was released at %s, and waited for %+v", j.ID, job.FormatTime(j.ActivatedAt), p)
		}
	}
	t.Logf("%d runs waited for the one before", waited)
}

// TestCronOfASleeper: a server with more schedules than are made up for at once
// stands still and goes on, as after a suspend. Each makes up for it once.
func TestCronOfASleeper(t *testing.T) {
	const many = 130
	addr, path := freePort(t), filepath.Join(t.TempDir(), "jobs.db")
	url := "http://" + addr
	server := keep(t, "server", "serve", "--listen", addr, "--db", path)
	up(t, server, url)
	c := clientOf(t, url)
	plant(t, c, many, job.OverlapAllow)
	felt, stopFeeling := feelServer(t, url)
	var slept []outage
	for _, nap := range []time.Duration{2 * time.Second, 5500 * time.Millisecond} { // longer, and catch-ups are spread
		decidedUntil(t, c, time.Now().Add(2*time.Second))
		send(t, server, syscall.SIGSTOP)
		time.Sleep(200 * time.Millisecond) // all of its threads have stopped
		o := outage{from: time.Now()}
		time.Sleep(nap)
		o.to = time.Now()
		slept = append(slept, o)
		send(t, server, syscall.SIGCONT)
	}
	decidedUntil(t, c, time.Now().Add(time.Second))
	stopFeeling()
	server.stop()

	book := bookOf(t, path)
	told := book.tryAll(t, many, cronTrial{outages: slept, owed: felt.steady})
	t.Logf("%d schedules, asleep %d times: %s", many, len(slept), told)
	for _, o := range slept {
		if !slices.ContainsFunc(book.told["second-000"], func(e cronEvent) bool {
			return e.kind == job.CronMissed && e.last.After(o.from) && e.first.Before(o.to)
		}) {
			t.Errorf("nothing was missed from %s to %s", job.FormatTime(o.from), job.FormatTime(o.to))
		}
	}
}

func send(t *testing.T, k *keeper, sig syscall.Signal) {
	t.Helper()
	if err := k.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
