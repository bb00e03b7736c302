//go:build !linux

package sqlitestore

// networkFS names the network file system that holds dir. Here the system is
// not asked; what cannot hold a write-ahead log is refused by its pragmas.
func networkFS(string) string { return "" }
