//go:build unix

package sqlitestore

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A lock file that was removed is made again. One that another has is believed at
// the second look: a server that is refused has it for a moment.
func TestALockFileThatIsTaken(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "o.db")
	c, err := take(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.free()
	for range 2 {
		if err := os.Remove(path + ".lock"); err != nil {
			t.Fatal(err)
		}
		other, err := takeLock(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.check(); err != nil {
			t.Errorf("at the first look: %v", err)
		}
		if err := other.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := c.check(); err != nil || !ours(c.lock, path+".lock") {
			t.Errorf("when the other has gone: %v, and the file is not made again", err)
		}
	}
	if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != 2 {
		t.Errorf("told %d times in\n%s", n, log.String())
	}
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	other, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Unlock()
	first, second := c.check(), c.check()
	if first != nil || second == nil {
		t.Errorf("one that stays: %v, then %v", first, second)
	}
}
