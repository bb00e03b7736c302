package handwork

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// marked are the command lines of all processes with the marker in their environment.
func marked(t *testing.T, marker string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		t.Fatalf("no process in /proc: %v", err)
	}
	var found []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(marker)) {
			continue // it has ended, or is another user's
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // only shown
		found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	return found
}
