package sqlitestore

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// What a store shows of itself: the sizes of its files as they are, when it was last
// written, and the kinds of its troubles, each under a name of its own, worst first.
func TestFacts(t *testing.T) {
	s := opened(t)
	if f := s.Facts(); !f.LastCommit.IsZero() || len(f.Troubles) != 0 {
		t.Errorf("a store that nothing was written to: %+v", f)
	}
	before := time.Now()
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(storetest.New(t, "q", func(*job.Job) {})) }); err != nil {
		t.Fatal(err)
	}
	f := s.Facts()
	if f.LastCommit.Before(before) || f.LastCommit.After(time.Now()) {
		t.Errorf("last written %s, not since %s", f.LastCommit, before)
	}
	for path, got := range map[string]int64{s.path: f.FileBytes, s.path + "-wal": f.LogBytes} {
		if st, err := os.Stat(path); err != nil || got != st.Size() || got == 0 {
			t.Errorf("%s has %d bytes: %v %v", path, got, st, err)
		}
	}
	for kind := slow; kind >= failed; kind-- {
		s.troubles.begin(kind, slog.LevelWarn, errors.New("trouble"))
		if got, want := s.Facts().Troubles, job.TroubleKinds[kind:]; !slices.Equal(got, want) {
			t.Errorf("the kinds are %q, want %q", got, want)
		}
	}
	if len(job.TroubleKinds) != int(slow)+1 {
		t.Errorf("%d kinds have names, and there are %d", len(job.TroubleKinds), slow+1)
	}
	for kind := failed; kind <= slow; kind++ {
		s.troubles.end(kind, "well")
	}
	if got := s.Facts().Troubles; len(got) != 0 {
		t.Errorf("all is well, and there is %q", got)
	}
}
