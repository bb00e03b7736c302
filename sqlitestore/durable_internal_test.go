package sqlitestore

import (
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// DG-002: a commit of the writer is flushed to the disk before it is answered.
// What that takes is written here once more, so that it cannot be changed by the way.
func TestTheWriterFlushesEachCommit(t *testing.T) {
	s := opened(t)
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "checkpoint_fullfsync": "1"} {
		var got string
		err := s.Update(t.Context(), func(job.Tx) error { // so that the writer is not using its connection itself
			return s.w.unprepared.QueryRowx("PRAGMA " + name).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("PRAGMA %s of the writer is %s, %v; want %s", name, got, err, want)
		}
	}
}
