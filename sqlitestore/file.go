package sqlitestore

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/outrider-jobs/outrider/job"
)

const magic = "SQLite format 3\x00"

// lookedAt looks at a file without opening it, and refuses what cannot hold a store. It
// reports whether there is no file yet. It opens nothing: a process that closes any
// descriptor of a file loses the locks that SQLite has on it (fcntl(2)), and this
// one may have the store open already.
func lookedAt(path string) (missing bool, err error) {
	if path == "" || path == ":memory:" {
		return false, job.Errorf(job.Unavailable, "a database needs a file, got %q; name one", path)
	}
	dir := folder(path)
	switch st, err := os.Stat(dir); {
	case err != nil:
		return false, job.Errorf(job.Unavailable, "the folder of the database %s cannot be used; make it or choose another: %w", path, err)
	case !st.IsDir():
		return false, job.Errorf(job.Unavailable, "%s is not a folder, so %s cannot be made in it; choose another place", dir, path)
	}
	if kind := networkFS(dir); kind != "" {
		return false, job.Errorf(job.Unavailable, "%s lies on a network file system (%s), where SQLite's locks do not hold and data is lost; put the database on a local disk", path, kind)
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return false, job.Errorf(job.Unavailable, "%s is not a plain file and cannot hold a database; choose another place", path)
	case err == nil && links(st) > 1:
		return false, job.Errorf(job.Unavailable, "%s is one file with %d names (hard links), so its lock would not keep a second outrider out; remove the other names or copy it", path, links(st))
	case err == nil && mounted(path):
		return false, job.Errorf(job.Unavailable, "%s is mounted by itself, without its folder: its log would lie elsewhere than for whoever opens the file in its own folder, and what was acknowledged be lost; mount the folder instead", path)
	}
	return errors.Is(err, fs.ErrNotExist), planted(path)
}

// planted refuses what lies where a file of the store belongs and is not one: what
// a link leads to would be written over, and who reads a pipe waits for ever.
func planted(path string) error {
	for _, suffix := range []string{".lock", "-wal", "-shm", "-journal"} {
		name := path + suffix
		st, err := os.Lstat(name)
		switch {
		case err != nil:
			continue // whoever needs it reports what is wrong with it
		case st.Mode()&fs.ModeSymlink != 0:
			return job.Errorf(job.Unavailable, "%s is a symbolic link, and outrider would write to what it leads to; remove it, outrider makes that file itself", name)
		case !st.Mode().IsRegular():
			return job.Errorf(job.Unavailable, "%s is not a plain file (%v), and outrider needs the name; remove it, outrider makes that file itself", name, st.Mode().Type())
		case links(st) > 1:
			return job.Errorf(job.Unavailable, "%s is one file with %d names (hard links), and outrider would write to all of them; remove it if it is not the store's, else the other names", name, links(st))
		}
	}
	return nil
}

// inspect looks at a file before SQLite does, so that what is not ours stays as
// it is, to the byte. It reports whether there is no store yet: no file, an empty one,
// or one that was left before its schema was in it.
func inspect(path string) (none bool, err error) {
	missing, err := lookedAt(path)
	if err != nil {
		return false, err
	}
	if missing {
		return true, checkLostDatabase(path)
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
		return true, checkLostDatabase(path)
	}
	if err != nil || string(head[:16]) != magic {
		return false, damagef("%s is not a SQLite database; choose another file, this one was not changed. If it was one, keep a copy and restore a backup", path)
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

// checkLostDatabase refuses to make a store beside a log that has lost its database: a new
// one would throw it away.
func checkLostDatabase(path string) error {
	const header = 32 // of a log in which nothing was written yet
	if st, err := os.Stat(path + "-wal"); err == nil && st.Size() > header {
		return damagef("%s is missing or empty, but its log %s-wal holds %d bytes of it; put the database back, or restore a backup, or move the log away to begin with an empty store", path, path, st.Size())
	}
	return nil
}

// follow is the file that a path leads to, also where that does not exist yet.
// SQLite puts the log beside it, so that is where the lock must lie.
func follow(path string) (string, error) {
	for range 40 {
		st, err := os.Lstat(path)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			return path, nil // inspect reports what is wrong with it
		}
		to, err := os.Readlink(path)
		dir := ""
		if err == nil && !filepath.IsAbs(to) {
			dir, err = filepath.EvalSymlinks(folder(path))
			to = dir + string(filepath.Separator) + to // not cleaned: ".." behind a link is not what it looks like
		}
		if err != nil {
			return "", job.Errorf(job.Unavailable, "the database %s cannot be reached: %w", path, err)
		}
		path = to
	}
	return "", job.Errorf(job.Unavailable, "the database %s is a link that leads to itself; choose another file", path)
}

// folder is where a file lies. Unlike filepath.Dir it takes nothing away: ".."
// behind a link leads out of what the link leads to.
func folder(path string) string {
	if dir, _ := filepath.Split(path); dir != "" {
		return dir
	}
	return "."
}
