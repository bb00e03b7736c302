package sqlitestore

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A look must not make the next write of the file cost more: a kernel with stamps of
// many grains gives a finer one to who has asked for the one before.
func TestALookAsksForNoTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	tick := func() (now unix.Timespec) {
		_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) // which every Linux has
		return now
	}
	// coarse reports whether a second write of one tick, after the look, was stamped with that.
	coarse := func(look func(string) (fileID, int64, error)) bool {
		for range 50 {
			before := tick()
			for began := before; before == began; before = tick() { // two writes are to be in one tick
			}
			if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := look(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("b"), 0o600); err != nil {
				t.Fatal(err)
			}
			after := tick()
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if before == after && st.ModTime().UnixNano() == unix.TimespecToNsec(before) {
				return true
			}
		}
		return false
	}
	if coarse(lookByStat) {
		t.Log("this kernel or file system has one grain only: a look may ask for what it likes")
	}
	if !coarse(lookAt) {
		t.Error("after a look each write is stamped with the very moment")
	}
}

// Both ways to look see the same.
func TestALookIsAStat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 12345), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Dir(path), "/dev/null", path + "-none", path + "/below"} {
		a, n, err := lookAt(path)
		b, m, want := lookByStat(path)
		if a != b || n != m || err != want {
			t.Errorf("%s: %v, %d, %v; by stat %v, %d, %v", path, a, n, err, b, m, want)
		}
	}
}
