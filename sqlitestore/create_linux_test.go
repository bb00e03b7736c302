package sqlitestore_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/outrider-jobs/outrider/sqlitestore"
)

// A folder in which names may be written and not read cannot be flushed.
func TestAFolderThatCannotBeFlushed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		asNobody(t, dir)
	}
	if _, err := os.ReadDir(dir); err == nil {
		t.Fatal("the folder can be read, so this would show nothing")
	}
	s, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// asNobody gives dir to a user who is not root, and lets this goroutine use files
// as that one until the test is over: root may read every folder.
func asNobody(t *testing.T, dir string) {
	t.Helper()
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(dir); up != filepath.Clean(os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
	})
}
