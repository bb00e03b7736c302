//go:build !unix

package sqlitestore

import "io/fs"

// links is how many names a file has; this system is not asked.
func links(fs.FileInfo) uint64 { return 1 }
