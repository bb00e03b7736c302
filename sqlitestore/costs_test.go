//go:build !race

package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/internal/costs"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
)

// shop is a sidecar over a store in a synctest bubble, whose ids and tokens come in
// turn: whatever it does is the same in each run. Time stands still while anything
// works, so no machine is slow enough for a turn of the writer to be over early.
type shop struct {
	*sidecar.Sidecar
	t       testing.TB
	path    string
	store   *Store
	options Options
	serial  int
}

func (p *shop) open() {
	p.t.Helper()
	store, err := Open(p.t.Context(), p.path, p.options)
	if err != nil {
		p.t.Fatal(err)
	}
	p.store = store
	p.Sidecar = sidecar.New(store, sidecar.Options{
		Rand: func() float64 { return 0.5 },
		NewID: func() job.ID {
			p.serial++
			return job.ID(fmt.Sprintf("01970000-%04x-7000-8000-%012x", p.serial>>8, p.serial&0xff))
		},
		Token: func() string { p.serial++; return fmt.Sprintf("%032x", p.serial) },
	})
	p.Recover(p.t.Context()) // as a server does
}

func (p *shop) close() {
	p.t.Helper()
	if err := p.store.Close(); err != nil {
		p.t.Error(err)
	}
}

func (p *shop) envelope(change func(*job.Envelope)) job.Envelope {
	p.serial++
	e := job.Envelope{Type: "email.send", Args: json.RawMessage(fmt.Sprintf(
		`[{"to":"ada@example.com","template":"welcome","order":%d,"note":"leave it with the neighbour at number nine, please"}]`, 100_000_000+p.serial))}
	if change != nil {
		change(&e)
	}
	return e
}

func unique(e *job.Envelope)    { e.Unique = json.RawMessage(`{"keys":["type","args"]}`) }
func scheduled(e *job.Envelope) { e.Delay = time.Hour }

// push stores n jobs at once.
func (p *shop) push(n int, change func(*job.Envelope)) (js []*job.Job) {
	p.t.Helper()
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = p.envelope(change)
	}
	rs, err := p.Enqueue(p.t.Context(), es...)
	if err != nil {
		p.t.Error(err)
	}
	for _, r := range rs {
		js = append(js, r.Job)
	}
	return js
}

func (p *shop) fetch(n, want int) []*job.Job {
	p.t.Helper()
	js, err := p.Fetch(p.t.Context(), job.FetchRequest{Queues: []string{"default"}, Worker: "w1", Count: n})
	if err != nil || len(js) != want {
		p.t.Errorf("fetched %d jobs, want %d: %v", len(js), want, err)
	}
	return js
}

func (p *shop) ack(js ...*job.Job) {
	p.t.Helper()
	for _, j := range js {
		if _, err := p.Ack(p.t.Context(), claimOf(j), json.RawMessage(`{"sent":true}`)); err != nil {
			p.t.Error(err)
		}
	}
}

func (p *shop) fail(j *job.Job) {
	p.t.Helper()
	if _, err := p.Fail(p.t.Context(), claimOf(j), job.Failure{Type: "SmtpError", Message: "the server does not answer"}); err != nil {
		p.t.Error(err)
	}
}

func (p *shop) beat(j *job.Job) {
	p.t.Helper()
	if r, err := p.Beat(p.t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(j)}}); err != nil || len(r.Extended) != 1 {
		p.t.Errorf("beat: %+v, %v", r, err)
	}
}

func claimOf(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: j.Lease.Token} }

// group makes n calls, one after the other, while the writer is kept busy by one more:
// all of them are one commit.
func (p *shop) group(n int, do func(i int)) {
	p.t.Helper()
	release, ended := make(chan struct{}), make(chan struct{}, n+1)
	go func() {
		if err := p.store.Update(context.Background(), func(job.Tx) error { <-release; return nil }); err != nil {
			p.t.Error(err)
		}
		ended <- struct{}{}
	}()
	synctest.Wait()
	for i := range n {
		go func() { do(i); ended <- struct{}{} }()
		synctest.Wait()
	}
	close(release)
	for range n + 1 {
		<-ended
	}
}

// bubbled runs fn with a shop in a bubble.
func bubbled(t *testing.T, o Options, fn func(*shop)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.db")
	synctest.Test(t, func(t *testing.T) {
		p := &shop{t: t, path: path, options: o}
		p.open()
		defer p.close()
		fn(p)
	})
}

const (
	repeats = 100  // how often an operation is counted
	many    = 64   // calls in a group
	stored  = 1000 // jobs of another queue that wait beside all that is counted
)

// Statements, rows and pages of each operation, counted in a store whose writer is warm.
func TestCosts(t *testing.T) {
	table := costs.Table{
		About: `What an operation makes the store do: the mean of 100 in turn, or of all that a line says together, beside 1,000 jobs of another queue.

tx: transactions of the writer. A flush of the disk each, where there are pages.
selects, inserts, updates, deletes, others: the writer's statements; others are savepoints, rollbacks, pragmas.
compiled: statements that were not prepared before. found: rows that the writer's statements answered.
rows: rows that were changed. pages, bytes: what was added to the log, which is what the disk has to write.
views: statements on the connections that only read, BEGIN among them.
An idle minute is one of a whole sidecar with all its duties; others are statements of its checkpointer there, too.`,
		Columns: []costs.Column{{Name: "tx"}, {Name: "selects"}, {Name: "inserts"}, {Name: "updates"}, {Name: "deletes"}, {Name: "others"},
			{Name: "compiled"}, {Name: "found"}, {Name: "rows"}, {Name: "pages"}, {Name: "bytes"}, {Name: "views"}},
	}
	for i := range table.Columns {
		table.Columns[i].Digits = 2
	}
	table.Columns[10].Digits = 0
	add := func(name string, n int, was, now reading, all bool) {
		w, views, others := now.writer.less(was.writer), now.reader.less(was.reader).all(), 0
		if all {
			others = now.other.less(was.other).all()
		}
		var figures []float64
		for _, v := range []int{w.begun, w.selects, w.inserts, w.updates, w.deletes, w.others + others, w.compiled, w.found,
			int(now.rows - was.rows), int(now.pages() - was.pages()), int(now.log - was.log), views} {
			figures = append(figures, float64(v)/float64(n))
		}
		table.Add(name, figures...)
	}
	look := func(p *shop, m *meter) reading {
		synctest.Wait()
		r, err := m.read(p.store)
		if err != nil {
			p.t.Fatal(err)
		}
		return r
	}
	for _, c := range costed {
		m := &meter{}
		bubbled(t, Options{alone: true, watch: m.watch}, func(p *shop) {
			p.push(stored, func(e *job.Envelope) { e.Queue = "other" })
			n, warm := repeats, 3
			if c.once {
				n, warm = 1, 0
			}
			do := c.ready(p, n+warm)
			if c.reopen {
				m.conn = nil // the next store has a writer of its own
				p.close()
				p.open()
			}
			for i := range warm {
				do(i)
				time.Sleep(time.Millisecond)
			}
			was := look(p, m)
			for i := range n {
				do(warm + i)
				time.Sleep(time.Millisecond)
			}
			now := look(p, m)
			add(c.name, n, was, now, false)
		})
	}
	var written []string
	for _, c := range idling {
		m := &meter{}
		bubbled(t, Options{watch: m.watch}, func(p *shop) {
			ctx, stop := context.WithCancel(p.t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = p.Run(ctx) }()
			c.ready(p, ctx)
			time.Sleep(time.Minute)
			was := look(p, m)
			time.Sleep(c.length)
			now := look(p, m)
			wrote := now.writer.less(was.writer)
			if n := wrote.inserts + wrote.updates + wrote.deletes; c.length == time.Minute && (n > 0 || now.rows != was.rows || now.log != was.log) {
				written = append(written, fmt.Sprintf("%s: %d statements that write, %d rows, %d pages; want none", c.name, n, now.rows-was.rows, now.pages()-was.pages()))
			}
			add(c.name, 1, was, now, true)
			stop()
			<-ended
			synctest.Wait()
		})
	}
	for _, w := range written {
		t.Error(w)
	}
	table.Check(t, "testdata/costs.golden", *updateGolden)
}

// costed are the operations. ready makes all that n of them need, and returns the one
// that is counted.
var costed = []struct {
	name   string
	ready  func(p *shop, n int) func(i int)
	once   bool // it is counted once
	reopen bool // the store is closed and opened before
}{
	{name: "PUSH", ready: func(p *shop, _ int) func(int) { return func(int) { p.push(1, nil) } }},
	{name: "PUSH, with a unique key", ready: func(p *shop, _ int) func(int) { return func(int) { p.push(1, unique) } }},
	{name: "PUSH, its unique key is held", ready: func(p *shop, n int) func(int) {
		e := p.envelope(unique)
		return func(int) {
			if _, err := p.Enqueue(p.t.Context(), e); err != nil && job.KindOf(err) != job.Duplicate {
				p.t.Error(err)
			}
		}
	}},
	{name: "PUSH, scheduled", ready: func(p *shop, _ int) func(int) { return func(int) { p.push(1, scheduled) } }},
	{name: "PUSH, a batch of 100", ready: func(p *shop, _ int) func(int) { return func(int) { p.push(100, nil) } }},
	{name: "PUSH, a batch of 100 with keys", ready: func(p *shop, _ int) func(int) { return func(int) { p.push(100, unique) } }},
	{name: "64 PUSHes in one group", ready: func(p *shop, _ int) func(int) {
		return func(int) { p.group(many, func(int) { p.push(1, nil) }) }
	}},
	{name: "64 PUSHes with keys in one group", ready: func(p *shop, _ int) func(int) {
		return func(int) { p.group(many, func(int) { p.push(1, unique) }) }
	}},
	{name: "FETCH, of a job just pushed", ready: func(p *shop, n int) func(int) { // each is as fresh as the writer's memory
		p.push(n, nil)
		return func(int) { p.fetch(1, 1) }
	}},
	{name: "FETCH, the first after a reopen", once: true, reopen: true, ready: func(p *shop, _ int) func(int) {
		p.push(500, nil)
		return func(int) { p.fetch(1, 1) }
	}},
	{name: "FETCH, of a backlog after a reopen", reopen: true, ready: func(p *shop, _ int) func(int) {
		p.push(500, nil)
		return func(int) { p.fetch(1, 1) }
	}},
	{name: "FETCH, of 10", ready: func(p *shop, n int) func(int) {
		p.push(n*10, nil)
		return func(int) { p.fetch(10, 10) }
	}},
	{name: "FETCH, of an empty queue", ready: func(p *shop, _ int) func(int) { return func(int) { p.fetch(1, 0) } }},
	{name: "ACK", ready: func(p *shop, n int) func(int) {
		js := p.running(n)
		return func(i int) { p.ack(js[i]) }
	}},
	{name: "ACK, after a reopen", reopen: true, ready: func(p *shop, n int) func(int) {
		js := p.running(n)
		return func(i int) { p.ack(js[i]) }
	}},
	{name: "FAIL, and a retry", ready: func(p *shop, n int) func(int) {
		js := p.running(n)
		return func(i int) { p.fail(js[i]) }
	}},
	{name: "BEAT, of one job", ready: func(p *shop, n int) func(int) {
		js := p.running(1)
		return func(i int) { time.Sleep(15 * time.Second); p.beat(js[0]) }
	}},
	{name: "PUSH, FETCH, ACK", ready: func(p *shop, _ int) func(int) {
		return func(int) { p.push(1, nil); p.ack(p.fetch(1, 1)...) }
	}},
	{name: "64 times PUSH, FETCH, ACK in three groups", ready: func(p *shop, _ int) func(int) {
		return func(int) {
			js := make([][]*job.Job, many)
			p.group(many, func(int) { p.push(1, nil) })
			p.group(many, func(i int) { js[i] = p.fetch(1, 1) })
			p.group(many, func(i int) { p.ack(js[i]...) })
		}
	}},
	{name: "GET of a job", ready: func(p *shop, n int) func(int) {
		js := p.push(n, nil)
		return func(i int) {
			if _, err := p.Job(p.t.Context(), js[i].ID); err != nil {
				p.t.Error(err)
			}
		}
	}},
}

// running are n jobs that a worker runs.
func (p *shop) running(n int) (js []*job.Job) {
	p.t.Helper()
	p.push(n, nil)
	for chunk := range slices.Chunk(make([]struct{}, n), 100) {
		js = append(js, p.fetch(len(chunk), len(chunk))...)
	}
	return js
}

// idling are the sidecars that have nothing to do.
var idling = []struct {
	name   string
	length time.Duration
	ready  func(p *shop, ctx context.Context)
}{
	{"an idle minute, of an empty store", time.Minute, func(*shop, context.Context) {}},
	{"an idle minute, beside jobs that wait", time.Minute, waiting},
	{"an idle minute, of 64 workers that wait", time.Minute, func(p *shop, ctx context.Context) {
		for i := range many {
			go func() {
				time.Sleep(time.Duration(i) * 311 * time.Millisecond) // so that no two are one group by chance
				for ctx.Err() == nil {
					_, _ = p.Fetch(ctx, job.FetchRequest{Queues: []string{"default"}, Wait: 20 * time.Second}) // fails when ctx ends
				}
			}()
		}
	}},
	{"an idle hour, beside jobs that wait", time.Hour, waiting},
}

// waiting stores jobs of which none is due, nor fetched, and a schedule.
func waiting(p *shop, _ context.Context) {
	p.push(stored, nil)
	p.push(stored, func(e *job.Envelope) { e.Delay = 10 * time.Hour })
	spec := job.CronSpec{Name: "nightly", Expression: "0 3 * * *", Template: json.RawMessage(`{"type":"report.make","args":[]}`)}
	if _, _, err := p.PutCron(p.t.Context(), spec); err != nil {
		p.t.Error(err)
	}
}
