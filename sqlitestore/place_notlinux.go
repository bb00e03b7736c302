//go:build !linux

package sqlitestore

// mounted is false: only Linux mounts single files.
func mounted(string) bool { return false }

// networkFS names the network file system that holds dir. It is not
// looked up here; what cannot hold a write-ahead log is refused by its pragmas.
func networkFS(string) string { return "" }
