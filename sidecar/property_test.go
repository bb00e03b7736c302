package sidecar

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// machine plays the same sequence with a sidecar and with the model.
type machine struct {
	bound  int  // how often a job may be given back
	buries bool // dead letters are the server's default
	*Sidecar
	disk   job.Store
	m      model
	now    time.Time
	tokens []string        // all that were ever given out
	errors strings.Builder // what the sidecar has logged of them
}

// parts is how many sequences are played at the same time.
const parts = 4

// chooseSequences sets how many are played together, fewer with the race detector:
// OUTRIDER_SEQUENCES is asked first. A test that calls it must not be parallel, but
// for its parts: then no other test that uses rapid runs before the flag is as it was.
func chooseSequences(t *testing.T, standard, ifRaced int) {
	t.Helper()
	n := standard
	if raced {
		n = ifRaced
	}
	if asked := os.Getenv("OUTRIDER_SEQUENCES"); asked != "" {
		var err error
		if n, err = strconv.Atoi(asked); err != nil || n < 1 {
			t.Fatalf("OUTRIDER_SEQUENCES is %q, want a number", asked)
		}
	}
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(strconv.Itoa((n + parts - 1) / parts)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) }) // which it was
}

// playSequences plays the sequences, each with a store of its own.
func playSequences(t *testing.T, play func(t *testing.T, r *rapid.T, store *sqlitestore.Store)) {
	t.Helper()
	dir := t.TempDir()
	var serial atomic.Int64
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				store, err := sqlitestore.Open(context.Background(), filepath.Join(dir, fmt.Sprint(serial.Add(1), ".db")), sqlitestore.Options{})
				if err != nil {
					r.Fatal(err)
				}
				defer store.Close()
				play(t, r, store)
			})
		})
	}
}

// Any sequence of verbs and of time leads where the documents say. One that
// does not is printed, as short as rapid can make it, with the flag that plays it again.
func TestSidecarFollowsTheModel(t *testing.T) {
	chooseSequences(t, 400, 15)
	playSequences(t, func(_ *testing.T, r *rapid.T, store *sqlitestore.Store) {
		x := &machine{now: genesis, disk: store}
		x.restart(r)
		r.Repeat(map[string]func(*rapid.T){
			"": x.check, "push": x.push, "fetch": x.fetch, "ack": x.ack, "fail": x.failJob, "requeue": x.requeue,
			"beat": x.beat, "cancel": x.cancel, "activate": x.activate, "revive": x.revive, "retry": x.retry, "delete": x.remove,
			"time": x.pass, "fetch again": x.fetch, "more time": x.pass,
			"restart": x.restart,
		})
		storetest.Audit(r, store)
	})
}

// restart begins a new life of the server, perhaps with another limit for jobs
// that name none.
func (x *machine) restart(r *rapid.T) {
	o := Options{Now: func() time.Time { return x.now }, Rand: func() float64 { return 0.5 }, Rules: x.drawRules(r)}
	o.Timeout = rapid.SampledFrom([]time.Duration{0, -1, 5 * time.Second, 20 * time.Second}).Draw(r, "standard timeout")
	o.Log = x.logErrors()
	x.Sidecar = New(x.disk, o)
	x.m.standard = max(x.o.Timeout, 0)
}

// logErrors is a log that keeps errors alone.
func (x *machine) logErrors() *slog.Logger {
	return slog.New(slog.NewTextHandler(&x.errors, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (x *machine) push(r *rapid.T) {
	p := planJob{
		queue: rapid.SampledFrom(bellQueues).Draw(r, "queue"), priority: rapid.SampledFrom([]int{0, 0, 5}).Draw(r, "priority"),
		delay:   rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 5 * time.Second}).Draw(r, "delay"),
		ttl:     rapid.SampledFrom([]time.Duration{0, 0, 0, 3 * time.Second, 20 * time.Second}).Draw(r, "ttl"),
		hold:    rapid.IntRange(0, 5).Draw(r, "hold") == 5,
		timeout: rapid.SampledFrom([]time.Duration{0, 0, 7001 * tick}).Draw(r, "timeout"),
		plan:    rapid.SampledFrom(plans).Draw(r, "plan"),
	}
	e := job.Envelope{Type: "a.b", Queue: p.queue, Args: json.RawMessage(`[]`), Priority: p.priority, Delay: p.delay, TTL: p.ttl, Hold: p.hold, Timeout: p.timeout}
	if p.plan.own {
		e.Retry = json.RawMessage(p.plan.asPolicy)
	}
	rs, err := x.Enqueue(context.Background(), e)
	if err != nil {
		r.Fatal(err)
	}
	p.buried = p.plan.bury
	p.plan.bury = p.buried || x.buries // none of the plans says discard
	x.m.push(p, x.now).id = rs[0].ID
}

func (x *machine) fetch(r *rapid.T) {
	queues := rapid.Permutation(bellQueues).Draw(r, "queues")[:rapid.IntRange(1, 3).Draw(r, "of")]
	n := rapid.IntRange(1, 3).Draw(r, "count")
	worker := rapid.SampledFrom([]string{"w1", "w2", ""}).Draw(r, "worker")
	length := rapid.SampledFrom([]time.Duration{2 * time.Second, 10 * time.Second, 90 * time.Second}).Draw(r, "visibility")
	got, err := x.Fetch(context.Background(), job.FetchRequest{Queues: queues, Count: n, Worker: worker, Visibility: length})
	if err != nil {
		r.Fatal(err)
	}
	var waiting []*modelJob
	for _, q := range queues {
		in := slices.DeleteFunc(slices.Clone(x.m.jobs), func(j *modelJob) bool { return j.queue != q || j.state != job.Available || j.deleted })
		slices.SortStableFunc(in, func(a, b *modelJob) int {
			switch {
			case before(a, b):
				return -1
			case before(b, a):
				return 1
			}
			return 0
		})
		waiting = append(waiting, in...)
	}
	want := waiting[:min(n, len(waiting))]
	if len(got) != len(want) {
		r.Fatalf("fetched %d jobs, want %d", len(got), len(want))
	}
	for i, g := range got {
		j := x.find(g.ID)
		if j == nil || j.state != job.Available || j.queue != want[i].queue || before(want[i], j) {
			r.Fatalf("job %d is %s, want %s", i, g.ID, want[i].id)
		}
		if g.Lease.Token == "" || slices.Contains(x.tokens, g.Lease.Token) {
			r.Fatalf("token %q was given before", g.Lease.Token)
		}
		x.tokens = append(x.tokens, g.Lease.Token)
		j.start(x.now, lease{g.Lease.Token, worker, length, x.now.Add(length)})
	}
}

func (x *machine) find(id job.ID) *modelJob {
	for _, j := range x.m.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// some draws a job, mostly one in the state where the verb applies.
func (x *machine) some(r *rapid.T, state job.State) *modelJob {
	fit := slices.DeleteFunc(slices.Clone(x.m.jobs), func(j *modelJob) bool { return j.state != state || j.deleted })
	if len(fit) > 0 && rapid.IntRange(0, 3).Draw(r, "fit") > 0 {
		return rapid.SampledFrom(fit).Draw(r, "job")
	}
	if len(x.m.jobs) == 0 {
		r.Skip("there is no job")
	}
	return rapid.SampledFrom(x.m.jobs).Draw(r, "any job")
}

func (x *machine) claim(r *rapid.T, j *modelJob) job.Claim {
	c := job.Claim{ID: j.id, Worker: rapid.SampledFrom([]string{"", "", "w1", "w2"}).Draw(r, "worker")}
	switch rapid.IntRange(0, 4).Draw(r, "token") {
	case 0, 1:
		c.Token = j.lease.token
	case 2:
		if j.lost != nil {
			c.Token = j.lost.token
		}
	case 3:
		if len(x.tokens) > 0 {
			c.Token = rapid.SampledFrom(x.tokens).Draw(r, "old token")
		}
	}
	return c
}

// agree compares the outcome of a verb with the model's.
func agree(r *rapid.T, verb string, j *modelJob, good bool, err error, refusal job.Kind) {
	switch {
	case j.deleted:
		refusal, good = job.NotFound, false
	case good && err == nil:
		return
	}
	if good || job.KindOf(err) != refusal || err == nil {
		r.Fatalf("%s of %s, which is %s: %v; want done %v, else kind %d", verb, j.id, j.state, err, good, refusal)
	}
}

func (x *machine) ack(r *rapid.T) {
	j := x.some(r, job.Active)
	c := x.claim(r, j)
	_, err := x.Ack(context.Background(), c, json.RawMessage(`1`))
	agree(r, fmt.Sprintf("ack %+v", c), j, !j.deleted && j.ack(c, x.now), err, job.Conflict)
}

func (x *machine) failJob(r *rapid.T) {
	j := x.some(r, job.Active)
	c := x.claim(r, j)
	code := rapid.SampledFrom([]string{"", "", "RETRY", "handler_error", "DISCARD", "FAIL", "DEAD_LETTER"}).Draw(r, "code")
	_, err := x.Fail(context.Background(), c, job.Failure{Type: "e.x", Message: "no", Code: code})
	agree(r, fmt.Sprintf("fail %+v", c), j, !j.deleted && j.fail(c, code, x.now), err, job.Conflict)
}

func (x *machine) requeue(r *rapid.T) {
	j := x.some(r, job.Active)
	c := x.claim(r, j)
	_, err := x.Fail(context.Background(), c, job.Failure{Requeue: true})
	agree(r, fmt.Sprintf("requeue %+v", c), j, !j.deleted && j.requeue(c, x.bound, x.now), err, job.Conflict)
}

func (x *machine) beat(r *rapid.T) {
	j := x.some(r, job.Active)
	c := x.claim(r, j)
	if c.Worker = "beater"; c.Token == "" { // who only beats holds nothing without a token
		c.Token = "0"
	}
	longer := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 4 * time.Second, 30 * time.Second}).Draw(r, "visibility")
	reply, err := x.Beat(context.Background(), job.Beat{Worker: job.WorkerInfo{ID: "beater"}, Jobs: []job.Claim{c}, Visibility: longer})
	if err != nil {
		r.Fatal(err)
	}
	extended, cancelled := !j.deleted && j.holds(c), !j.deleted && j.state == job.Cancelled
	if (len(reply.Extended) == 1) != extended || (len(reply.Cancelled) == 1) != cancelled || (len(reply.Lost) == 1) == (extended || cancelled) {
		r.Fatalf("beat for %s, which is %s: %+v", j.id, j.state, reply)
	}
	if extended {
		if longer == 0 {
			longer = j.lease.length
		}
		j.lease.until = x.now.Add(longer)
	}
}

func (x *machine) cancel(r *rapid.T) {
	j := x.some(r, rapid.SampledFrom(job.States).Draw(r, "state"))
	c, err := x.Cancel(context.Background(), j.id, "", "")
	good := j.state != job.Completed && j.state != job.Discarded
	if agree(r, "cancel", j, good, err, job.Finished); err == nil {
		if c.Previous != j.state {
			r.Fatalf("cancelled from %s, was %s", c.Previous, j.state)
		}
		j.end(job.Cancelled)
	}
}

func (x *machine) activate(r *rapid.T) {
	j := x.some(r, job.Pending)
	_, err := x.Activate(context.Background(), j.id)
	if agree(r, "activate", j, j.state == job.Pending, err, job.Conflict); err != nil {
		return
	}
	if j.state = job.Scheduled; !j.schedule.After(x.now) {
		x.m.enter(j)
	}
}

// drawRules draws what the server decides, and tells the model.
func (x *machine) drawRules(r *rapid.T) (rules job.Rules) {
	rules.Releases = rapid.SampledFrom([]int{0, 1, 2, -1}).Draw(r, "releases")
	if x.bound = max(rules.Releases, 0); rules.Releases == 0 {
		x.bound = job.DefaultReleases
	}
	if x.buries = rapid.Bool().Draw(r, "buries"); x.buries {
		rules.OnExhaustion = job.OnExhaustionDeadLetter
	}
	for _, j := range x.m.jobs { // what a server says counts for those that fail under it
		j.plan.bury = j.buried || x.buries
	}
	return rules
}

func (x *machine) revive(r *rapid.T) {
	j := x.some(r, job.Discarded)
	_, err := x.Revive(context.Background(), j.id)
	refusal := job.NotFound
	if j.dead {
		refusal = job.Conflict
	}
	x.backAgain(r, "revive", j, j.dead, err, refusal)
}

// retry takes back what is discarded for whatever reason.
func (x *machine) retry(r *rapid.T) {
	j := x.some(r, job.Discarded)
	_, err := x.Retry(context.Background(), j.id)
	x.backAgain(r, "retry", j, j.state == job.Discarded, err, job.Conflict)
}

// backAgain agrees that a job begins anew, unless it must not run any more.
func (x *machine) backAgain(r *rapid.T, verb string, j *modelJob, good bool, err error, refusal job.Kind) {
	good = good && (j.expiry.IsZero() || x.now.Before(j.expiry))
	if agree(r, verb, j, good, err, refusal); err == nil {
		j.attempt, j.releases, j.errors, j.dead = 0, 0, 0, false
		x.m.enter(j)
	}
}

func (x *machine) remove(r *rapid.T) {
	j := x.some(r, job.Discarded)
	err := x.DeleteDead(context.Background(), j.id)
	if agree(r, "delete", j, j.dead, err, job.NotFound); err == nil {
		j.deleted, j.dead = true, false
	}
}
