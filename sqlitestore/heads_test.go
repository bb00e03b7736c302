package sqlitestore

import (
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// As long as large jobs of one queue wait, none of the next is claimed.
func TestLargeJobsKeepTheirTurn(t *testing.T) {
	s := opened(t)
	for _, queue := range []string{"a", "b"} {
		for range 20 {
			j := big(t, 900_000)
			if queue == "b" {
				j = storetest.New(t, "q", nil)
			}
			j.Queue = queue
			if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		if err := s.Update(t.Context(), func(tx job.Tx) error {
			ready, err := tx.Available([]string{"a", "b"}, 15)
			for _, j := range ready {
				if j.Queue != "a" {
					t.Fatalf("of %d jobs one is of the second queue", len(ready))
				}
			}
			if len(ready) == 0 {
				t.Error("nothing is claimed")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.w.forget()
	}
}

// A number is never given twice, whatever has become of the note of the last one.
func TestALastNumberThatWentBack(t *testing.T) {
	s := opened(t)
	insert := func() error {
		return s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(storetest.New(t, "q", nil)) })
	}
	for range 3 {
		if err := insert(); err != nil {
			t.Fatal(err)
		}
	}
	run(t, s.w.conn, "UPDATE queues SET last_seq = 1")
	if err := s.w.load(); err != nil {
		t.Fatal(err)
	}
	if err := insert(); err != nil {
		t.Error(err)
	}
	storetest.Audit(t, s)
}

// A job that takes the id of one that the same call has deleted is found by it, also
// where nobody would ask for it soon.
func TestAnIDThatIsTakenAgain(t *testing.T) {
	s := opened(t)
	var js []*job.Job
	for range maxRemembered + 1 {
		js = append(js, storetest.New(t, "q", nil))
	}
	if err := s.Update(t.Context(), func(tx job.Tx) error { _, err := tx.InsertJobs(js); return err }); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.DeleteJob(js[0].ID); err != nil {
			return err
		}
		again := storetest.New(t, "q", func(j *job.Job) { j.ID = js[0].ID })
		if err := tx.InsertJob(again); err != nil {
			return err
		}
		_, err := tx.Job(again.ID)
		return err
	}); err != nil {
		t.Error(err)
	}
	storetest.Audit(t, s)
}
