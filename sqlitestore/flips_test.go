package sqlitestore

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// garden is a closed store of jobs of every sort, and what it answers while it is sound.
type garden struct {
	file  []byte
	pages map[string][]int64 // where the pages of each index begin
	jobs  []*job.Job
	want  []string
}

// gardenOf fills a store with jobs of every sort, enough that its indexes are trees.
func gardenOf(t *testing.T) *garden {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &garden{pages: map[string][]int64{}}
	for i := range 200 {
		g.jobs = append(g.jobs, storetest.New(t, "q"+strconv.Itoa(i%3), func(j *job.Job) {
			j.Priority, j.Args = i%5, json.RawMessage(fmt.Sprintf("[%d]", i))
			switch i % 8 {
			case 1:
				j.ScheduledAt = storetest.Now.Add(time.Duration(i) * time.Hour)
			case 2, 3, 4:
				j.Unique = json.RawMessage(`{"keys":["args"]}`)
			case 5:
				j.Deduplication = json.RawMessage(fmt.Sprintf(`{"id":"d%d","ttl":900000000}`, i))
			case 6:
				j.CustomID = fmt.Sprint("custom", i)
			}
		}))
	}
	err = s.Update(t.Context(), func(tx job.Tx) error {
		for i, j := range g.jobs {
			if i%16 == 2 {
				j.Holds = 0 // another policy's job of that key
			}
			if err := tx.InsertJob(j); err != nil {
				return err
			}
			if i%8 == 7 { // dead letters
				if err := j.Start(storetest.Now, job.Lease{Token: "t", Length: time.Hour}); err != nil {
					return err
				}
				if err := j.Fail(storetest.Now.Add(time.Duration(i)*time.Second), job.Claim{ID: j.ID}, job.Failure{Code: "DEAD_LETTER"}, 0); err != nil {
					return err
				}
				if err := tx.UpdateJob(j); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.readers.Query("SELECT name, pageno FROM dbstat WHERE name LIKE 'jobs_%'")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		g.pages[name] = append(g.pages[name], (n-1)*4096)
	}
	if err := rows.Err(); err != nil || len(g.pages) != len(jobIndexes) {
		t.Fatal(g.pages, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if g.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	var well lines
	if g.want, err = g.live(t, g.file, &well); err != nil || well.count("level=ERROR") > 0 {
		t.Fatalf("a sound store: %v\n%s", err, &well.b)
	}
	return g
}

// live opens a file, looks for all keys, lets all times pass, claims and ends all
// that is there, and removes all. What was answered on the way are the lines. An
// error that is told to the caller ends it.
func (g *garden) live(t *testing.T, file []byte, log *lines) (lines []string, err error) {
	path := filepath.Join(t.TempDir(), "o.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(path) }()
	s, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	say := func(what string, jobs []*job.Job, err error) error {
		for _, j := range jobs {
			what += " " + string(j.ID)
		}
		lines = append(lines, what)
		return err
	}
	far := storetest.Now.Add(50 * 365 * 24 * time.Hour)
	for _, step := range []func(tx job.Tx) error{
		func(tx job.Tx) error { return g.lookUp(tx, say) },
		func(tx job.Tx) error { return g.promote(tx, far, say) },
		func(tx job.Tx) error { return g.drain(tx, far, say) },
		func(tx job.Tx) error {
			dead, err := tx.Dead(job.Filter{}, 1000)
			return say("dead", dead, err)
		},
		func(tx job.Tx) error {
			page, err := tx.Jobs(job.Filter{Dead: true, Limit: 1000})
			return say(fmt.Sprint("dead of ", page.Total), page.Jobs, err)
		},
		func(tx job.Tx) error {
			old, err := tx.Due(job.Completed, far, 1000)
			return say("to prune", old, err)
		},
		func(tx job.Tx) error {
			for _, j := range g.jobs {
				if err := tx.DeleteJob(j.ID); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		before := len(lines)
		err := s.Update(t.Context(), func(tx job.Tx) error {
			lines = lines[:before]
			return step(tx)
		})
		if err != nil {
			return lines, err
		}
	}
	return lines, s.View(t.Context(), func(tx job.ReadTx) error {
		_, err := tx.Queues()
		return err
	})
}

type sayer func(what string, jobs []*job.Job, err error) error

func (g *garden) lookUp(tx job.Tx, say sayer) error {
	for _, j := range g.jobs {
		if j.Unique != nil {
			twins, err := tx.Twins(j.Fingerprint, "")
			if err := say("twins", twins, err); err != nil {
				return err
			}
		}
		for _, find := range []func() (*job.Job, error){
			func() (*job.Job, error) { return tx.Custom(j.Queue, j.CustomID) },
			func() (*job.Job, error) { return tx.DedupOwner(j.Queue, j.DedupID(), storetest.Now) },
		} {
			found, err := find()
			if err != nil {
				return err
			}
			if found != nil {
				_ = say("found", []*job.Job{found}, nil)
			}
		}
	}
	return nil
}

func (g *garden) promote(tx job.Tx, far time.Time, say sayer) error {
	due, err := tx.Due(job.Scheduled, far, 1000)
	if err := say("due", due, err); err != nil {
		return err
	}
	for _, j := range due {
		if err := j.Ready(far); err != nil {
			return err
		}
		if err := tx.UpdateJob(j); err != nil {
			return err
		}
	}
	_, err = tx.NextDue(job.Scheduled)
	return err
}

func (g *garden) drain(tx job.Tx, far time.Time, say sayer) error {
	for {
		jobs, err := tx.Available([]string{"q0", "q1", "q2"}, 7)
		if err := say("claimed", jobs, err); err != nil || len(jobs) == 0 {
			return err
		}
		for _, j := range jobs {
			if err := j.Start(far, job.Lease{Token: "t", Length: time.Hour}); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
			if err := j.Complete(far, job.Claim{ID: j.ID}, nil); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
		}
	}
}

// A bit that turns anywhere in an index is never followed by a wrong silence:
// what is answered is right, or the store has said that it may not be. The short
// form turns as many as there is time for; OUTRIDER_FLIPS is how many else.
func TestTurnedBitsInIndexes(t *testing.T) {
	g := gardenOf(t)
	many, end := 1<<30, time.Now().Add(5*time.Second)
	if n, err := strconv.Atoi(os.Getenv("OUTRIDER_FLIPS")); err == nil {
		many, end = n, time.Now().Add(24*time.Hour)
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range g.pages {
			if !yield(name) {
				return
			}
		}
	})
	silent, mended, refused, n := 0, 0, 0, 0
	for ; n < many && time.Now().Before(end) && !t.Failed(); n++ {
		r := rand.New(rand.NewPCG(11, uint64(n)))
		name := names[n%len(names)]
		page := g.pages[name][r.IntN(len(g.pages[name]))]
		at := page + int64(r.IntN(4096))
		for range 100 { // what was never written is mostly zeros
			if g.file[at] != 0 {
				break
			}
			at = page + int64(r.IntN(4096))
		}
		bit := byte(1) << r.IntN(8)
		file := slices.Clone(g.file)
		file[at] ^= bit
		var log lines
		got, err := g.live(t, file, &log)
		errs := log.count("level=ERROR")
		switch {
		case log.count("panicked") > 0:
			t.Errorf("seed %d, %s, byte %d, bit %d: a panic:\n%s", n, name, at-page, bit, &log.b)
		case err != nil && job.KindOf(err) != job.Unavailable:
			t.Errorf("seed %d, %s, byte %d, bit %d: answered %v", n, name, at-page, bit, err)
		case err == nil && errs == 0 && !slices.Equal(got, g.want):
			t.Errorf("seed %d, %s, byte %d, bit %d: a wrong silence", n, name, at-page, bit)
		case err != nil:
			refused++
		case errs > 0:
			mended++
		default:
			silent++
		}
	}
	t.Logf("%d bits: %d changed nothing, %d were told and mended, %d refused", n, silent, mended, refused)
}
