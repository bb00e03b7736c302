package outbox_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// TestNoOrderIsLost plays with an outbox: rows with ids, twice the same, and with
// all keys; restarts, deaths between two statements, disks that are lost, old
// ones put back, changes of the release. After each step it holds that a
// committed row is there until the job that answers for it has ended, and that no
// job that has ended runs again but for the faults that README names.
func TestNoOrderIsLost(t *testing.T) {
	checks := flag.Lookup("rapid.checks") // no other test of this package that uses rapid is parallel
	was := checks.Value.String()
	defer checks.Value.Set(was)
	onEach(t, func(t *testing.T, w *world) {
		n, err := strconv.Atoi(was)
		if err != nil {
			t.Fatal(err)
		}
		servers := 2
		if n = max(1, n/25); w.d.Statements().Take == "" {
			n, servers = 2*n, 1
		}
		if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(r *rapid.T) { playOutbox(r, w, t.TempDir(), servers) })
	})
}

// outboxPlay is what is known of an outbox without asking its relays.
type outboxPlay struct {
	r       *rapid.T
	w       *world
	dir     string
	servers []*played
	rows    map[int64]*playedRow
	ids     []string          // that rows were given
	ended   map[job.ID]bool   // jobs that have, on any disk
	heirs   map[job.ID]job.ID // who has replaced a job, on any disk
	again   map[job.ID]bool   // jobs that may run again, as their rows' outcome was not written yet
	old     bool              // an old store was put back
	disks   int
}

// playedRow is a row that was committed.
type playedRow struct {
	n        int
	own      job.ID // its job, once that is known
	done     bool   // the job that answered for it has ended, and was not replaced by one that has not
	released bool   // it went while its job was on the disk, with on_relay
}

// played is a job server with a disk.
type played struct {
	play    *outboxPlay
	pod     *pod
	path    string
	mode    outbox.Release
	answers map[int64]job.ID // who answers for each row, as this disk has it
	files   map[string][]byte
	copied  map[int64]job.ID // answers when files were copied
}

// witness is a job server that keeps what it has answered.
type witness struct {
	*sidecar.Sidecar
	last  map[job.ID]job.ID
	heirs map[job.ID]job.ID
}

func (s *witness) EnqueueChecked(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	rs, err := s.Sidecar.EnqueueChecked(ctx, cs...)
	for i, r := range rs {
		s.last[cs[i].ID()] = r.ID
		inherit(s.heirs, r)
	}
	return rs, err
}

// inherit notes whom the job of a receipt has replaced.
func inherit(heirs map[job.ID]job.ID, r job.Receipt) {
	for _, id := range append(slices.Clone(r.AllReplaced), r.Replaced) {
		heirs[id] = r.ID
	}
}

// open starts the job server on its disk with a relay of a dialect.
func (s *played) open(d outbox.Dialect) {
	w := s.play.w
	w.t.Helper()
	store, err := sqlitestore.Open(context.Background(), s.path, sqlitestore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &pod{Sidecar: sidecar.New(store, sidecar.Options{}), store: store, log: new(journal)}
	if s.pod != nil {
		p.ahead = s.pod.ahead
	}
	eyes := &witness{p.Sidecar, map[job.ID]job.ID{}, s.play.heirs}
	p.relay = outbox.NewRelay(w.relayDB, d, eyes, outbox.RelayOptions{
		Release: s.mode, Owner: store.Identity(), Fresh: store.Fresh(), Lineage: store.Lineage(), Lease: lease, Batch: 4,
		Log: p.log.log(), Now: func() time.Time { return time.Now().Add(p.ahead) },
		OnRelay: func(told []outbox.Relayed) {
			for _, t := range told {
				s.answers[t.Row] = eyes.last[t.Job]
				s.play.rows[t.Row].own = t.Job
			}
		},
	})
	s.pod = p
}

func (s *played) close() { s.pod.die(s.play.w.t) }

// step lets the relay work until it has nothing to do.
func (s *played) step() error {
	s.pod.ahead += lease/3 + time.Second // it looks after the others
	for {
		n, err := s.pod.relay.Step(context.Background())
		if n == 0 && err == nil && s.mode == outbox.OnRelay {
			s.settled()
		}
		if n == 0 || err != nil {
			return err
		}
	}
}

// settled makes sure that with on_relay the server keeps no row.
func (s *played) settled() {
	var n int
	s.play.must(s.play.w.app.QueryRow(`SELECT count(*) FROM ojs_outbox WHERE status = 'relayed' AND owner = '` + s.pod.store.Identity() + `'`).Scan(&n))
	if n > 0 {
		s.play.r.Fatalf("%d rows stay with on_relay", n)
	}
}

func playOutbox(r *rapid.T, w *world, dir string, servers int) {
	for _, table := range []string{"ojs_outbox", "ojs_outbox_relays"} {
		w.exec("DELETE FROM " + table)
	}
	m := &outboxPlay{r: r, w: w, dir: dir, rows: map[int64]*playedRow{}, ended: map[job.ID]bool{}, again: map[job.ID]bool{}, heirs: map[job.ID]job.ID{}}
	for range servers {
		s := &played{play: m}
		m.servers = append(m.servers, s)
		s.mode = rapid.SampledFrom([]outbox.Release{outbox.OnComplete, outbox.OnComplete, outbox.OnComplete, outbox.OnRelay}).Draw(r, "mode")
		s.fresh()
	}
	defer func() {
		for _, s := range m.servers {
			s.close()
		}
	}()
	pick := func(do func(*played)) func(*rapid.T) {
		return func(r *rapid.T) { do(m.servers[rapid.IntRange(0, servers-1).Draw(r, "server")]) }
	}
	step := pick(func(s *played) { m.must(s.step()) })
	work := pick((*played).work)
	acts := map[string]func(*rapid.T){
		"write": func(*rapid.T) { m.write() }, "write more": func(*rapid.T) { m.write() },
		"step": step, "step on": step, "work": work, "work on": work,
		"push": pick((*played).push), "forget": pick((*played).forget), "restart": pick((*played).restart), "die": pick((*played).dies),
		"lose": pick((*played).lose), "copy": pick((*played).copy), "put back": pick((*played).putBack),
		"": func(*rapid.T) { m.look() },
	}
	r.Repeat(acts)
	m.drain()
}

func (m *outboxPlay) must(err error) {
	if err != nil {
		m.r.Fatal(err)
	}
}

// fresh gives the server a new disk.
func (s *played) fresh() {
	s.play.disks++
	s.path = filepath.Join(s.play.dir, fmt.Sprintf("disk%d.db", s.play.disks))
	s.answers, s.files, s.copied = map[int64]job.ID{}, nil, nil
	s.open(s.play.w.d)
}

// keyed are the options of rows, some under keys that others have.
var keyed = []string{"{}", "{}", "{}", `{"delay":"PT1H"}`, `{"unique":{"key":"%s","on_conflict":"ignore"}}`, `{"unique":{"key":"%s","on_conflict":"replace"}}`,
	`{"unique":{"key":"%s","on_conflict":"ignore","states":["available","active","completed"]}}`,
	`{"unique":{"key":"%s"}}`, `{"delay":"PT1H","unique":{"key":"%s","on_conflict":"replace_except_schedule"}}`,
	`{"deduplication":{"id":"%s"}}`, `{"deduplication":{"id":"%s","ttl":3600,"extend":true}}`,
	`{"delay":"PT1H","deduplication":{"id":"%s","replace":true}}`, `{"job_id":"%s"}`}

func (m *outboxPlay) options() string {
	o := rapid.SampledFrom(keyed).Draw(m.r, "options")
	return strings.Replace(o, "%s", rapid.SampledFrom([]string{"a", "b"}).Draw(m.r, "key"), 1)
}

// write commits a few rows. One in five has the id of one before, and is the same order.
func (m *outboxPlay) write() {
	for range rapid.IntRange(1, 6).Draw(m.r, "rows") {
		n, id := len(m.rows)+1, ""
		switch {
		case len(m.ids) > 0 && rapid.IntRange(0, 4).Draw(m.r, "twice") == 0:
			i := rapid.IntRange(0, len(m.ids)-1).Draw(m.r, "which")
			if id = m.ids[i]; len(m.servers) > 1 {
				m.again[job.ID(id)] = true // each server has it once
			}
			m.rows[m.w.order(id, i, "{}")] = &playedRow{n: i, own: job.ID(id)}
			continue
		case rapid.Bool().Draw(m.r, "plain with an id"):
			id = newID(m.w.t)
			m.ids = append(m.ids, id)
			m.rows[m.w.order(id, len(m.ids)-1, "{}")] = &playedRow{n: len(m.ids) - 1, own: job.ID(id)}
			continue
		case rapid.Bool().Draw(m.r, "with an id"):
			id = newID(m.w.t)
		}
		m.rows[m.w.order(id, 1000+n, m.options())] = &playedRow{n: 1000 + n, own: job.ID(id)}
	}
}

// push stores a job that comes by no outbox, and may answer for rows.
func (s *played) push() {
	c, err := job.ParseChecked([]byte(`{"type":"order.confirm","args":[0],"options":` + s.play.options() + `}`))
	s.play.must(err)
	rs, err := s.pod.EnqueueChecked(context.Background(), c)
	if err != nil && job.KindOf(err) != job.Duplicate {
		s.play.must(err)
	}
	for _, r := range rs {
		inherit(s.play.heirs, r)
	}
}

// work ends a few jobs: it does those that wait, or cancels one that is scheduled.
func (s *played) work() {
	m, ctx := s.play, context.Background()
	for range rapid.IntRange(1, 5).Draw(m.r, "jobs") {
		jobs, err := s.pod.Fetch(ctx, job.FetchRequest{Queues: []string{"default"}, Worker: "w"})
		m.must(err)
		for _, j := range jobs {
			_, err := s.pod.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, nil)
			m.must(err)
			if m.ended[j.ID] && !m.again[j.ID] && !m.old {
				m.r.Fatalf("job %s with args %s has ended, and ran again", j.ID, j.Args)
			}
			m.ended[j.ID] = true
		}
		page, err := s.pod.Jobs(ctx, job.Filter{States: []job.State{job.Scheduled}, Limit: 1})
		m.must(err)
		if len(jobs) == 0 && len(page.Jobs) > 0 {
			_, err := s.pod.Cancel(ctx, page.Jobs[0].ID, "", "")
			m.must(err)
		}
	}
}

// forget removes jobs that have ended, but for those that a row may still ask for.
func (s *played) forget() {
	m := s.play
	m.look()
	asked := map[job.ID]bool{}
	for row, status := range m.table() {
		if status != "relayed" {
			asked[m.rows[row].own] = true
		}
	}
	page, err := s.pod.Jobs(context.Background(), job.Filter{States: []job.State{job.Completed, job.Cancelled}, Limit: 1000})
	m.must(err)
	for _, j := range page.Jobs { // a retention is longer than any trouble of a relay
		asked[j.ID] = asked[j.ID] || !s.answered(j.ID)
	}
	m.must(s.pod.store.Update(context.Background(), func(tx job.Tx) error {
		for _, j := range page.Jobs {
			if asked[j.ID] {
				continue
			}
			if err := tx.DeleteJob(j.ID); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, j := range page.Jobs {
		if i := slices.Index(m.ids, string(j.ID)); i >= 0 {
			m.again[j.ID] = true // a row that comes after its retention is another order
		}
	}
}

func (s *played) restart() {
	s.close()
	if rapid.IntRange(0, 3).Draw(s.play.r, "another mode") == 0 {
		s.mode = rapid.SampledFrom([]outbox.Release{outbox.OnComplete, outbox.OnRelay}).Draw(s.play.r, "mode")
	}
	s.open(s.play.w.d)
}

// dies starts a relay that dies at a statement, in whatever it does, and another.
func (s *played) dies() {
	m, d := s.play, s.play.w.d.Statements()
	s.close()
	at := map[string]*string{"count": &d.Count, "relayed": &d.Relayed, "ended": &d.Ended, "again": &d.Again, "passed": &d.Passed,
		"done": &d.Done, "held": &d.Held, "reached": &d.Reached, "pending": &d.Pending}
	*at[rapid.SampledFrom(slices.Sorted(maps.Keys(at))).Draw(m.r, "at")] = "no statement"
	s.open(outbox.NewDialect(d))
	_ = s.step()
	s.unwritten(func(status string) bool { return status != "relayed" })
	s.close()
	s.open(m.w.d)
}

// unwritten notes the jobs whose rows do not say yet what became of them.
func (s *played) unwritten(of func(status string) bool) {
	for row, status := range s.play.table() {
		if by, ok := s.answers[row]; ok && of(status) {
			s.play.again[by], s.play.again[s.play.rows[row].own] = true, true
		}
	}
}

// lose is a disk that is gone: another takes its rows, or the same one with a new disk.
func (s *played) lose() {
	m := s.play
	s.unwritten(func(string) bool { return true })
	for _, id := range m.ids {
		m.again[job.ID(id)] = true // another row with that id may come to a disk that does not know it
	}
	m.w.exec(`UPDATE ojs_outbox_relays SET until = 2 WHERE until > 0 AND owner = '` + s.pod.store.Identity() + `'`)
	s.close()
	s.fresh()
}

func (s *played) copy() {
	s.files, s.copied = copyDisk(s.play.w.t, s.path), maps.Clone(s.answers)
}

// putBack puts a copy back, the one there is or one from just before a last batch.
// It may work alone before its relay reaches the outbox.
func (s *played) putBack() {
	m := s.play
	if s.files == nil {
		s.copy()
		m.write()
		m.must(s.step())
		m.look()
	}
	m.old = true
	s.close()
	putBack(m.w.t, s.path, s.files)
	s.answers = maps.Clone(s.copied)
	s.open(m.w.d)
	for id, row := range m.rows { // of two rows with one id the other may have brought the job
		if _, err := s.pod.Job(context.Background(), row.own); err == nil {
			s.answers[id] = row.own
		}
	}
	if rapid.Bool().Draw(m.r, "it works alone") {
		for range rapid.IntRange(1, 20).Draw(m.r, "pushes") {
			s.push()
		}
		s.work()
		s.restart()
	}
}

// table is the status of each row that is there.
func (m *outboxPlay) table() map[int64]string {
	rows, err := m.w.app.Query(`SELECT id, status FROM ojs_outbox`)
	m.must(err)
	defer rows.Close()
	all := map[int64]string{}
	for rows.Next() {
		var id int64
		var status string
		m.must(rows.Scan(&id, &status))
		all[id] = status
	}
	m.must(rows.Err())
	return all
}

// look notes which jobs have ended, and judges.
func (m *outboxPlay) look() {
	for _, s := range m.servers {
		for row, by := range s.answers {
			if m.rows[row].done {
				continue
			}
			m.rows[row].done = s.answered(by)
		}
	}
	there := m.table()
	for id, row := range m.rows {
		if there[id] != "" || row.done || row.released {
			continue
		}
		row.released = slices.ContainsFunc(m.servers, func(s *played) bool { return s.mode == outbox.OnRelay && s.answers[id] != "" })
		if !row.released {
			m.r.Fatalf("row %d with args [%d] is gone, and the job that answers for it has not ended", id, row.n)
		}
	}
}

// answered reports whether a job has ended, and whoever has replaced it.
func (s *played) answered(id job.ID) bool {
	j, err := s.pod.Job(context.Background(), id)
	s.play.must(err)
	for j.State == job.Cancelled && s.play.heirs[j.ID] != "" {
		j, err = s.pod.Job(context.Background(), s.play.heirs[j.ID])
		if job.KindOf(err) == job.NotFound {
			return true // only what has ended is forgotten
		}
		s.play.must(err)
	}
	return j.State.Terminal()
}

// drain works until nothing is left, with on_complete.
func (m *outboxPlay) drain() {
	for _, s := range m.servers {
		s.close()
		s.mode = outbox.OnComplete
		s.open(m.w.d)
	}
	for range 1000 {
		left := 0
		for _, status := range m.table() {
			if status != "parked" {
				left++
			}
		}
		if left == 0 {
			return
		}
		for _, s := range m.servers {
			m.must(s.step())
			s.work()
			m.look()
		}
	}
	m.r.Fatalf("rows are left that nothing will end: %v", m.table())
}
