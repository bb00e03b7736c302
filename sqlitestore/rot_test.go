package sqlitestore

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// rotting is a store whose file is damaged while it is closed.
type rotting struct {
	*testing.T
	*Store
	file string
	log  *lines
}

func rottingStore(t *testing.T) *rotting {
	t.Helper()
	r := &rotting{T: t, file: filepath.Join(t.TempDir(), "o.db"), log: &lines{}}
	r.open()
	r.w.seq = 1000 // so that numbers of jobs are two bytes each
	t.Cleanup(func() { _ = r.Store.Close() })
	return r
}

func (r *rotting) open() {
	r.Helper()
	s, err := Open(r.Context(), r.file, Options{Log: slog.New(slog.NewTextHandler(r.log, nil))})
	if err != nil {
		r.Fatal(err)
	}
	r.Store = s
}

func (r *rotting) update(fn func(job.Tx) error) {
	r.Helper()
	if err := r.Update(r.Context(), fn); err != nil {
		r.Fatal(err)
	}
}

func (r *rotting) insert(jobs ...*job.Job) {
	r.Helper()
	r.update(func(tx job.Tx) error {
		for _, j := range jobs {
			if err := tx.InsertJob(j); err != nil {
				return err
			}
		}
		return nil
	})
}

// rot closes the store, changes the last place in the root page of a table or an
// index where old stands to what is new, and opens it again.
func (r *rotting) rot(name, old, new string) {
	r.Helper()
	if err := r.Store.Close(); err != nil {
		r.Fatal(err)
	}
	at := rootPage(r.T, r.file, name)
	b, err := os.ReadFile(r.file)
	if err != nil {
		r.Fatal(err)
	}
	page := b[at : at+4096]
	i := bytes.LastIndex(page, []byte(old)) // cells are written from the end of a page
	if i < 0 || len(old) != len(new) {
		r.Fatalf("%q is not in the root page of %s", old, name)
	}
	copy(page[i:], new)
	if err := os.WriteFile(r.file, b, 0o600); err != nil {
		r.Fatal(err)
	}
	r.open()
}

// rootPage is where in a closed file the root page of a table or an index begins.
func rootPage(t *testing.T, path, name string) int64 {
	t.Helper()
	c, err := newConnector(path, true)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := number(conn, "SELECT rootpage FROM sqlite_schema WHERE name = '"+name+"'")
	if err != nil {
		t.Fatal(err)
	}
	return (n - 1) * 4096
}

// numbered is the end of an entry of a new job in an index whose last columns are its
// seq, which is its number, too, as often as given.
func numbered(j *job.Job, times int) string {
	return strings.Repeat(string([]byte{byte(j.Seq >> 8), byte(j.Seq)}), times)
}

// other is a text with one bit of its last byte but one turned.
func other(s string) string {
	b := []byte(s)
	b[len(b)-2] ^= 8
	return string(b)
}

func (r *rotting) heads(n int) (ids []job.ID) {
	r.Helper()
	r.update(func(tx job.Tx) error {
		ids = nil
		js, err := tx.Available([]string{"q"}, n)
		for _, j := range js {
			ids = append(ids, j.ID)
		}
		return err
	})
	return ids
}

// mended waits for the index that is built anew after the answer.
func (r *rotting) mended() {
	r.Helper()
	for end := time.Now().Add(30 * time.Second); r.log.count("level=INFO", "built anew") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("nothing was built anew: %v; log:\n%s", r.Trouble(), r.log)
		}
	}
	if err := r.Trouble(); err != nil {
		r.Errorf("after the index was built anew: %v", err)
	}
	if n := r.log.count("level=ERROR"); n != 1 {
		r.Errorf("%d errors were told, want one", n)
	}
	storetest.Audit(r.T, r.Store)
}

// A claim that meets an entry without its row goes on to the next job, says so,
// and the index is made right again.
func TestClaimPassesOverARottenEntry(t *testing.T) {
	for _, tt := range []struct {
		name string
		old  func(j *job.Job) (old, new string)
	}{
		{"the row is not there", func(j *job.Job) (string, string) { return numbered(j, 2), other(numbered(j, 2)) }},
		{"the queue is another", func(j *job.Job) (string, string) { return "q\x04" + numbered(j, 2), "p\x04" + numbered(j, 2) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rottingStore(t)
			a, b, c := storetest.New(t, "q", nil), storetest.New(t, "q", nil), storetest.New(t, "q", nil)
			a.Priority, b.Priority, c.Priority = 4, 3, 2
			r.insert(a, b, c)
			old, new := tt.old(a)
			r.rot("jobs_claim", old, new)
			if got := r.heads(3); len(got) != 2 || got[0] != b.ID || got[1] != c.ID {
				t.Errorf("claimed %v, want the two behind the rotten one: %v, %v", got, b.ID, c.ID)
			}
			r.mended()
			if got := r.heads(1); len(got) != 1 || got[0] != a.ID {
				t.Errorf("afterwards the head is %v, want %v", got, a.ID)
			}
		})
	}
}

// One rotten entry at the head is passed over by a claim of one job, too.
func TestClaimOfOnePassesOverARottenEntry(t *testing.T) {
	r := rottingStore(t)
	a, b := storetest.New(t, "q", nil), storetest.New(t, "q", nil)
	r.insert(a, b)
	r.rot("jobs_claim", numbered(a, 2), other(numbered(a, 2)))
	if got := r.heads(1); len(got) != 1 || got[0] != b.ID {
		t.Errorf("claimed %v, want %v", got, b.ID)
	}
	r.mended()
}

// A damaged row costs nobody but itself: the claim goes on, and it is told.
func TestClaimPassesOverADamagedRow(t *testing.T) {
	for name, damage := range map[string]struct{ table, old, new string }{
		"the state is none":   {"job_states", "\x00\x09\x0f", "\x00\x0b\x0f"}, // the kinds of n, state_code and queue
		"the args no JSON":    {"job_bodies", `["first"]`, `["first"}`},
		"the type is no text": {"job_bodies", "email.first", "email.\xe6irst"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rottingStore(t)
			a := storetest.New(t, "q", func(j *job.Job) { j.Type, j.Args = "email.first", json.RawMessage(`["first"]`) })
			b := storetest.New(t, "q", nil)
			a.Priority = 1
			r.insert(a, b)
			r.rot(damage.table, damage.old, damage.new)
			for range 2 {
				if got := r.heads(1); len(got) != 1 || got[0] != b.ID {
					t.Errorf("claimed %v, want %v", got, b.ID)
				}
			}
			if err := r.Trouble(); err == nil || !strings.Contains(err.Error(), r.file) || !strings.Contains(err.Error(), "restore a backup") {
				t.Errorf("told: %v", err)
			}
			err := r.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(a.ID); return err })
			if job.KindOf(err) != job.Unavailable || strings.Contains(err.Error(), r.file) {
				t.Errorf("who reads it is answered %v", err)
			}
			if n := r.log.count("level=ERROR"); n != 1 {
				t.Errorf("%d errors were told, want one", n)
			}
			r.update(func(tx job.Tx) error { return tx.InsertJob(storetest.New(t, "q", nil)) })
		})
	}
}

// Reads that meet a damaged page are refused, told once, and make the store unwell.
func TestReadOfADamagedPageIsTold(t *testing.T) {
	r := rottingStore(t)
	r.insert(storetest.New(t, "q", nil))
	if err := r.Store.Close(); err != nil {
		t.Fatal(err)
	}
	at := rootPage(t, r.file, "jobs_dead")
	b, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40 // it is a page of no kind now
	if err := os.WriteFile(r.file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	if err := r.Trouble(); err != nil {
		t.Errorf("before anybody has read it: %v", err)
	}
	for range 3 {
		err := r.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.DeadStats(); return err })
		if job.KindOf(err) != job.Unavailable {
			t.Errorf("answered %v", err)
		}
	}
	if err := r.Trouble(); err == nil || !strings.Contains(err.Error(), "keep copies of "+r.file) {
		t.Errorf("told: %v", err)
	}
	if n := r.log.count("level=ERROR"); n != 1 {
		t.Errorf("%d errors were told, want one", n)
	}
	r.insert(storetest.New(t, "q", nil)) // of another page
}

// A reader that meets a rotten index has it built anew, though nobody writes.
func TestReaderHasARottenIndexBuiltAnew(t *testing.T) {
	r := rottingStore(t)
	j := storetest.New(t, "q", func(j *job.Job) { j.CustomID = "mine" })
	r.insert(j)
	r.rot(customIndex, "mine"+numbered(j, 1), other("mine"+numbered(j, 1)))
	find := func() (found *job.Job, err error) {
		return found, r.View(t.Context(), func(tx job.ReadTx) error { found, err = tx.Custom("q", "mine"); return err })
	}
	if _, err := find(); job.KindOf(err) != job.Unavailable {
		t.Errorf("a rotten key: %v", err)
	}
	r.mended()
	if found, err := find(); err != nil || found == nil || found.ID != j.ID {
		t.Errorf("afterwards: %v, %v", found, err)
	}
}

// A job whose entry is lost can still be changed: the index is built anew first,
// and nobody whose call shares the commit is refused.
func TestChangeBuildsARottenIndexAnew(t *testing.T) {
	r := rottingStore(t)
	j := storetest.New(t, "q", nil)
	r.insert(j)
	r.rot(claimIndex, numbered(j, 2), other(numbered(j, 2)))
	before, asked := storetest.New(t, "q", nil), 0
	r.update(func(tx job.Tx) error {
		if asked++; asked == 1 { // what was to be stored when the damage was found is not stored by the mend
			if err := tx.InsertJob(before); err != nil {
				return err
			}
		}
		got, err := tx.Job(j.ID)
		if err != nil {
			return err
		}
		if err := got.Cancel(storetest.Now, "api", ""); err != nil {
			return err
		}
		return tx.UpdateJob(got)
	})
	r.mended()
	if err := r.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(before.ID); return err }); job.KindOf(err) != job.NotFound || asked != 2 {
		t.Errorf("after %d runs a job of the first is there: %v", asked, err)
	}
}

// What rots again after it was built anew is not built anew in a circle.
func TestIndexThatRotsAgainIsRefused(t *testing.T) {
	r := rottingStore(t)
	a, b := storetest.New(t, "q", nil), storetest.New(t, "q", nil)
	r.insert(a, b)
	r.rot(claimIndex, numbered(a, 2), other(numbered(a, 2)))
	r.heads(1)
	r.mended()
	r.w.suspect(rottenEntry(claimIndex, a.Seq))
	_ = r.Update(t.Context(), func(job.Tx) error { return nil })
	select {
	case <-r.Failed():
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was given up")
	}
	if err := r.Trouble(); err == nil || !strings.Contains(err.Error(), "damaged again") || !strings.Contains(err.Error(), "restore a backup") {
		t.Errorf("told: %v", err)
	}
}
