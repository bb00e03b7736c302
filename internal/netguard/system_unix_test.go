//go:build unix

package netguard

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClosingLeavesAnotherServersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.sock")
	first, err := ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	second, err := ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second server's socket is gone: %v", err)
	}
	second.Close()
}
