package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// big is a job that fills pages.
func big(t *testing.T, bytes int) *job.Job {
	t.Helper()
	return storetest.New(t, "q", func(j *job.Job) {
		j.Args = json.RawMessage(`["` + strings.Repeat("x", bytes) + `"]`)
	})
}

// A database that may not grow refuses what does not fit, whole, and goes on by
// itself when there is room again: also where SQLite has rolled the transaction
// back in the middle of a call.
func TestFullDatabaseRecovers(t *testing.T) {
	s := opened(t)
	limit := func(pages int) {
		t.Helper()
		if _, err := one(s.w.conn, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(n, bytes int) error {
		return s.Update(t.Context(), func(tx job.Tx) error {
			for range n {
				if err := tx.InsertJob(big(t, bytes)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := insert(1, 100); err != nil {
		t.Fatal(err)
	}
	limit(100)
	for _, n := range []int{1, 200} {
		if err := insert(n, 500_000/n+200_000); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%d jobs that do not fit: %v", n, err)
		}
	}
	if err := insert(1, 100); err != nil {
		t.Errorf("a job that fits: %v", err)
	}
	limit(1 << 20)
	if err := insert(20, 50_000); err != nil {
		t.Errorf("with room again: %v", err)
	}
	storetest.Audit(t, s)
}

// A disk that is full at any page of a large call, also at the events that it
// writes as it goes, leaves nothing of it, and is forgotten once there is room.
func TestFullInTheMiddleOfALargeCall(t *testing.T) {
	const many = 1504
	for name, call := range map[string]func(tx job.Tx, stored []job.ID) error{
		"insert": func(tx job.Tx, _ []job.ID) error {
			js := make([]*job.Job, many)
			for i := range js {
				js[i] = storetest.New(t, "q", nil)
			}
			_, err := tx.InsertJobs(js)
			return err
		},
		"update": func(tx job.Tx, stored []job.ID) error {
			for _, id := range stored {
				j, err := tx.Job(id)
				if err == nil {
					err = j.Cancel(storetest.Now, "api", "")
				}
				if err == nil {
					err = tx.UpdateJob(j)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		"a call that does not listen": func(tx job.Tx, _ []job.ID) error {
			for i := range many {
				_ = tx.AddEvent(job.WorkerEvent(job.WorkerStarted, fmt.Sprint("w", i), storetest.Now))
				_ = tx.PutWorker(job.WorkerInfo{ID: fmt.Sprint("w", i)})
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := opened(t)
			number := func(query string) int64 {
				v, err := one(s.w.conn, query)
				if err != nil {
					t.Fatal(err)
				}
				return v.(int64)
			}
			var stored []job.ID
			err := s.Update(t.Context(), func(tx job.Tx) error {
				for range many {
					j := storetest.New(t, "q", nil)
					stored = append(stored, j.ID)
					if err := tx.InsertJob(j); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			const kept = `SELECT (SELECT count(*) FROM jobs WHERE state = 'available') * 1000000 + (SELECT count(*) FROM jobs) * 1000 + (SELECT count(*) FROM events) + (SELECT count(*) FROM workers)`
			before, failed := number(kept), 0
			for room := int64(1); ; room += 3 {
				number(fmt.Sprintf("PRAGMA max_page_count = %d", number("PRAGMA page_count")-number("PRAGMA freelist_count")+room))
				err := s.Update(t.Context(), func(tx job.Tx) error { return call(tx, stored) })
				if number("PRAGMA max_page_count = 1000000"); err == nil {
					break
				}
				if failed++; job.KindOf(err) != job.Unavailable || number(kept) != before {
					t.Fatalf("with %d pages: %v; it has left something", room, err)
				}
				storetest.Audit(t, s)
				if err := s.Update(t.Context(), func(tx job.Tx) error {
					return tx.AddEvent(job.WorkerEvent(job.WorkerStarted, "w", storetest.Now))
				}); err != nil {
					t.Fatalf("after %d pages: %v", room, err)
				}
				before++
			}
			if failed < 3 {
				t.Errorf("the disk was full %d times", failed)
			}
			storetest.Audit(t, s)
		})
	}
}

// A caller that leaves while it reads is told so, and frees its connection.
func TestReaderThatLeaves(t *testing.T) {
	s := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.View(ctx, func(tx job.ReadTx) error {
		cancel()
		_, err := tx.Queues()
		return err
	})
	if job.KindOf(err) != job.Unavailable {
		t.Errorf("got %v", err)
	}
}

// What is pruned gives its space back.
func TestPrunedFileShrinks(t *testing.T) {
	s := opened(t)
	pages := func() int64 {
		t.Helper()
		n, err := number(s.w.conn, "PRAGMA page_count")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var ids []job.ID
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		ids = nil
		for range 300 {
			j := big(t, 10_000)
			if err := tx.InsertJob(j); err != nil {
				return err
			}
			ids = append(ids, j.ID)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	full := pages()
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		for _, id := range ids {
			if err := tx.DeleteJob(id); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if left := pages(); left > full/4 {
		t.Errorf("%d pages with 300 jobs of 10 KB, %d without them", full, left)
	}
}
