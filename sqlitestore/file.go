package sqlitestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/outrider-jobs/outrider/job"
)

const magic = "SQLite format 3\x00"

// inspect looks at a file before SQLite does, so that what is not ours stays as
// it is, to the byte. It says whether there is no store yet: no file, an empty one,
// or one that was left before its schema was in it.
func inspect(path string) (none bool, err error) {
	if path == "" || path == ":memory:" {
		return false, job.Errorf(job.Unavailable, "a database needs a file, got %q; name one with --db", path)
	}
	dir := filepath.Dir(path)
	switch st, err := os.Stat(dir); {
	case err != nil:
		return false, job.Errorf(job.Unavailable, "the folder of the database %s cannot be used; make it or choose another with --db: %w", path, err)
	case !st.IsDir():
		return false, job.Errorf(job.Unavailable, "%s is not a folder, so %s cannot be made in it; choose another place with --db", dir, path)
	}
	if kind := networkFS(dir); kind != "" {
		return false, job.Errorf(job.Unavailable, "%s lies on a network file system (%s), where SQLite's locks do not hold and data is lost; put the database on a local disk", path, kind)
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, orphaned(path)
	case err == nil && !st.Mode().IsRegular():
		return false, job.Errorf(job.Unavailable, "%s is not a plain file and cannot hold a database; choose another place with --db", path)
	case err == nil && links(st) > 1:
		return false, job.Errorf(job.Unavailable, "%s is one file with %d names (hard links), so its lock would not keep a second outrider out; remove the other names or copy it", path, links(st))
	}
	f, err := os.Open(path)
	if err != nil {
		return false, job.Errorf(job.Unavailable, "the database %s cannot be read; check its owner and rights: %w", path, err)
	}
	defer f.Close()
	return header(path, f)
}

// header judges the first bytes of a database file.
func header(path string, f io.Reader) (none bool, err error) {
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if n == 0 && err == io.EOF {
		return true, orphaned(path)
	}
	if err != nil || string(head[:16]) != magic {
		return false, job.Errorf(job.Unavailable, "%s is not a SQLite database; choose another file with --db, this one was not changed", path)
	}
	app, v := int64(binary.BigEndian.Uint32(head[68:])), int64(binary.BigEndian.Uint32(head[60:]))
	if app == 0 && v == 0 {
		// Perhaps made by an older version and left before the schema was in it, or
		// with all of it still in the log.
		if c, ok := peek(path); ok {
			app, v, none = c.app, c.version, c == content{}
		}
	}
	if none {
		return true, nil
	}
	return false, judge(path, app, v)
}

// orphaned refuses to make a store beside a log that has lost its database: a new
// one would throw it away.
func orphaned(path string) error {
	const header = 32 // of a log in which nothing was written yet
	if st, err := os.Stat(path + "-wal"); err == nil && st.Size() > header {
		return job.Errorf(job.Unavailable, "%s is missing or empty, but its log %s-wal holds %d bytes of it; put the database back, or restore a backup, or move the log away to begin with an empty store", path, path, st.Size())
	}
	return nil
}

// follow is the file that a path leads to, also where that does not exist yet.
// SQLite puts the log beside it, so that is where the lock must lie.
func follow(path string) (string, error) {
	for range 40 {
		st, err := os.Lstat(path)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			return path, nil // what is wrong with it is told by inspect
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", job.Errorf(job.Unavailable, "the database %s cannot be reached: %w", path, err)
		}
		if !filepath.IsAbs(to) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", job.Errorf(job.Unavailable, "the database %s cannot be reached: %w", path, err)
			}
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return "", job.Errorf(job.Unavailable, "the database %s is a link that leads to itself; choose another file with --db", path)
}

// takeLock takes path.lock for this process. The kernel frees it when the process
// ends, however it ends. The file itself stays: removing it would let two
// processes lock two files of one name.
func takeLock(path string) (*flock.Flock, error) {
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "the lock file %s cannot be used; check its owner and rights: %w", l.Path(), err)
	}
	if !ok {
		return nil, job.Errorf(job.Unavailable, "%s is in use by another outrider%s; stop that one first, or give this one another file with --db", path, holder(l.Path()))
	}
	// The number is for people only; a lock without it holds just as well.
	_ = os.WriteFile(l.Path(), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
	return l, nil
}

// holder names the process that wrote the lock file.
func holder(path string) string {
	b, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}
