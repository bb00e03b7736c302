//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What may be done to a server, in the words of the history.
const (
	killed   = "killed"
	paused   = "stood still"
	diskLost = "killed, its disk lost"
	copyKept = "killed, its store copied"
	putBack  = "killed, an older store put back"
)

// station is a server with a disk of its own.
type station struct {
	*keeper
	t      *testing.T
	s      *chaosShop
	h      *history
	disk   string // directory of its store
	url    string
	kept   string // directory with a copy of the store; empty: none
	pauses int    // how often it stood still for longer than its lease
	// alone says that nobody else takes its rows while it is dead.
	alone bool
}

// newStation starts a server that relays the shop at dsn.
func newStation(t *testing.T, s *chaosShop, h *history, name, dsn string, args ...string) *station {
	t.Helper()
	st := &station{t: t, s: s, h: h, disk: filepath.Join(t.TempDir(), "disk")}
	if err := os.Mkdir(st.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	addr := freePort(t)
	st.url = "http://" + addr
	st.keeper = keep(t, name, append([]string{"serve", "--listen", addr, "--db", filepath.Join(st.disk, "jobs.db"), "--outbox", dsn}, args...)...)
	up(t, st.keeper, st.url)
	return st
}

// do is one fault. What a job may owe to it is looked up while the server is dead.
func (st *station) do(what string) {
	st.t.Helper()
	if what == paused {
		st.pause(3500 * time.Millisecond)
		return
	}
	if what == putBack && st.kept == "" {
		what = copyKept // the older store of a later fault
	}
	st.crash(func() {
		var because []excuse
		owner := ownerOf(st.t, st.disk)
		if what == diskLost || what == putBack || !st.alone {
			because = st.s.held()
		}
		switch what {
		case diskLost:
			st.empty(st.disk)
		case copyKept:
			if owner == "" {
				break // there is no store yet
			}
			st.kept = st.t.TempDir()
			st.copy(st.disk, st.kept)
		case putBack:
			st.empty(st.disk)
			st.copy(st.kept, st.disk)
			for _, j := range liveIn(st.t, filepath.Join(st.kept, "jobs.db")) {
				because = append(because, excuse{order: j.order, why: "its job lived in the store put back"})
			}
		}
		st.h.fault(st.name, what, because...)
	})
}

// pause lets the server stand still.
func (st *station) pause(d time.Duration) {
	st.t.Helper()
	if err := st.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		st.t.Error(err)
	}
	st.pauses++
	st.h.fault(st.name, paused, st.s.held()...)
	time.Sleep(d)
	if err := st.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		st.t.Error(err)
	}
}

// starved are the servers that came too late to their leases though nothing was
// done to them: this machine gave them no time for as long as a lease is.
func starved(servers []*station) (names []string) {
	for _, st := range servers {
		if st.said("the lease was renewed too late") > st.pauses {
			names = append(names, st.name)
		}
	}
	return names
}

// ownerOf is what the outbox knows the store in a directory by, read from a copy;
// empty for one whose server was killed before it had made it.
func ownerOf(t *testing.T, disk string) string {
	t.Helper()
	dir := t.TempDir()
	if err := copyStore(disk, dir); err != nil {
		t.Error(err)
		return ""
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "jobs.db"))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer db.Close()
	var made, identity int64
	err = db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'marks'`).Scan(&made)
	if err == nil && made > 0 {
		err = db.QueryRow(`SELECT coalesce(max(value), 0) FROM marks WHERE name = 'identity'`).Scan(&identity)
	}
	if err != nil {
		t.Error(err)
	}
	if identity == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", identity)
}

// release changes when rows may go, and starts the server anew.
func (st *station) release(mode string) {
	st.t.Helper()
	st.stop()
	for i, a := range st.args {
		if a == "--outbox-release" {
			st.args[i+1] = mode
		}
	}
	st.start()
	up(st.t, st.keeper, st.url)
}

func (st *station) empty(dir string) {
	st.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		st.t.Error(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		st.t.Error(err)
	}
}

// copy copies the files of a store, its -wal and all, while no server runs.
func (st *station) copy(from, to string) {
	st.t.Helper()
	if err := copyStore(from, to); err != nil {
		st.t.Error(err)
	}
}

func copyStore(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// liveIn are the jobs of a store that have not ended, read from a copy of it: a
// store that was killed is mended by whoever opens it.
func liveIn(t *testing.T, path string) (live []storedJob) {
	t.Helper()
	dir := t.TempDir()
	if err := copyStore(filepath.Dir(path), dir); err != nil {
		t.Error(err)
		return nil
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, filepath.Base(path)))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer db.Close()
	for _, j := range jobsOf(t, db) {
		if j.state != "completed" && j.state != "cancelled" && j.state != "discarded" {
			live = append(live, j)
		}
	}
	return live
}
