//go:build unix

package sqlitestore_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outrider-jobs/outrider/sqlitestore"
)

// A FIFO where the lock belongs does not hang the start.
func TestLockThatIsAPipe(t *testing.T) {
	for _, suffix := range []string{".lock", "-wal", "-shm", "-journal"} {
		path := filepath.Join(t.TempDir(), "o.db")
		if err := syscall.Mkfifo(path+suffix, 0o600); err != nil {
			t.Fatal(err)
		}
		if says := refused(t, path); !strings.Contains(says, path+suffix) || !strings.Contains(says, "remove it") {
			t.Errorf("%s: %s", suffix, says)
		}
	}
}

// Who may read or write the database, or plant files beside it, is told with the
// command that changes it. Nothing is changed: a group may share it on purpose.
func TestRightsOfOthersAreTold(t *testing.T) {
	for _, tt := range []struct {
		file, folder os.FileMode
		says         []string
	}{
		{0o600, 0o700, nil},
		{0o660, 0o770, nil},
		{0o600, 0o755, nil},
		{0o666, 0o700, []string{"may read and write the database", "mode=0666", "chmod o-rwx PATH PATH-wal PATH-shm"}},
		{0o644, 0o700, []string{"may read the database", "mode=0644"}},
		{0o602, 0o700, []string{"may write the database", "mode=0602"}},
		{0o600, 0o777, []string{"folder of the database", "mode=0777"}},
		{0o600, 0o777 | os.ModeSticky, []string{"folder of the database", "mode=1777"}},
		{0o666, 0o777, []string{"may read and write the database", "folder of the database"}},
	} {
		for _, made := range []bool{false, true} { // made already, or empty with rights that somebody gave it
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "o.db")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if made {
				opens(t, path)
			} else if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.folder); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				if st, err := os.Stat(name); err != nil || st.Mode().Perm() != tt.file {
					t.Errorf("%s of %v is %v, %v", name, tt.file, st.Mode(), err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, says := range tt.says {
				if !strings.Contains(log.String(), strings.ReplaceAll(says, "PATH", path)) {
					t.Errorf("%v in %v does not tell %q: %s", tt.file, tt.folder, says, log.String())
				}
			}
			if len(tt.says) == 0 && log.Len() > 0 {
				t.Errorf("%v in %v: %s", tt.file, tt.folder, log.String())
			}
		}
	}
}
