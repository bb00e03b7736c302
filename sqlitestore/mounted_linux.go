package sqlitestore

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted reports whether a file is mounted by itself.
func mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && mountPoint(string(table), path)
}

// mountPoint finds a file in a table of mounts (proc_pid_mountinfo(5)), for
// kernels before 5.8, which statx(2) does not tell.
func mountPoint(table, path string) bool {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return false
	}
	path = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
