package outbox_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// another is an app's database in a file of its own, with an outbox in it.
func (w *world) another(path string) *world {
	w.t.Helper()
	o := &world{t: w.t, path: path, d: w.d, server: w.server}
	o.app = o.open("file:" + path + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	o.init()
	return o
}

// remove deletes the database's file, as an app's reset does.
func (w *world) remove() {
	w.t.Helper()
	for _, of := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(w.path + of); err != nil && !os.IsNotExist(err) {
			w.t.Fatal(err)
		}
	}
}

// heard steps until the relay has heard that its file is another: the first step
// after that says so. It makes no file.
func heard(t *testing.T, r *outbox.Relay, want string) {
	t.Helper()
	if _, err := r.Step(t.Context()); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
}

func onlyUnix(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows deletes no file that is open")
	}
}

// TestAFileThatIsReplaced: by a new one, by a copy, by way of a link or of none.
// The relay opens it anew, and what it knew of the rows of the old one is not
// written to rows of the new one that have the same ids.
func TestAFileThatIsReplaced(t *testing.T) {
	onlyUnix(t)
	for _, how := range []string{"deleted and made anew", "renamed over", "by way of a link"} {
		for _, own := range []string{"one pool", "steps of one's own"} {
			t.Run(how+", "+own, func(t *testing.T) {
				w := newWorld(t)
				if how == "by way of a link" {
					link := filepath.Join(t.TempDir(), "current.db")
					if err := os.Symlink(w.path, link); err != nil {
						t.Fatal(err)
					}
					w.relayDB, w.d, w.path = w.open(sqlite.DSN(link)), w.d.In(link), link
				}
				r := w.relay(outbox.RelayOptions{Keep: -1})
				stop, now := func() {}, func(what string, is func() bool) { w.drain(r) }
				if own == "one pool" {
					stop, now = run(t, r), w.until
				}
				defer func() { stop() }()
				w.mail(5)
				jobs := func(n int) func() bool {
					return func() bool { got, _, _ := w.server.sizes(); return got == n }
				}
				now("5 jobs", jobs(5))
				var next *world
				switch how {
				case "deleted and made anew":
					w.remove()
					if own != "one pool" {
						heard(t, r, "is gone")
						if _, err := os.Stat(w.path); !os.IsNotExist(err) {
							t.Fatalf("the relay has made a file: %v", err)
						}
						heard(t, r, "is gone")
					}
					next = w.another(w.path)
				case "renamed over":
					path := filepath.Join(filepath.Dir(w.path), "next.db")
					next = w.another(path)
					next.exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
					next.app.Close()
					w.remove()
					if err := os.Rename(path, w.path); err != nil {
						t.Fatal(err)
					}
					next = w.another(w.path)
				case "by way of a link":
					path := filepath.Join(t.TempDir(), "next.db")
					next = w.another(path)
					if err := os.Remove(w.path); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(path, w.path); err != nil {
						t.Fatal(err)
					}
				}
				next.mail(7)
				if own != "one pool" && how != "deleted and made anew" {
					heard(t, r, "another one than before")
				}
				w.server.mu.Lock()
				w.server.jobs, w.server.order = map[job.ID]job.Envelope{}, nil
				w.server.mu.Unlock()
				now("7 jobs more", jobs(7))
				stop()
				if n, _, _ := w.server.sizes(); n != 7 || next.rows() != 0 {
					t.Errorf("%d jobs, %d rows are left; want 7 and none", n, next.rows())
				}
			})
		}
	}
}

// TestAFileThatIsGone: the log says so, and the state, until it is back.
func TestAFileThatIsGone(t *testing.T) {
	onlyUnix(t)
	w, log := newWorld(t), new(journal)
	r := w.relay(outbox.RelayOptions{Log: log.log()})
	stop := run(t, r)
	defer func() { stop() }()
	w.mail(1)
	w.until("a job", func() bool { n, _, _ := w.server.sizes(); return n == 1 })
	w.remove()
	w.until("the relay is in trouble", func() bool { s := r.State(); return s.Trouble && strings.Contains(s.Err.Error(), w.path+" is gone") })
	if _, err := os.Stat(w.path); !os.IsNotExist(err) {
		t.Errorf("somebody has made a file: %v", err)
	}
	next := w.another(w.path)
	next.mail(1)
	w.until("the job of the new file", func() bool { n, _, _ := w.server.sizes(); return n == 2 && !r.State().Trouble })
	stop()
	said := strings.Join(log.all(), "")
	if !strings.Contains(said, "is gone") || !strings.Contains(said, "works again") {
		t.Errorf("the log says %s", said)
	}
}

// TestTicksOfAFileThatIsReplaced: no tick is written to a file without a name.
func TestTicksOfAFileThatIsReplaced(t *testing.T) {
	onlyUnix(t)
	w := newWorld(t)
	ticks := outbox.NewTicks(w.relayDB, w.d)
	fire(t, ticks, nil, "", tick("nightly", minute(3), job.OverlapAllow))
	w.remove()
	if _, err := ticks.Fire(t.Context(), []job.Tick{tick("nightly", minute(2), job.OverlapAllow)}, nil); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("got %v", err)
	}
	next := w.another(w.path)
	fire(t, ticks, nil, "", tick("nightly", minute(1), job.OverlapAllow))
	if n := next.rows(); n != 1 {
		t.Errorf("%d rows in the new file, want 1", n)
	}
}
