package sqlitestore

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// A store that nobody had is read without locks. One on which a server begins to work meanwhile makes no archive that
// looks whole, and takes no store's place.
func TestAServerBeginsWhileAStoreIsRead(t *testing.T) {
	dir := t.TempDir()
	db, backup := filepath.Join(dir, "o.db"), filepath.Join(dir, "copy.db")
	storeOf(t, db, 600)
	meanwhile := func(path string) {
		storeOf(t, path, 1)
	}
	var archive bytes.Buffer
	count, err := Export(t.Context(), db, &archive, ExportOptions{Progress: func(c ArchiveCount) {
		if c.Jobs == 511 {
			meanwhile(db)
		}
	}})
	if job.KindOf(err) != job.Conflict || bytes.Contains(archive.Bytes(), []byte(`{"end":`)) {
		t.Errorf("an export of %+v: %v, want a Conflict and no end", count, err)
	}
	if count, err = Export(t.Context(), db, &archive, ExportOptions{}); err != nil || count.Jobs != 601 {
		t.Errorf("the next one is of %+v, %v; want 601 jobs", count, err)
	}
	if _, err := Backup(t.Context(), db, backup, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	begun := false
	o := RestoreOptions{Progress: func(doing string, _, _ int64) {
		if doing == "check" && !begun {
			begun = true
			meanwhile(backup)
		}
	}}
	if _, err := Restore(t.Context(), backup, filepath.Join(dir, "r.db"), o); job.KindOf(err) != job.Conflict {
		t.Errorf("a restore of a backup that is worked on: %v, want a Conflict", err)
	}
	if r, err := Restore(t.Context(), backup, filepath.Join(dir, "r.db"), RestoreOptions{}); err != nil || r.Jobs != 602 {
		t.Errorf("the next one: %+v, %v; want 602 jobs", r, err)
	}
	if _, err := Verify(t.Context(), db); err != nil {
		t.Errorf("verify: %v", err)
	}
}
