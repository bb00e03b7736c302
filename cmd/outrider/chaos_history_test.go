//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// handled is one run of a handler. Times are microseconds since 1970.
type handled struct {
	job      job.ID
	order    int64
	server   string
	queue    string
	priority int
	began    int64
	done     int64 // 0: the handler has not come to its end
	acked    int64 // when the server said that the job has ended; 0: nobody knows
}

// excuse is why the job of an order may run once more though it has ended: at a
// fault its row was in the outbox still, or its job was live in the store that
// was put back.
type excuse struct {
	fault int
	order int64
	why   string
}

// mishap is what was done to a server.
type mishap struct {
	server, what string
	at           int64
}

// history is what happened in a test of chaos: what the workers did, and what was
// done to the servers. The judge reads it from tables beside those of the app.
type history struct {
	mu      sync.Mutex // guards all below
	runs    []*handled
	leases  map[string]*handled // by the token of the reservation
	orders  map[int64]bool      // that were done
	faults  []mishap
	excuses []excuse
}

func newHistory() *history { return &history{leases: map[string]*handled{}, orders: map[int64]bool{}} }

// done is how many orders were done, and how many runs there were beyond one for each.
func (h *history) done() (orders, again int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if r.done > 0 {
			again++
		}
	}
	return len(h.orders), again - len(h.orders)
}

// fault notes a fault, and what is excused by it.
func (h *history) fault(server, what string, because ...excuse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, mishap{server, what, time.Now().UnixMicro()})
	for _, e := range because {
		e.fault = len(h.faults)
		h.excuses = append(h.excuses, e)
	}
}

// each reports whether every fault was one of these.
func (h *history) each(whats ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.faults, func(f mishap) bool { return !slices.Contains(whats, f.what) })
}

// begins notes that a handler was called.
func (h *history) begins(server string, j *job.Job) (*handled, error) {
	order, err := orderOf(string(j.Args))
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &handled{job: j.ID, order: order, server: server, queue: j.Queue, priority: j.Priority, began: time.Now().UnixMicro()}
	h.runs = append(h.runs, r)
	h.leases[j.Lease.Token] = r
	return r, nil
}

func (h *history) ends(r *handled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.done = time.Now().UnixMicro()
	h.orders[r.order] = true
}

func (h *history) acked(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.leases[token]; r != nil {
		r.acked = time.Now().UnixMicro()
	}
}

// listener is a client that notes which ends of jobs the server has heard.
type listener struct {
	*client.Client
	h *history
}

func (l listener) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	acked, err := l.Client.AckAll(ctx, acks)
	l.note(acks, acked)
	return acked, err
}

func (l listener) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	acked, jobs, err := l.Client.Next(ctx, acks, f)
	l.note(acks, acked)
	return acked, jobs, err
}

func (l listener) note(acks []job.AckRequest, acked []job.Acked) {
	for i, v := range acked {
		if v.Err == nil {
			l.h.acked(acks[i].Token)
		}
	}
}

// work runs a worker of the server at url until the test ends or stop is
// called: so many jobs at once, each for 1 ms to take more.
func (h *history) work(t *testing.T, server, url string, atOnce int, take time.Duration) (stop func()) {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := client.NewWorker(listener{c, h}, client.WorkerOptions{Queues: chaosQueues, Concurrency: atOnce, Heartbeat: 500 * time.Millisecond,
		Visibility: 3 * time.Second, Wait: time.Second, Grace: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	w.HandleFunc("order.confirm", func(ctx context.Context, j *job.Job) error {
		r, err := h.begins(server, j)
		if err != nil {
			return client.Discard(err)
		}
		if take > 0 {
			time.Sleep(time.Millisecond + time.Duration(mathrand.Int64N(int64(take))))
		}
		h.ends(r)
		return nil
	})
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := w.Run(ctx); err != nil {
				t.Logf("the worker of %s: %v", url, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		c.Close()
	})
	t.Cleanup(stop)
	return stop
}

var firstNumber = regexp.MustCompile(`\d+`)

// orderOf is the order that args name.
func orderOf(args string) (int64, error) {
	return strconv.ParseInt(firstNumber.FindString(args), 10, 64)
}

// held are excuses for the orders whose rows are in the outbox now.
func (s *chaosShop) held() (all []excuse) {
	s.t.Helper()
	s.each(`SELECT job_args FROM ojs_outbox WHERE status <> 'parked'`, func(scan func(...any)) {
		var args string
		scan(&args)
		order, err := orderOf(args)
		s.must(err)
		all = append(all, excuse{order: order, why: "its row was in the outbox"})
	})
	return all
}

// each calls f for each row that a query answers with.
func (s *chaosShop) each(query string, f func(scan func(...any))) {
	s.t.Helper()
	rows, err := s.app.Query(query)
	if err != nil {
		s.t.Fatalf("%.300s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		f(func(to ...any) { s.must(rows.Scan(to...)) })
	}
	s.must(rows.Err())
}

// keepHistory writes down what happened, and which rows are parked, beside the
// orders.
func (s *chaosShop) keepHistory(h *history) {
	s.t.Helper()
	for _, stmt := range []string{
		`CREATE TABLE runs (job_id VARCHAR(36), order_id BIGINT, server VARCHAR(20), queue VARCHAR(20), priority INTEGER, began BIGINT, acked BIGINT)`,
		`CREATE TABLE excuses (fault BIGINT, order_id BIGINT, why VARCHAR(60))`,
		`CREATE TABLE faults (fault BIGINT, server VARCHAR(20), what VARCHAR(60), at BIGINT)`,
		`CREATE TABLE parked (order_id BIGINT, error VARCHAR(300))`,
	} {
		s.exec(stmt)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var runs, excuses, faults, parked []string
	for _, r := range h.runs {
		if r.done > 0 {
			runs = append(runs, fmt.Sprintf("('%s',%d,'%s','%s',%d,%d,%d)", r.job, r.order, r.server, r.queue, r.priority, r.began, r.acked))
		}
	}
	for _, e := range h.excuses {
		excuses = append(excuses, fmt.Sprintf("(%d,%d,'%s')", e.fault, e.order, e.why))
	}
	for i, f := range h.faults {
		faults = append(faults, fmt.Sprintf("(%d,'%s','%s',%d)", i+1, f.server, f.what, f.at))
	}
	s.each(`SELECT job_args, coalesce(error, '') FROM ojs_outbox WHERE status = 'parked'`, func(scan func(...any)) {
		var args, why string
		scan(&args, &why)
		order, err := orderOf(args)
		s.must(err)
		parked = append(parked, fmt.Sprintf("(%d,'%.300s')", order, strings.ReplaceAll(why, "'", "")))
	})
	s.insert("runs", runs)
	s.insert("excuses", excuses)
	s.insert("faults", faults)
	s.insert("parked", parked)
	for _, of := range []string{"runs (order_id)", "runs (job_id)", "excuses (order_id)", "parked (order_id)"} {
		s.exec(`CREATE INDEX ` + strings.NewReplacer(" (", "_", ")", "").Replace(of) + ` ON ` + of)
	}
}

// insert writes values into a table, many at once.
func (s *chaosShop) insert(table string, values []string) {
	s.t.Helper()
	tx, err := s.app.Begin()
	s.must(err)
	defer func(tx *sql.Tx) { _ = tx.Rollback() }(tx) // after Commit it does nothing
	for len(values) > 0 {
		n := min(len(values), 500)
		if _, err := tx.Exec(`INSERT INTO ` + table + ` VALUES ` + strings.Join(values[:n], ",")); err != nil {
			s.t.Fatalf("write the %s: %v", table, err)
		}
		values = values[n:]
	}
	s.must(tx.Commit())
}
