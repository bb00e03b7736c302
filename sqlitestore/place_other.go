//go:build !unix

package sqlitestore

import (
	"io/fs"
	"log/slog"
	"os"

	"github.com/gofrs/flock"
)

// looksAreCheap: Windows opens a file to look at it. Nor does it let anybody
// remove one that SQLite has open, so a look now and then is enough.
const looksAreCheap = false

// fileID is which file something is, whatever its name.
type fileID struct{ fs.FileInfo }

func (a fileID) is(b fileID) bool { return os.SameFile(a.FileInfo, b.FileInfo) }

// lookAt says which file has a name. The length of one that is written is not
// known in its folder here.
func lookAt(path string) (fileID, int64, error) {
	st, err := os.Stat(path)
	return fileID{st}, -1, err
}

// links is how many names a file has; it is not looked up on this system.
func links(fs.FileInfo) uint64 { return 1 }

// noSurprise is 0 here: creating links needs rights that few users have.
const noSurprise = 0

// warnExposed does nothing: the rights of files are of another kind here.
func warnExposed(string, *slog.Logger) {}

// ownerBefore is nobody: here files have the owner that their folder gives them.
func ownerBefore(string) (uid, gid int, ok bool) { return 0, 0, false }

func giveLock(*flock.Flock, int, int) error { return nil }
