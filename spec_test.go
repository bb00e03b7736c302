package outrider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SPEC.md may only name tests that exist.
func TestSpecNamesRealTests(t *testing.T) {
	page, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{"service": source(t, "job/servicetest"), "store": source(t, "job/storetest")}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "Clause" {
			continue
		}
		rows++
		where, name, _ := strings.Cut(strings.TrimSpace(cells[2]), ": ")
		want, text := `"`+name+`"`, cases[where]
		if text == "" {
			want, text = "func "+name+"(", source(t, where)
		}
		if !strings.Contains(text, want) {
			t.Errorf("clause %s names %q of %s, which is not there", strings.TrimSpace(cells[0]), name, where)
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows were read from SPEC.md", rows)
	}
}

// source is all Go of one folder.
func source(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %q: %v", dir, err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
