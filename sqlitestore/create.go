package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	outrider "github.com/outrider-jobs/outrider"
	"github.com/outrider-jobs/outrider/job"
)

// create makes the store where there is none. It is built under another name,
// flushed, and then given its own: a start that is cut off anywhere leaves a whole
// store or none. The caller holds the lock.
func create(ctx context.Context, path string) error {
	none, err := inspect(path)
	if err != nil {
		return err
	}
	if !none {
		return writable(path)
	}
	made := path + ".half-made" // whoever finds it knows what it is, and nobody keeps a database under it
	parts := []string{made, made + "-wal", made + "-shm", made + "-journal"}
	if err := removeAll(parts...); err != nil {
		return cannotMake(path, err)
	}
	err = build(ctx, made)
	if err == nil {
		err = checkUnused(ctx, path)
	}
	if err != nil {
		_ = removeAll(parts...) // err is why we are here, and the next start removes them too
		return err
	}
	if err := putInPlace(made, path); err != nil {
		return cannotMake(path, err)
	}
	return nil
}

// putInPlace gives the store that was made its own name.
func putInPlace(made, path string) error {
	if err := flush(made, os.O_RDWR); err != nil { // Windows flushes only what is open for writing
		return err
	}
	if st, err := os.Stat(path); err == nil { // empty, with the rights that somebody gave it
		if err := os.Chmod(made, st.Mode().Perm()); err != nil {
			return err
		}
	}
	// What is left of a start that was cut off would be taken for the new store's.
	if err := removeAll(path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil || runtime.GOOS == "windows" {
		return err // a folder cannot be flushed there, NTFS keeps a log of its names
	}
	if err := flush(folder(path), os.O_RDONLY); !unflushable(err) {
		return err
	}
	return nil
}

// unflushable are the errors of a folder that cannot be flushed at all: SQLite
// passes over them, too, and by then the store is there and whole.
func unflushable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// checkUnused makes sure that no other program works on the file in whose place the
// store comes, nor has since it was looked at: its writes would be lost.
func checkUnused(ctx context.Context, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	conn, err := connect(ctx, path, "?_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := script(conn, "BEGIN EXCLUSIVE"); err != nil {
		return err
	}
	if n, err := number(conn, "SELECT count(*) FROM sqlite_schema"); err != nil || n == 0 {
		return err
	}
	return judge(path, 0, 0)
}

// writable finds out whether this process may write the file.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return job.Errorf(job.Unavailable, "the database %s cannot be written; check the owner and the rights of the file and its folder: %w", path, err)
	}
	return f.Close()
}

func cannotMake(path string, err error) error {
	return job.Errorf(job.Unavailable, "the database %s cannot be made; check the owner and the rights of its folder, and that the file is not mounted by itself: %w", path, err)
}

// build makes a whole store in a new file, for its owner alone; SQLite gives its
// log the same rights. All of it is in the file when build returns.
func build(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return cannotMake(path, err)
	}
	c, err := newConnector(path, false)
	if err != nil {
		return err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	if err := fill(conn); err != nil {
		return closing(conn, err)
	}
	return conn.Close()
}

// fill puts the schema into an empty database.
func fill(conn driver.Conn) error {
	// auto_vacuum takes effect only before the first table, and not inside a transaction.
	if err := script(conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"); err != nil {
		return fmt.Errorf("prepare an empty database: %w", err)
	}
	err := script(conn, "BEGIN IMMEDIATE;"+outrider.Schema+
		fmt.Sprintf("; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", applicationID, version))
	if err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	return script(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
}

// flush brings a file, or the names in a folder, to the disk.
func flush(path string, how int) error {
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return err
	}
	return cmp.Or(f.Sync(), f.Close())
}

func removeAll(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// content is what a database and its logs hold together.
type content struct{ tables, app, version int64 }

// maxUnmade is more than a start that was cut off ever left, of versions that
// made the store in its place.
const maxUnmade = 4 << 20

// peek looks into a copy of a database, as reading a log writes. It reports false
// where the files are too large for a store that is half made, or cannot be read.
func peek(path string) (content, bool) {
	dir, err := os.MkdirTemp("", "outrider-")
	if err != nil {
		return content{}, false
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "o.db")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if err := copySmall(path+suffix, to+suffix); err != nil {
			return content{}, false
		}
	}
	conn, err := connect(context.Background(), to, "")
	if err != nil {
		return content{}, false
	}
	defer conn.Close()
	var got content
	for query, into := range map[string]*int64{
		"SELECT count(*) FROM sqlite_schema": &got.tables,
		"PRAGMA application_id":              &got.app,
		"PRAGMA user_version":                &got.version,
	} {
		if *into, err = number(conn, query); err != nil {
			return content{}, false
		}
	}
	return got, true
}

// copySmall copies a file that is no larger than a store that is half made.
func copySmall(from, to string) error {
	if st, err := os.Stat(from); err == nil && st.Size() > maxUnmade {
		return fmt.Errorf("%s is larger than %d bytes", from, maxUnmade)
	}
	return keepFile(from, to)
}
