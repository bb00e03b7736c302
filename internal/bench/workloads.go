package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
)

// Workload is one kind of load.
type Workload struct {
	Name      string
	Help      string
	Private   bool // needs a server of its own
	Paced     bool // has a pace of its own, whatever the number of connections
	Portable  bool // any OJS server of level 1 can play it
	inProcess bool
	each      int // jobs a step
	run       func(*bench, context.Context) ([]Result, error)
}

// Alone reports whether the workload has a store of its own, with nothing beside it.
func (w Workload) Alone() bool { return w.Private && !w.inProcess }

// Workloads are run in this order.
func Workloads() []Workload {
	return []Workload{
		{Name: "push", Help: "PUSH, one job a request", Portable: true, each: 1, run: (*bench).push},
		{Name: "unique", Help: "PUSH with a unique policy, one job a request, no key twice", each: 1, run: (*bench).unique},
		{Name: "batch", Help: "PUSH, 100 jobs a request", each: 100, run: (*bench).batch},
		{Name: "fetch", Help: "FETCH from a backlog, one job a request", Portable: true, each: 1, run: (*bench).fetch},
		{Name: "ack", Help: "ACK, one job a request", Portable: true, each: 1, run: (*bench).ack},
		{Name: "cycle", Help: "PUSH, FETCH, ACK of one job", Portable: true, each: 1, run: (*bench).cycle},
		{Name: "fetch10", Help: "10 PUSHes, one FETCH of 10, 10 ACKs", Portable: true, each: 10, run: (*bench).cycleOfTen},
		{Name: "next10", Help: "10 PUSHes, one request that ACKs the ten before and FETCHes 10", each: 10, run: (*bench).nextTen},
		{Name: "drain10", Help: "from a backlog: one request that ACKs the ten before and FETCHes 10", each: 10, run: (*bench).drainTen},
		{Name: "pickup", Help: "an idle worker: PUSH sent to waiting FETCH answered", Paced: true, run: (*bench).pickup},
		{Name: "outbox", Help: "an idle worker: your COMMIT returned to waiting FETCH answered; your transaction with the row and without",
			Private: true, Paced: true, run: (*bench).outbox},
		{Name: "cron", Help: "10,000 schedules, or -n, that are due at one instant: until their jobs can be seen",
			Private: true, Paced: true, run: (*bench).cron},
		{Name: "inprocess", Help: "the sidecar without HTTP: enqueue, enqueue with a unique policy, and the whole cycle",
			Private: true, inProcess: true, each: 1, run: (*bench).inProcess},
	}
}

const (
	pathPush  = "/ojs/v1/jobs"
	pathBatch = "/ojs/v1/jobs/batch"
	pathFetch = "/ojs/v1/workers/fetch"
	pathAck   = "/ojs/v1/workers/ack"
	pathNext  = "/ojs/v1/workers/next"
	pathPoke  = "/ojs/v1/outbox/poke"
)

// jobJSON is a PUSH body of about the configured size.
func (b *bench) jobJSON(queue string) []byte {
	head := `{"type":"bench.job","queue":"` + queue + `","args":["`
	pad := max(0, b.cfg.Payload-len(head)-len(`"]}`))
	return []byte(head + strings.Repeat("x", pad) + `"]}`)
}

func (b *bench) batchJSON(queue string, n int) []byte {
	one := string(b.jobJSON(queue))
	return []byte(`{"jobs":[` + one + strings.Repeat(","+one, n-1) + "]}")
}

func fetchJSON(queue string, count, blockMS int) []byte {
	return fmt.Appendf(nil, `{"queues":[%q],"count":%d,"block_ms":%d,"worker_id":"bench"}`, queue, count, blockMS)
}

// run opens the connections, has them do step and closes them.
func (b *bench) run(ctx context.Context, name, what string, step func(*caller) (int, error)) ([]Result, error) {
	cs, hangUp, err := b.dial(ctx, b.point.concurrency)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	r, err := b.load(name, what, cs, step)
	for _, c := range cs {
		b.held = append(b.held, c.claims...)
	}
	return []Result{r}, err
}

func (b *bench) push(ctx context.Context) ([]Result, error) {
	body := b.jobJSON("bench-push")
	return b.run(ctx, "push", "request", func(c *caller) (int, error) {
		_, err := c.post(pathPush, body)
		return 1, err
	})
}

// unique is push with a policy over type and args, which differ in every request.
func (b *bench) unique(ctx context.Context) ([]Result, error) {
	next := b.uniqueJobs("bench-unique")
	return b.run(ctx, "unique", "request", func(c *caller) (int, error) {
		c.buf = next(c.buf[:0])
		_, err := c.post(pathPush, c.buf)
		return 1, err
	})
}

// uniqueJobs appends PUSH bodies with a unique policy, each over what no other has.
func (b *bench) uniqueJobs(queue string) func([]byte) []byte {
	head, _ := bytes.CutSuffix(b.jobJSON(queue), []byte(`"]}`))
	salt := rand.Uint64() // the server may know the keys of another run
	var serial atomic.Uint64
	return func(to []byte) []byte {
		return fmt.Appendf(append(to, head...), `-%x-%d"],"unique":{"keys":["type","args"]}}`, salt, serial.Add(1))
	}
}

func (b *bench) batch(ctx context.Context) ([]Result, error) {
	body := b.batchJSON("bench-batch", 100)
	return b.run(ctx, "batch", "request", func(c *caller) (int, error) {
		_, err := c.post(pathBatch, body)
		return 100, err
	})
}

// fill puts a backlog into queue that lasts for the duration, or for as many jobs as
// are asked for. A server of another make gets it one by one, for as long as the
// workload lasts, as batches are not asked of it.
func (b *bench) fill(ctx context.Context, queue string) error {
	if len(b.cfg.Compare) > 0 {
		body := b.jobJSON(queue)
		_, err := b.unmeasured().run(ctx, "", "", func(c *caller) (int, error) {
			_, err := c.post(pathPush, body)
			return 1, err
		})
		return err
	}
	n := cmp.Or(b.cfg.Jobs, int(min(30_000*math.Ceil(b.cfg.Duration.Seconds()), 200_000)))
	cs, hangUp, err := b.dial(ctx, 1)
	if err != nil {
		return err
	}
	defer hangUp()
	for size := b.fillBatch(); n > 0 && err == nil; n -= size {
		_, err = cs[0].post(pathBatch, b.batchJSON(queue, min(n, size)))
	}
	return err
}

// fillBatch is how many jobs a request has that fills a store: 500, or as many as
// keep it well below what a server takes.
func (b *bench) fillBatch() int { return max(1, min(500, 16<<20/(b.cfg.Payload+100))) }

// unmeasured prepares what is measured: as fast as it goes.
func (b *bench) unmeasured() *bench {
	plain := *b
	plain.point.rate, plain.held = 0, nil
	return &plain
}

func (b *bench) fetch(ctx context.Context) ([]Result, error) {
	if err := b.fill(ctx, "bench-fetch"); err != nil {
		return nil, err
	}
	return b.run(ctx, "fetch", "request", fetchStep(fetchJSON("bench-fetch", 1, 0)))
}

// fetchStep claims jobs and keeps them in the caller's claims.
func fetchStep(body []byte) func(*caller) (int, error) {
	return func(c *caller) (int, error) {
		n, err := c.claim(body)
		if err == nil && n == 0 {
			err = errDry
		}
		return n, err
	}
}

// claim fetches and appends to c.claims.
func (c *caller) claim(body []byte) (int, error) {
	answer, err := c.post(pathFetch, body)
	if err != nil {
		return 0, err
	}
	before := len(c.claims)
	c.claims = appendClaims(c.claims, answer)
	return len(c.claims) - before, nil
}

// appendClaims finds the jobs in an answer to FETCH. It looks for two members
// instead of parsing: the generator made the jobs, so it knows what is in them.
// Not every server gives tokens.
func appendClaims(to []claim, answer []byte) []claim {
	first := len(to)
	for {
		id, rest, ok := member(answer, `"id"`)
		if !ok || len(to) > first && to[first].id == id {
			return to // the end, or the first job once more under "job"
		}
		one, _, _ := bytes.Cut(rest, []byte(`"id"`))
		token, _, _ := member(one, `"lease_token"`)
		to = append(to, claim{id, token})
		answer = rest
	}
}

// member is the string after key, and what follows it.
func member(b []byte, key string) (value string, rest []byte, ok bool) {
	_, b, ok = bytes.Cut(b, []byte(key))
	b, colon := bytes.CutPrefix(bytes.TrimLeft(b, " "), []byte{':'})
	b, quote := bytes.CutPrefix(bytes.TrimLeft(b, " "), []byte{'"'})
	if !ok || !colon || !quote {
		return "", nil, false
	}
	v, rest, ok := bytes.Cut(b, []byte{'"'})
	return string(v), rest, ok
}

// ack acknowledges what it has fetched before.
func (b *bench) ack(ctx context.Context) ([]Result, error) {
	if err := b.fill(ctx, "bench-ack"); err != nil {
		return nil, err
	}
	before := b.unmeasured()
	if _, err := before.run(ctx, "", "", fetchStep(fetchJSON("bench-ack", 100, 0))); err != nil {
		return nil, err
	}
	cs, hangUp, err := b.dial(ctx, b.point.concurrency)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	for i, h := range before.held {
		c := cs[i%len(cs)]
		c.claims = append(c.claims, h)
	}
	r, err := b.load("ack", "request", cs, func(c *caller) (int, error) {
		if len(c.claims) == 0 {
			return 0, errDry
		}
		return 1, c.ackLast()
	})
	return []Result{r}, err
}

// ackLast acknowledges the caller's last claim.
func (c *caller) ackLast() error {
	last := c.claims[len(c.claims)-1]
	c.claims = c.claims[:len(c.claims)-1]
	c.buf = append(append(c.buf[:0], `{"job_id":"`...), last.id...)
	if last.token != "" {
		c.buf = append(append(c.buf, `","lease_token":"`...), last.token...)
	}
	c.buf = append(c.buf, `"}`...)
	_, err := c.post(pathAck, c.buf)
	return err
}

func (b *bench) cycle(ctx context.Context) ([]Result, error) {
	return b.run(ctx, "cycle", "cycle of 1 job", b.cycleStep("bench-cycle", 1))
}

func (b *bench) cycleOfTen(ctx context.Context) ([]Result, error) {
	return b.run(ctx, "fetch10", "cycle of 10 jobs", b.cycleStep("bench-fetch10", 10))
}

func (b *bench) nextTen(ctx context.Context) ([]Result, error) {
	const queue, n = "bench-next10", 10
	push, fetch := b.jobJSON(queue), fetchJSON(queue, n, 0)
	return b.runNext(ctx, "next10", "cycle of 10 jobs", func(c *caller) (int, error) {
		for range n {
			if _, err := c.post(pathPush, push); err != nil {
				return 0, err
			}
		}
		return c.next(fetch)
	})
}

func (b *bench) drainTen(ctx context.Context) ([]Result, error) {
	const queue = "bench-drain10"
	if err := b.fill(ctx, queue); err != nil {
		return nil, err
	}
	fetch := fetchJSON(queue, 10, 0)
	return b.runNext(ctx, "drain10", "request", func(c *caller) (int, error) {
		n, err := c.next(fetch)
		if err == nil && n == 0 && len(c.claims) == 0 {
			err = errDry
		}
		return n, err
	})
}

// runNext is run for steps of next, and says so where the server did not know it.
func (b *bench) runNext(ctx context.Context, name, what string, step func(*caller) (int, error)) ([]Result, error) {
	var plain atomic.Bool
	rs, err := b.run(ctx, name, what, func(c *caller) (int, error) {
		n, err := step(c)
		if c.plain {
			plain.Store(true)
		}
		return n, err
	})
	if plain.Load() {
		for i := range rs {
			rs[i].What += ", its ACKs one by one"
		}
	}
	return rs, err
}

// next acknowledges the caller's claims and fetches others, in one request, and says how
// many it has acknowledged. A server that does not know that is asked as any other.
func (c *caller) next(fetch []byte) (int, error) {
	if c.plain {
		return c.ackAndClaim(fetch)
	}
	c.buf = append(c.buf[:0], fetch[:len(fetch)-1]...)
	for i, done := range c.claims {
		if i == 0 {
			c.buf = append(c.buf, `,"acks":[`...)
		} else {
			c.buf = append(c.buf, ',')
		}
		c.buf = fmt.Appendf(c.buf, `{"job_id":%q,"lease_token":%q}`, done.id, done.token)
	}
	if len(c.claims) > 0 {
		c.buf = append(c.buf, ']')
	}
	answer, err := c.post(pathNext, append(c.buf, '}'))
	var r *refusal
	if errors.As(err, &r) && (r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed) {
		c.plain = true
		return c.ackAndClaim(fetch)
	}
	if err != nil {
		return 0, err
	}
	acks, jobs, whole := bytes.Cut(answer, []byte(`"jobs":[`))
	if !whole || bytes.Contains(acks, []byte(`"error":`)) {
		return 0, fmt.Errorf("an ACK or the FETCH was refused: %.300s", answer)
	}
	acked := len(c.claims)
	c.claims = appendClaims(c.claims[:0], jobs)
	return acked, nil
}

func (c *caller) ackAndClaim(fetch []byte) (int, error) {
	acked := len(c.claims)
	for len(c.claims) > 0 {
		if err := c.ackLast(); err != nil {
			return 0, err
		}
	}
	_, err := c.claim(fetch)
	return acked, err
}

// cycleStep pushes n jobs one by one, fetches n at once and acknowledges what it got one by one.
func (b *bench) cycleStep(queue string, n int) func(*caller) (int, error) {
	push, fetch := b.jobJSON(queue), fetchJSON(queue, n, 0)
	return func(c *caller) (int, error) {
		for range n {
			if _, err := c.post(pathPush, push); err != nil {
				return 0, err
			}
		}
		got, err := c.claim(fetch)
		for len(c.claims) > 0 && err == nil {
			err = c.ackLast()
		}
		return got, err
	}
}
