package sqlitestore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What root restores belongs to the user whose server is to open it, with its lock: the owner of the store before, or of
// the folder where there was none.
func TestWhoOwnsWhatRootRestores(t *testing.T) {
	if os.Geteuid() != 0 {
		return // another user can give nothing away
	}
	const nobody, daemon = 65534, 1
	dir := t.TempDir()
	backup, place := filepath.Join(dir, "copy.db"), filepath.Join(dir, "app")
	storeOf(t, backup, 3)
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(place, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(place, "o.db")
	for _, owner := range []uint32{nobody, daemon} {
		if _, err := Restore(t.Context(), backup, db, RestoreOptions{Replace: true}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{db, db + ".lock"} {
			st, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := st.Sys().(*syscall.Stat_t).Uid; got != owner || st.Mode().Perm() != 0o600 {
				t.Errorf("%s belongs to %d as %v, want %d and 0600", name, got, st.Mode(), owner)
			}
		}
		if err := os.Chown(db, daemon, daemon); err != nil {
			t.Fatal(err)
		}
	}
}
