package outbox_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// TestATableThatIsMadeAnew has rows with the ids of the one before: what is known
// of those is not written to these.
func TestATableThatIsMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		w.orders(0, 2)
		step(t, p.relay)
		w.exec(`DROP TABLE ojs_outbox`)
		if _, err := p.relay.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "outbox init") {
			t.Fatalf("without a table: %v", err)
		}
		w.init()
		w.orders(2, 4)
		step(t, p.relay)
		if got := strings.Join(p.work(t, 2), ""); got != "[0][1]" {
			t.Fatalf("it did %s", got)
		}
		step(t, p.relay)
		w.holds(t, statuses("relayed", 2, 4))
	})
}

// TestACopyPutBackUnheard: a file that goes while the relay has no connection, and
// a copy of it from before that takes its place. It has the same identity, and
// new rows with the ids of those whose marks are still to be written.
func TestACopyPutBackUnheard(t *testing.T) {
	onlyUnix(t)
	w := newWorld(t)
	step(t, w.relay(outbox.RelayOptions{Lease: 10 * time.Minute})) // the copy has its lease
	w.exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	files := copyDisk(t, w.path)
	var ahead atomic.Int64
	began := time.Now()
	r := w.relay(outbox.RelayOptions{Keep: -1, Lease: 10 * time.Minute, Now: func() time.Time { return began.Add(time.Duration(ahead.Load())) }})
	w.exec(`CREATE TRIGGER keeps BEFORE DELETE ON ojs_outbox BEGIN SELECT RAISE(ABORT, 'not now'); END`)
	w.mail(5)
	stop := run(t, r)
	defer func() { stop() }()
	on := func() { ahead.Add(int64(30 * time.Millisecond)); r.Poke() }
	w.until("the marks fail", func() bool {
		on()
		s := r.State()
		return s.Trouble && strings.Contains(s.Err.Error(), "not now")
	})
	w.remove()
	w.until("it finds no file", func() bool {
		on()
		return strings.Contains(r.State().Err.Error(), "is gone")
	})
	putBack(t, w.path, files)
	next := &world{t: t, path: w.path, d: w.d, server: w.server}
	next.app = next.open("file:" + w.path + "?_pragma=busy_timeout(5000)&_txlock=immediate")
	next.exec(`PRAGMA journal_mode = WAL`)
	next.mail(7)
	w.until("all rows are gone", func() bool {
		on()
		return next.rows() == 0
	})
	stop()
	if n, _, _ := w.server.sizes(); n != 12 {
		t.Errorf("%d jobs, want the 5 of the file that is gone and the 7 of the copy", n)
	}
}

// TestRowsThatNoRelayOfThisDatabaseHas: 'taken' is a status of others, so nobody
// is told again and again that such rows are sent again.
func TestRowsThatNoRelayOfThisDatabaseHas(t *testing.T) {
	w := newWorld(t)
	p := w.pod(t, disk(t), onComplete)
	w.mail(1)
	w.exec(`UPDATE ojs_outbox SET status = 'taken', owner = 'x'`)
	for range 3 {
		step(t, p.relay)
		p.ahead += lease / 2
	}
	if got := p.said(); got != "" {
		t.Errorf("it says %s", got)
	}
}

// TestATimeToComeKeepsNoOldRow: a row that was sent in the future, by a clock that
// was ahead or by a mistake, stays, and those behind it go in their time.
func TestATimeToComeKeepsNoOldRow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, at := range []string{"9223372036854775807", "1", "2"} {
			w.exec(`INSERT INTO ojs_outbox (job_type, job_args, status, sent_at) VALUES ('a.b', '[]', 'sent', ` + at + `)`)
		}
		stop := run(t, w.relay(outbox.RelayOptions{Keep: time.Hour}))
		defer func() { stop() }()
		w.until("the old ones are gone", func() bool { return w.rows() == 1 })
	})
}
