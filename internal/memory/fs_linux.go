package memory

import "syscall"

// FileSystem names the file system of dir if it is one in memory, or is empty.
func FileSystem(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case 0x01021994:
		return "tmpfs"
	case 0x858458f6:
		return "ramfs"
	}
	return ""
}
