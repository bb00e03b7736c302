package memory

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// groupLimit is the least limit of memory of the control groups that hold this
// process, of version 1 or 2, in bytes; 0 is none.
func groupLimit() int64 { return groupLimitIn("/proc/self/cgroup", "/sys/fs/cgroup") }

// groupLimitIn reads it from the list of a process's groups, and where they are
// mounted. Inside a container its own group is the root of the mount, under
// whatever name the list has it.
func groupLimitIn(list, mount string) int64 {
	b, err := os.ReadFile(list)
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, name := mount, "memory.max"
		if part[1] != "" {
			if !strings.Contains(","+part[1]+",", ",memory,") {
				continue
			}
			root, name = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		}
		for at := filepath.Clean("/" + part[2]); ; at = filepath.Dir(at) {
			if n := limitIn(filepath.Join(root, at, name)); n > 0 && (least == 0 || n < least) {
				least = n
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// limitIn is the limit in a file, and 0 for "max", for the largest number there is
// and for no file.
func limitIn(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
