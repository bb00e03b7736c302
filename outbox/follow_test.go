package outbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
)

// order inserts a row with args [n] by the statement that Go uses, and says which
// one it is. An empty id is none.
func (w *world) order(id string, n int, options string) (row int64) {
	w.t.Helper()
	given := any(id)
	if id == "" {
		given = nil
	}
	if options == "" {
		options = "{}"
	}
	w.exec(w.d.Statements().Insert, given, "order.confirm", fmt.Sprintf("[%d]", n), options)
	if err := w.app.QueryRow(`SELECT max(id) FROM ojs_outbox`).Scan(&row); err != nil {
		w.t.Fatal(err)
	}
	return row
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// orders inserts rows with args n to m-1, every other one with an id of its own.
func (w *world) orders(n, m int) {
	w.t.Helper()
	for i := n; i < m; i++ {
		id := ""
		if i%2 == 1 {
			id = newID(w.t)
		}
		w.order(id, i, "")
	}
}

// holds ends the test where the outbox has other rows than these, as held tells them.
func (w *world) holds(t testing.TB, want string) {
	t.Helper()
	if got := w.held(); got != want {
		t.Fatalf("there are\n%q, want\n%q", got, want)
	}
}

// held are the args of the rows that are there, by their status.
func (w *world) held() string {
	w.t.Helper()
	rows, err := w.app.Query(`SELECT status, job_args FROM ojs_outbox ORDER BY id`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var status, args string
		if err := rows.Scan(&status, &args); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, status+args)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// statuses is what held returns for rows n to m-1 of one status.
func statuses(status string, n, m int) string {
	var all []string
	for i := n; i < m; i++ {
		all = append(all, fmt.Sprintf("%s[%d]", status, i))
	}
	return strings.Join(all, " ")
}

// die ends a pod as a kill does: its relay says nothing to the outbox.
func (p *pod) die(t testing.TB) {
	t.Helper()
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// forget removes the jobs that have ended, as a retention does that is over.
func (p *pod) forget(t testing.TB) (gone []job.ID) {
	t.Helper()
	page, err := p.Jobs(t.Context(), job.Filter{States: []job.State{job.Completed, job.Cancelled, job.Discarded}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	err = p.store.Update(t.Context(), func(tx job.Tx) error {
		gone = nil
		for _, j := range page.Jobs {
			gone = append(gone, j.ID)
			if err := tx.DeleteJob(j.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return gone
}

// copyDisk reads a store's files while nobody writes; putBack writes them back.
func copyDisk(t testing.TB, disk string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(disk + end)
		if err == nil {
			files[end] = b
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return files
}

func putBack(t testing.TB, disk string, files map[string][]byte) {
	t.Helper()
	old, err := filepath.Glob(disk + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for end, b := range files {
		if err := os.WriteFile(disk+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *pod) said() string { return strings.Join(p.log.all(), "") }

// TestARestartFollowsItsJobs: a job server that starts again on its disk goes on
// with its rows, with and without ids, also with those whose jobs ended while the
// relay was away, and when those are forgotten. What has not ended outlives the disk.
func TestARestartFollowsItsJobs(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, onComplete)
		w.orders(0, 30)
		step(t, p.relay)
		p.work(t, 5)
		step(t, p.relay)
		p.work(t, 5) // nobody looks
		if n := len(p.forget(t)); n != 10 {
			t.Fatalf("%d jobs are forgotten, want 10", n)
		}
		p.work(t, 5)
		p.die(t)

		p = w.pod(t, d, onComplete)
		step(t, p.relay)
		w.holds(t, statuses("relayed", 15, 30))
		p.work(t, 5)
		step(t, p.relay)
		w.holds(t, statuses("relayed", 20, 30))
		was := ids(t, p.store)
		p.die(t)

		q := w.pod(t, disk(t), onComplete) // the disk is gone
		w.outlive(p, q)
		w.until("the other has the rows", func() bool { step(t, q.relay); return w.arrived(q) == 10 })
		if !subset(ids(t, q.store), was) {
			t.Error("the other has them under other ids")
		}
		if got := strings.Join(q.work(t, 10), ""); got != "[20][21][22][23][24][25][26][27][28][29]" {
			t.Errorf("it did %s", got)
		}
		step(t, q.relay)
		if n := w.rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if all := p.said() + q.said(); strings.Contains(all, "older") || strings.Contains(all, "nothing tells") {
			t.Errorf("it says %q", all)
		}
	})
}

// TestAnOldStorePutBack: a copy of the disk from before is put back, and has taken
// jobs of its own before its relay reaches the outbox. What it does not know is
// sent again, and told; what has ended in it is not.
func TestAnOldStorePutBack(t *testing.T) {
	for _, c := range []struct {
		name string
		live bool // the copy is taken while the process goes on, so its epoch is the same
	}{{"of a process that went on", true}, {"between two processes", false}} {
		t.Run(c.name, func(t *testing.T) { onEach(t, func(t *testing.T, w *world) { oldStore(t, w, c.live) }) })
	}
}

func oldStore(t *testing.T, w *world, live bool) {
	d := disk(t)
	p := w.pod(t, d, onComplete)
	w.orders(0, 8)
	w.order("", 8, `{"delay":"PT1H","unique":{"keys":["type"],"on_conflict":"replace_except_schedule","states":["scheduled"]}}`)
	step(t, p.relay)
	p.work(t, 2)
	step(t, p.relay)
	p.work(t, 2)
	files := copyDisk(t, d)
	if !live {
		p.die(t)
		files = copyDisk(t, d)
		p = w.pod(t, d, onComplete)
	}
	step(t, p.relay)
	w.order(newID(t), 9, `{"delay":"PT1H","unique":{"keys":["type"],"on_conflict":"replace_except_schedule","states":["scheduled"]}}`)
	w.orders(10, 20)
	step(t, p.relay)
	p.work(t, 3)
	step(t, p.relay)
	w.holds(t, statuses("relayed", 7, 20))
	was := ids(t, p.store)
	p.die(t)
	putBack(t, d, files)

	p = w.pod(t, d, onComplete) // its outbox is not there yet
	for range 40 {
		if _, err := p.Enqueue(t.Context(), job.Envelope{Type: "x", Args: []byte(`[]`), Queue: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	p.die(t)

	broken, good := w.d.Statements(), w.d
	broken.Again = "no statement"
	w.d = outbox.NewDialect(broken)
	p = w.pod(t, d, onComplete)
	w.d = good
	if _, err := p.relay.Step(t.Context()); err == nil {
		t.Fatal("it could mark")
	}
	p.die(t) // in the middle of it

	p = w.pod(t, d, onComplete)
	step(t, p.relay)
	w.holds(t, statuses("relayed", 7, 20))
	if got := p.said(); !strings.Contains(got, "older") || !strings.Contains(got, "rows_sent_again=11") {
		t.Errorf("it says %q", got)
	}
	for id := range was {
		if _, err := p.Job(t.Context(), id); err != nil {
			t.Errorf("job %s: %v", id, err)
		}
	}
	if got := w.scheduled(p); got != "[9]" {
		t.Errorf("the rewritten job has %s", got)
	}
	p.work(t, 4+10) // 4 to 7, of which three ended elsewhere, and 10 to 19
	step(t, p.relay)
	w.holds(t, statuses("relayed", 8, 10))
	p.die(t)

	p = w.pod(t, d, onComplete)
	step(t, p.relay)
	if got := p.said(); strings.Contains(got, "older") {
		t.Errorf("the next start says %q", got)
	}
}

// scheduled are the args of the scheduled jobs.
func (w *world) scheduled(p *pod) (args string) {
	w.t.Helper()
	page, err := p.Jobs(w.t.Context(), job.Filter{States: []job.State{job.Scheduled}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		args += string(j.Args)
	}
	return args
}

// TestAnOldStoreOfOnRelay: what went with the younger disk is told.
func TestAnOldStoreOfOnRelay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, outbox.RelayOptions{})
		w.orders(0, 4)
		step(t, p.relay)
		files := copyDisk(t, d)
		w.orders(4, 8)
		step(t, p.relay)
		p.die(t)
		putBack(t, d, files)
		for _, want := range []bool{true, false} {
			p = w.pod(t, d, outbox.RelayOptions{})
			step(t, p.relay)
			if got := p.said(); strings.Contains(got, "released with on_relay since then are lost") != want {
				t.Errorf("it says %q", got)
			}
			p.die(t)
		}
	})
}

// TestAStoreWithoutAge: where nothing tells how old a disk is, what it does not
// know is sent again.
func TestAStoreWithoutAge(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, onComplete)
		w.orders(0, 4)
		step(t, p.relay)
		w.exec(`UPDATE ojs_outbox_relays SET epoch = NULL, upto = NULL`)
		p.work(t, 1)
		p.forget(t)
		p.die(t)
		p = w.pod(t, d, onComplete)
		step(t, p.relay)
		w.holds(t, statuses("relayed", 0, 4))
		if got := p.said(); !strings.Contains(got, "nothing tells") || !strings.Contains(got, "rows_sent_again=1") {
			t.Errorf("it says %q", got)
		}
	})
}

// meetings are rows that a job answers for which is there already.
var meetings = map[string]string{
	"ignored":      `{"unique":{"keys":["type"],"on_conflict":"ignore"}}`,
	"rewritten":    `{"delay":"PT1H","unique":{"keys":["type"],"on_conflict":"replace_except_schedule"}}`,
	"deduplicated": `{"deduplication":{"id":"k"}}`,
	"throttled":    `{"deduplication":{"id":"k","ttl":3600,"extend":true}}`,
	"custom id":    `{"job_id":"mine"}`,
}

// TestARowAnotherJobAnswersFor: it stays until that job has ended, over a
// restart, and is sent under its own id when the disk is lost.
func TestARowAnotherJobAnswersFor(t *testing.T) {
	for name, options := range meetings {
		t.Run(name, func(t *testing.T) { onEach(t, func(t *testing.T, w *world) { answered(t, w, options) }) })
	}
}

func answered(t *testing.T, w *world, options string) {
	d := disk(t)
	p := w.pod(t, d, onComplete)
	if _, err := p.Enqueue(t.Context(), envelope(t, options)); err != nil { // not through the outbox
		t.Fatal(err)
	}
	mine := newID(t)
	w.order("", 1, options)
	w.order(mine, 2, options)
	step(t, p.relay)
	w.order("", 3, options)
	step(t, p.relay)
	w.holds(t, statuses("relayed", 1, 4))
	if n := len(ids(t, p.store)); n != 1 {
		t.Fatalf("%d jobs answer for them, want 1", n)
	}
	p.die(t)

	p = w.pod(t, d, onComplete)
	step(t, p.relay)
	w.holds(t, statuses("relayed", 1, 4))
	q := w.pod(t, disk(t), onComplete) // the disk is lost
	w.outlive(p, q)
	w.until("another has sent them again", func() bool { step(t, q.relay); return w.status().Relayed == 3 })
	had := ids(t, q.store)
	if len(had) != 1 || had[job.ID(mine)] {
		t.Errorf("the other has %v, want the job of the first row alone", had)
	}
	for id := range had {
		if _, err := q.Cancel(t.Context(), id, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	step(t, q.relay)
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows are left when the job has ended: %s", n, w.held())
	}
}

func envelope(t *testing.T, options string) job.Envelope {
	t.Helper()
	c, err := job.ParseChecked([]byte(`{"type":"order.confirm","args":[0],"options":` + options + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return c.Envelope()
}

// TestARowAnEndedJobAnswersFor goes at once; not so the rows of a job that a later
// one has replaced: that one answers for them now.
func TestARowAnEndedJobAnswersFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		w.order("", 1, `{"job_id":"mine"}`)
		step(t, p.relay)
		p.work(t, 1)
		w.order(newID(t), 2, `{"job_id":"mine"}`)
		step(t, p.relay)
		w.holds(t, "")
		w.order("", 3, `{"unique":{"keys":["type"],"on_conflict":"ignore"}}`)
		w.order("", 4, `{"unique":{"keys":["type"],"on_conflict":"ignore"}}`)
		step(t, p.relay)
		w.order("", 5, `{"unique":{"keys":["type"],"on_conflict":"replace"}}`)
		step(t, p.relay) // 3 is cancelled, which is heard of next
		step(t, p.relay)
		w.holds(t, "relayed[3] relayed[4] relayed[5]")
		if got := p.work(t, 1); got[0] != "[5]" {
			t.Errorf("it did %v", got)
		}
		step(t, p.relay)
		w.holds(t, "")
	})
}

// TestTheReleaseChanges: on the same disk the rows that stayed are settled when
// it works with on_relay, and told; back again it begins anew.
func TestTheReleaseChanges(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, onComplete)
		w.orders(0, 10)
		step(t, p.relay)
		p.work(t, 2)
		p.forget(t)
		p.die(t)
		p = w.pod(t, d, outbox.RelayOptions{})
		w.orders(10, 12)
		for step(t, p.relay) > 0 {
		}
		w.holds(t, "")
		if got := p.said(); !strings.Contains(got, "with on_complete") || !strings.Contains(got, "rows=10") {
			t.Errorf("it says %q", got)
		}
		if n := w.arrived(p); n != 10 {
			t.Errorf("%d jobs wait, want 10", n)
		}
		p.die(t)
		p = w.pod(t, d, onComplete)
		w.orders(12, 14)
		step(t, p.relay)
		w.holds(t, statuses("relayed", 12, 14))
		p.work(t, 12)
		step(t, p.relay)
		w.holds(t, "")
	})
}

// TestTheReleaseChangesOnAnOldStore: what the disk does not know is sent again.
func TestTheReleaseChangesOnAnOldStore(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, onComplete)
		w.orders(0, 4)
		step(t, p.relay)
		files := copyDisk(t, d)
		w.orders(4, 8)
		step(t, p.relay)
		p.die(t)
		putBack(t, d, files)
		p = w.pod(t, d, outbox.RelayOptions{})
		for step(t, p.relay) > 0 {
		}
		if got := strings.Join(p.work(t, 8), ""); w.held() != "" || got != "[0][1][2][3][4][5][6][7]" {
			t.Errorf("it did %s, and there are %s", got, w.held())
		}
		if got := p.said(); !strings.Contains(got, "rows_sent_again=4") || !strings.Contains(got, "rows=4") {
			t.Errorf("it says %q", got)
		}
	})
}

// TestRowsOfOneJob: several rows with one job_id go when it ends, in one batch or
// two, over a restart, and when the last comes after the end.
func TestRowsOfOneJob(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := disk(t)
		p := w.pod(t, d, onComplete)
		id := newID(t)
		w.order(id, 1, "")
		w.order(id, 1, "")
		w.order("", 2, "")
		step(t, p.relay)
		w.order(id, 1, "")
		step(t, p.relay)
		w.holds(t, "relayed[1] relayed[1] relayed[2] relayed[1]")
		p.work(t, 1)
		step(t, p.relay)
		w.holds(t, "relayed[2]")
		w.order(id, 1, "")
		step(t, p.relay)
		w.holds(t, "relayed[2]")
		id = newID(t)
		w.order(id, 3, "")
		w.order(id, 3, "")
		step(t, p.relay)
		p.die(t)
		p = w.pod(t, d, onComplete)
		step(t, p.relay)
		w.holds(t, "relayed[2] relayed[3] relayed[3]")
		p.work(t, 2)
		step(t, p.relay)
		w.holds(t, "")
	})
}

// TestManyAnswersInOneMark: where a hundred rows are marked at once, each knows who answers for it.
func TestManyAnswersInOneMark(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		for i := range 100 {
			w.order("", i, fmt.Sprintf(`{"queue":"q%d","job_id":"mine"}`, i/2))
		}
		if n := step(t, p.relay); n != 100 {
			t.Fatalf("%d rows are settled", n)
		}
		var own, jobs, wrong int
		if err := w.app.QueryRow(`SELECT count(*) - count(answered_by), count(DISTINCT answered_by) FROM ojs_outbox`).Scan(&own, &jobs); err != nil || own != 50 || jobs != 50 {
			t.Errorf("%d rows have jobs of their own and %d jobs answer for others, want 50 and 50: %v", own, jobs, err)
		}
		rows, err := w.app.Query(`SELECT job_args, answered_by FROM ojs_outbox WHERE answered_by IS NOT NULL`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var args, by string
			if err := rows.Scan(&args, &by); err != nil {
				t.Fatal(err)
			}
			var n, m int
			j, err := p.Job(t.Context(), job.ID(by))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Sscanf(args, "[%d]", &n)
			if _, _ = fmt.Sscanf(string(j.Args), "[%d]", &m); n != m+1 {
				wrong++
			}
		}
		if err := rows.Err(); err != nil || wrong > 0 {
			t.Errorf("%d rows name a wrong job: %v", wrong, err)
		}
	})
}

// TestARelayedRowThatIsSetBack by a person is sent once more if it is as it was,
// and parked with its reason if its options are others: its job stays as it is.
func TestARelayedRowThatIsSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		same, changed := w.order("", 1, `{"priority":3}`), w.order(newID(t), 2, `{"priority":3}`)
		// A later row has another PUSH's args and meta put into its job, which accuses it of nothing.
		const rewriting = `{"delay":"PT1H","meta":{"a":%d},"unique":{"key":"k","on_conflict":"replace_except_schedule"}}`
		rewritten := w.order("", 3, fmt.Sprintf(rewriting, 3))
		w.order("", 4, fmt.Sprintf(rewriting, 4))
		step(t, p.relay)
		w.exec(fmt.Sprintf(`UPDATE ojs_outbox SET status = 'pending', owner = NULL WHERE id IN (%d, %d, %d)`, same, changed, rewritten))
		w.exec(fmt.Sprintf(`UPDATE ojs_outbox SET job_options = '{"priority":5}' WHERE id = %d`, changed))
		step(t, p.relay)
		w.holds(t, "relayed[1] parked[2] relayed[3] relayed[4]")
		if why := w.text(fmt.Sprintf(`SELECT error FROM ojs_outbox WHERE id = %d`, changed)); !strings.Contains(why, "with other options") {
			t.Errorf("it is parked as %s", why)
		}
		p.work(t, 2)
		step(t, p.relay)
		w.holds(t, "parked[2] relayed[3] relayed[4]")
	})
}

// TestTheReasonOfARow names the row's job and nothing of the call that it went with.
func TestTheReasonOfARow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		w.order("", 1, `{"unique":{"keys":["type"]}}`)
		refused := w.order("", 2, `{"unique":{"keys":["type"]}}`)
		w.order("", 3, `{}`)
		step(t, p.relay)
		if why := w.text(fmt.Sprintf(`SELECT error FROM ojs_outbox WHERE id = %d`, refused)); !strings.HasPrefix(why, "a job matching") {
			t.Errorf("it is parked as %s", why)
		}
	})
}

// TestARowWhoseJobAMiddlewareChanges is as it was when it comes again: what
// differs is not the row's.
func TestARowWhoseJobAMiddlewareChanges(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		chain, n := &sidecar.Chain{}, 0
		if err := chain.Add("trace", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
			if strings.HasPrefix(string(e.Args), "[1") { // of [1] and [10], not of [2]
				n++
				e.Meta = fmt.Appendf(nil, `{"trace_id":"%d"}`, n)
			}
			return next(ctx, e)
		}); err != nil {
			t.Fatal(err)
		}
		p.Sidecar = sidecar.New(p.store, sidecar.Options{Middleware: chain})
		p.relay = outbox.NewRelay(w.again(), w.d, p.Sidecar, outbox.RelayOptions{Release: outbox.OnComplete, Owner: p.store.Identity(),
			Lineage: p.store.Lineage(), Lease: lease, Log: p.log.log()})
		w.order("", 1, `{}`)
		changed := w.order("", 2, `{}`)
		w.order(newID(t), 10, `{"delay":"PT1H"}`)
		step(t, p.relay)
		w.exec(`UPDATE ojs_outbox SET status = 'pending', owner = NULL`)
		w.exec(fmt.Sprintf(`UPDATE ojs_outbox SET job_options = '{"priority":5}' WHERE id = %d`, changed))
		step(t, p.relay)
		if got := w.held(); got != "relayed[1] parked[2] relayed[10]" || n != 4 {
			t.Errorf("there are %s, after %d changes", got, n)
		}
	})
}

// TestALateRenewalIsTold: whoever comes too late to its lease says so, once, as
// others may have taken its rows. A first renewal is not late.
func TestALateRenewalIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		told := func() int { return strings.Count(p.said(), "the lease was renewed too late") }
		w.orders(0, 2)
		for range 6 {
			step(t, p.relay)
			p.ahead += lease / 2
		}
		if n := told(); n != 0 {
			t.Errorf("in time, and told %d times: %s", n, p.said())
		}
		p.ahead += lease
		step(t, p.relay)
		step(t, p.relay)
		if n := told(); n != 1 {
			t.Errorf("told %d times, want once: %s", n, p.said())
		}
	})
}
