package sqlitestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/job"
)

const magic = "SQLite format 3\x00"

// inspect looks at a file before SQLite does, so that what is not ours stays as
// it is, to the byte.
func inspect(path string) error {
	if path == "" || path == ":memory:" {
		return job.Errorf(job.Unavailable, "a database needs a file, got %q; name one with --db", path)
	}
	dir := filepath.Dir(path)
	switch st, err := os.Stat(dir); {
	case err != nil:
		return job.Errorf(job.Unavailable, "the folder of the database %s cannot be used; make it or choose another with --db: %w", path, err)
	case !st.IsDir():
		return job.Errorf(job.Unavailable, "%s is not a folder, so %s cannot be made in it; choose another place with --db", dir, path)
	}
	if kind := networkFS(dir); kind != "" {
		return job.Errorf(job.Unavailable, "%s lies on a network file system (%s), where SQLite's locks do not hold and data is lost; put the database on a local disk", path, kind)
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !st.Mode().IsRegular():
		return job.Errorf(job.Unavailable, "%s is not a plain file and cannot hold a database; choose another place with --db", path)
	case err == nil && links(st) > 1:
		return job.Errorf(job.Unavailable, "%s is one file with %d names (hard links), so its lock would not keep a second outrider out; remove the other names or copy it", path, links(st))
	}
	f, err := os.Open(path)
	if err != nil {
		return job.Errorf(job.Unavailable, "the database %s cannot be read; check its owner and rights: %w", path, err)
	}
	defer f.Close()
	return header(path, f)
}

// header judges the first bytes of a database file.
func header(path string, f io.Reader) error {
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if n == 0 && err == io.EOF {
		return nil // empty: to be made
	}
	if err != nil || string(head[:16]) != magic {
		return job.Errorf(job.Unavailable, "%s is not a SQLite database; choose another file with --db, this one was not changed", path)
	}
	app, v := binary.BigEndian.Uint32(head[68:]), binary.BigEndian.Uint32(head[60:])
	if app == 0 && v == 0 && !hasTables(path) {
		return nil // made, and left before the schema was in it
	}
	return judge(path, int64(app), int64(v))
}

// hasTables looks into a database without locking or changing it. What cannot
// be read counts as full.
func hasTables(path string) bool {
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return true // in the log, which cannot be read without writing
	}
	c, err := sqlite.NewConnector("file:" + escape(path) + "?mode=ro&immutable=1")
	if err != nil {
		return true
	}
	conn, err := c.Connect(context.Background())
	if err != nil {
		return true
	}
	defer conn.Close()
	n, err := number(conn, "SELECT count(*) FROM sqlite_schema")
	return err != nil || n > 0
}

// create makes the file for its owner alone; SQLite gives its -wal and -shm the same rights.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return job.Errorf(job.Unavailable, "the database %s cannot be written; check the owner and the rights of the file and its folder: %w", path, err)
	}
	return f.Close()
}

// takeLock takes path.lock for this process. The kernel frees it when the process
// ends, however it ends. The file itself stays: removing it would let two
// processes lock two files of one name.
func takeLock(path string) (*flock.Flock, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = path, nil
	}
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "the database %s cannot be reached: %w", path, err)
	}
	l := flock.New(real+".lock", flock.SetPermissions(0o600))
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
