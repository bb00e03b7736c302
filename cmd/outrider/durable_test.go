//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// ledger is what a server was asked for and what it has answered.
type ledger struct {
	mu      sync.Mutex
	batches [][]job.Envelope        // asked for, answered or not
	pushed  map[job.ID]job.Envelope // the answer was a success
	held    map[job.ID]*job.Job     // fetched, and nothing was said of it since
	doubt   map[job.ID]bool         // something was said, and not answered
	ended   map[job.ID]*job.Job     // as the answer to ACK, FAIL or CANCEL showed it
	answers int
	enough  chan struct{} // closed when there are so many answers
	limit   int
	closed  bool // what is answered from now on does not count
}

func newLedger(limit int) *ledger {
	return &ledger{pushed: map[job.ID]job.Envelope{}, held: map[job.ID]*job.Job{}, doubt: map[job.ID]bool{}, ended: map[job.ID]*job.Job{},
		enough: make(chan struct{}), limit: limit}
}

// note writes down an answer.
func (l *ledger) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	what()
	if l.answers++; l.answers == l.limit {
		close(l.enough)
	}
}

// close takes no more answers.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// produce pushes batches of one to six jobs until the server is gone.
func (l *ledger) produce(ctx context.Context, s job.Service, n int) {
	for i := 0; ; i++ {
		es := make([]job.Envelope, 1+rand.IntN(6))
		for k := range es {
			es[k] = job.Envelope{ID: job.ID(uuid.Must(uuid.NewV7()).String()), Type: "a.b", Queue: "q", Args: json.RawMessage(fmt.Sprintf("[%d, %d,%d.0]", n, i, k))}
			switch rand.IntN(6) {
			case 0:
				es[k].Delay = time.Hour
			case 1:
				es[k].Hold = true
			case 2:
				es[k].Unique = json.RawMessage(`{"keys":["args"]}`)
			}
		}
		l.mu.Lock()
		l.batches = append(l.batches, slices.Clone(es))
		l.mu.Unlock()
		rs, err := s.Enqueue(ctx, es...)
		if err != nil {
			return
		}
		l.note(func() {
			for k, r := range rs {
				l.pushed[r.ID] = es[k]
			}
		})
	}
}

// work fetches jobs until the server is gone, and ends two of three in some way.
func (l *ledger) work(ctx context.Context, s job.Service) {
	for {
		jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{"q"}, Count: 3, Visibility: time.Hour, Wait: time.Second})
		if err != nil {
			return
		}
		l.note(func() {
			for _, j := range jobs {
				l.held[j.ID] = j
			}
		})
		for _, j := range jobs {
			if rand.IntN(3) == 0 {
				continue
			}
			l.mu.Lock()
			l.doubt[j.ID] = true
			l.mu.Unlock()
			done, err := end(ctx, s, j)
			if err != nil {
				return
			}
			l.note(func() {
				delete(l.doubt, j.ID)
				delete(l.held, j.ID)
				l.ended[j.ID] = done
			})
		}
	}
}

// end says something of a job.
func end(ctx context.Context, s job.Service, j *job.Job) (*job.Job, error) {
	c := job.Claim{ID: j.ID, Token: j.Lease.Token}
	switch rand.IntN(4) {
	case 0:
		done, err := s.Cancel(ctx, j.ID, "", "")
		return done.Job, err
	case 1:
		return s.Fail(ctx, c, job.Failure{Type: "net.x", Message: "no", Code: "DEAD_LETTER"})
	}
	return s.Ack(ctx, c, json.RawMessage(`{"of": "`+string(j.ID)+`"}`))
}

// judge compares a server with what the one before has answered.
func (l *ledger) judge(t *testing.T, s job.Service) {
	t.Helper()
	show := func(j *job.Job) string { return string(j.AppendJSON(nil, job.View{})) }
	there := map[job.ID]*job.Job{}
	for _, batch := range l.batches {
		n := 0
		for _, e := range batch {
			j, err := s.Job(t.Context(), e.ID)
			if err == nil {
				there[e.ID] = j
				n++
			} else if job.KindOf(err) != job.NotFound {
				t.Fatal(err)
			}
		}
		if n != 0 && n != len(batch) {
			t.Errorf("%d jobs of a batch of %d are there", n, len(batch))
		}
	}
	for id, e := range l.pushed {
		if j := there[id]; j == nil || !bytes.Equal(j.Args, e.Args) || j.Type != e.Type {
			t.Errorf("%s was acknowledged with %s, and is %v", id, e.Args, j)
		}
	}
	for id, was := range l.ended {
		if j := there[id]; j == nil || show(j) != show(was) {
			t.Errorf("%s was answered as\n%s, and is\n%v", id, show(was), j)
		}
	}
	for id, was := range l.held {
		if j := there[id]; !l.doubt[id] && (j == nil || j.State != job.Active || j.Attempt != was.Attempt || !j.Lease.Until.Equal(was.Lease.Until)) {
			t.Errorf("%s was given out as\n%s, and is\n%v", id, show(was), j)
		} else if !l.doubt[id] {
			if _, err := s.Ack(t.Context(), job.Claim{ID: id, Token: was.Lease.Token}, nil); err != nil {
				t.Errorf("its holder can no longer end %s: %v", id, err)
			}
		}
	}
	for {
		jobs, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			return
		}
		for _, j := range jobs {
			if l.ended[j.ID] != nil || l.held[j.ID] != nil && !l.doubt[j.ID] || j.Attempt != 1 {
				t.Errorf("%s is given out again: %s", j.ID, show(j))
			}
		}
	}
}

// outlive has a server answer so many times, and stops it in the midst: what it has
// answered is so when one begins again on its file.
func outlive(t *testing.T, db string, answers int, stop func(*process, *ledger)) {
	t.Helper()
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
	s, err := client.New(readyURL(t, p.stdout), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(answers)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() { l.produce(t.Context(), s, n) })
		wg.Go(func() { l.work(t.Context(), s) })
	}
	<-l.enough
	stop(p, l)
	wg.Wait()
	_ = p.Wait() // it was killed
	s.Close()
	again := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
	s, err = client.New(readyURL(t, again.stdout), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.judge(t, s)
	s.Close()
	again.signal(t)
	again.end(t, 20*time.Second)
	store, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Audit(t, store)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	sound(t, db)
	t.Logf("%d answers, %d jobs, %d ended, %d held, %d in doubt", l.answers, len(l.pushed), len(l.ended), len(l.held), len(l.doubt))
}

// sound has SQLite check a file that nobody has open, and leaves it so.
func sound(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var whole string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&whole); err != nil || whole != "ok" {
		t.Errorf("the server's file: %s, %v", whole, err)
	}
}

// ojs-delivery-guarantees.md §6.1, §10.1, §10.3, DG-002, DG-007, DG-008: what the
// server has answered is so after SIGKILL, whatever it was doing, and a batch is
// there whole or not at all. OUTRIDER_KILLS says how many kills, 3 by itself.
func TestAnswersOutliveAKill(t *testing.T) {
	t.Parallel()
	db := tempDB(t)
	kills := 3
	if s := os.Getenv("OUTRIDER_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for range kills {
		outlive(t, db, 200+rand.IntN(200), func(p *process, _ *ledger) {
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
