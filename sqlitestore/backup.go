package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A backup is made from another process than the server's, through a snapshot: what is
// committed while it is taken is not in it. SQLite cannot begin its log anew meanwhile, so
// that grows by what is written in the time that the copying takes, and by no more: what
// comes afterwards looks at the copy alone.

// BackupOptions sets a backup up.
type BackupOptions struct {
	Rate      int64                               // bytes a second at most; 0 is as fast as the disks are
	Overwrite bool                                // a file of that name is replaced
	Progress  func(doing string, done, all int64) // is told of the bytes that were copied; may be nil
}

const (
	stepBytes  = 256 << 10 // that are copied between two looks at the clock
	flushBytes = 1 << 20   // that are written before they are sent to the disk: who flushes beside it waits for no more
)

// Backup copies the store at path, which a server may be working on, to a new file, for its
// owner alone, and checks the copy. It holds what was acknowledged before the call, and of
// each transaction all or nothing. The file stands under its own name once it is whole,
// checked and flushed; in a folder it is named after the store and the time. Until then it has .part behind it, and what an earlier call left under that name is
// removed. It needs no log, and [Open] takes it as it is.
//
// It must not be called in a process that has the store open: SQLite's locks would be lost. Conflict where
// there is a file already, a [DamageError] where the copy does not hold.
func Backup(ctx context.Context, path, dest string, o BackupOptions) (*Facts, error) {
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	if err := checkSource(path); err != nil {
		return nil, err
	}
	dest = inFolder(path, dest, time.Now())
	if err := checkDest(path, dest, o.Overwrite); err != nil {
		return nil, err
	}
	part, err := openPart(dest)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	facts, err := fillPart(ctx, path, whileWritten, part, o)
	if err == nil {
		err = part.place(dest, o.Overwrite)
	}
	if err != nil {
		part.remove()
		return nil, err
	}
	facts.Path = dest
	return facts, nil
}

// inFolder is the file that a copy goes into: dest, or where that is a folder one in it that is
// named after the store and the time. Copies in it that were cut off are removed.
func inFolder(path, dest string, now time.Time) string {
	if st, err := os.Stat(dest); err != nil || !st.IsDir() {
		return dest
	}
	base := filepath.Base(path)
	stem, ext := strings.TrimSuffix(base, filepath.Ext(base)), filepath.Ext(base)
	left, _ := filepath.Glob(filepath.Join(dest, "*"+ext+".part"))
	for _, name := range left {
		if strings.HasPrefix(filepath.Base(name), stem+"-2") {
			_ = removeLeft(name) // one that stays is in nobody's way
		}
	}
	return filepath.Join(dest, stem+"-"+now.UTC().Format("20060102T150405Z")+ext)
}

// fillPart copies a store into a file and checks the copy.
func fillPart(ctx context.Context, path, params string, part *partFile, o BackupOptions) (*Facts, error) {
	if err := copyStore(ctx, path, params, part, o); err != nil {
		return nil, asDamage(path, translateEnd("copy "+path, "free some, or choose another place", err))
	}
	if err := part.Sync(); err != nil {
		return nil, job.Errorf(job.Unavailable, "the copy %s cannot be flushed to the disk, so it is not to be trusted; look at the disk: %w", part.name, err)
	}
	if o.Progress != nil {
		o.Progress("check", 0, 0)
	}
	return examineCopy(ctx, part.name)
}

// checkSource refuses what is no store, and one from whose log acknowledged jobs are lost,
// which SQLite would pass over.
func checkSource(path string) error {
	none, err := headOf(path)
	if err != nil {
		return err
	}
	if none {
		return job.Errorf(job.NotFound, "%s holds no store yet: no server has worked on it", path)
	}
	if held, _, _ := isHeld(path); held {
		return nil // the server has looked
	}
	return checkLog(path)
}

// checkLog is the damage of a log that nobody is writing to.
func checkLog(path string) error {
	page, _, err := databasePage(path)
	if err != nil {
		return unreadableFile(path, err)
	}
	found, err := surveyLog(path, page)
	if err != nil {
		return unreadableFile(found.path, err)
	}
	if held, _, _ := isHeld(path); held || !found.damaged() {
		return nil // a server has begun meanwhile
	}
	return damagef("%s. Nothing was changed. Keep copies of %s, %s-wal and %s-shm; then put a backup in their place, or accept the damage with outrider serve --accept-damage", found.message(), path, path, path)
}

// headOf judges the header of a file that is not opened by SQLite; none says that it is empty.
func headOf(path string) (none bool, err error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, job.Errorf(job.NotFound, "there is no file %s; name the database with --db", path)
	case err != nil:
		return false, unreadableFile(path, err)
	case !st.Mode().IsRegular():
		return false, job.Errorf(job.Unavailable, "%s is not a plain file and cannot hold a database", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, unreadableFile(path, err)
	}
	defer f.Close()
	return header(path, f)
}

// checkDest refuses a place for a copy where something would be lost.
func checkDest(path, dest string, overwrite bool) error {
	st, err := os.Lstat(dest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "%s cannot be looked at; check the rights of its folder: %w", dest, err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock", "-journal"} {
		if of, err := os.Stat(path + suffix); err == nil && os.SameFile(of, st) {
			return job.Errorf(job.Conflict, "%s is a file of the store itself; choose another name", dest)
		}
	}
	switch {
	case !overwrite:
		return job.Errorf(job.Conflict, "%s exists; choose another name, or replace it with --overwrite", dest)
	case !st.Mode().IsRegular():
		return job.Errorf(job.Conflict, "%s is not a plain file and is not replaced; choose another name", dest)
	}
	if held, by, _ := isHeld(dest); held {
		return inUse(dest, by)
	}
	if st, err := os.Lstat(dest + "-wal"); err == nil && st.Size() > 0 {
		return job.Errorf(job.Conflict, "%s has a log, %s-wal, so it is a store that was worked on and no backup; choose another name", dest, dest)
	}
	return nil
}

// roomForCopy refuses a copy for which the disk has no room.
func roomForCopy(name string, need int64) error {
	free, _, err := spaceFor(filepath.Dir(name))
	if err != nil || free >= uint64(need)+1<<20 {
		return nil // it is not known, or there is
	}
	return job.Errorf(job.Unavailable, "the copy takes %d MB, and on the disk of %s %d MB are free: free some, or choose another place. Nothing was written", need>>20+1, filepath.Dir(name), free>>20)
}

// examineCopy looks at everything in a copy that nobody else has open.
func examineCopy(ctx context.Context, name string) (facts *Facts, err error) {
	err = gentle(func() error {
		facts, err = verify(ctx, name, atRest, wholeFile)
		return err
	})
	return facts, err
}

// gentle does something on a thread that yields to others.
func gentle(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		gently()
		done <- do()
	}()
	return <-done
}
