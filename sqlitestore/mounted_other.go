//go:build !linux

package sqlitestore

// mounted is false: only Linux mounts single files.
func mounted(string) bool { return false }
