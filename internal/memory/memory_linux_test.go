package memory

import (
	"os"
	"path/filepath"
	"testing"
)

// The least limit counts, of the group itself and of those around it, in both versions.
func TestLimitsOfControlGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		list  string
		files map[string]string
		want  int64
	}{
		"none":                   {"0::/\n", nil, 0},
		"version 2":              {"0::/a/b\n", map[string]string{"a/b/memory.max": "1000\n", "a/memory.max": "max\n"}, 1000},
		"version 2, above":       {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "500\n"}, 500},
		"version 2, a container": {"0::/\n", map[string]string{"memory.max": "700\n"}, 700},
		"version 1":              {"5:cpu:/x\n4:memory:/a\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "900\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 900},
		"version 1, a container": {"4:memory:/docker/abc\n", map[string]string{"memory/memory.limit_in_bytes": "800\n"}, 800},
		"version 1, beside":      {"4:cpuset,memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "900\n", "memory/b/memory.limit_in_bytes": "1\n"}, 900},
		"no number":              {"0::/a\n", map[string]string{"a/memory.max": "lots\n"}, 0},
	} {
		dir := t.TempDir()
		for path, text := range tt.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		list := filepath.Join(dir, "list")
		if err := os.WriteFile(list, []byte(tt.list), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := groupLimitIn(list, dir); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
