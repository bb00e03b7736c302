//go:build !linux

package memory

// groupLimit is 0: only Linux has control groups.
func groupLimit() int64 { return 0 }
