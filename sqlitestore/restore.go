package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"

	"github.com/outrider-jobs/outrider/job"
)

// A restore puts a whole store in the place of another: of three files, of which the log must never
// meet a database that is not its own. It is decided by one name: the copy stands, whole and flushed, as
// .restore beside the place. From then on whoever has the lock of the store finishes what is
// left, a restore that is called again or a server that starts, in steps that may be cut off anywhere.

// restoreSuffix is behind the name of a copy that comes in the place of the store.
const restoreSuffix = ".restore"

// RestoreOptions sets a restore up.
type RestoreOptions struct {
	Replace  bool                                // a store that is there is moved aside
	Progress func(doing string, done, all int64) // as in BackupOptions
}

// Restored is what a restore has done.
type Restored struct {
	Facts        // of the store as it is now
	Kept  string // what was there has this name now; empty where nothing was
}

// Restore makes a copy of the backup, checks it, and puts it in the place of the store at path. What was
// there is moved aside with its log, under a name with the time, and never removed. The store is held
// meanwhile: a Conflict where a server has it, or where there is a store and it may not be
// replaced. The store that root restores belongs to whom the one before belonged, or else its folder, so that a server of that
// user opens it. A process that is killed leaves the store of before, or one that the next
// Restore or [Open] finishes putting in its place.
func Restore(ctx context.Context, backup, path string, o RestoreOptions) (*Restored, error) {
	backup, err := follow(backup)
	if err != nil {
		return nil, err
	}
	if path, err = follow(path); err != nil {
		return nil, err
	}
	if err := checkBackup(backup, path); err != nil {
		return nil, err
	}
	uid, gid, give := ownerBefore(path)
	lock, err := takeForRestore(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.free() }()
	if before, err := finishRestore(path); err != nil {
		return nil, err
	} else if err := mayReplace(path, o.Replace, before); err != nil {
		return nil, err
	}
	to := func(*os.File) error { return nil }
	if give {
		to = func(f *os.File) error { return cmp.Or(f.Chown(uid, gid), giveLock(lock.lock, uid, gid)) }
	}
	if err := o.copyBeside(ctx, backup, path, to); err != nil {
		return nil, err
	}
	kept, err := finishRestore(path)
	if err != nil {
		return nil, err
	}
	facts, err := verify(ctx, path, atRest, wholeFile)
	if err != nil {
		return nil, err
	}
	facts.Path = path
	return &Restored{*facts, kept}, nil
}

// checkBackup refuses what cannot be restored from.
func checkBackup(backup, path string) error {
	if err := checkSource(backup); err != nil {
		return err
	}
	from, err := os.Stat(backup)
	if err != nil {
		return unreadableFile(backup, err)
	}
	if to, err := os.Stat(path); err == nil && os.SameFile(from, to) {
		return job.Errorf(job.Conflict, "%s is the store itself; name a backup of it", backup)
	}
	if held, by, _ := isHeld(backup); held {
		return inUse(backup, by)
	}
	return nil
}

// takeForRestore takes the locks of a store whose database may be missing or damaged.
func takeForRestore(path string) (*fileLock, error) {
	if _, err := lookedAt(path); err != nil {
		return nil, err
	}
	l, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	c := &fileLock{path: path, lock: l}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err := c.hold(); err != nil {
		_ = c.free() // err is why we are here
		return nil, err
	}
	return c, nil
}

// mayReplace refuses to move a store aside unless that was asked for. before is where one went when a restore that
// was cut off has just been finished.
func mayReplace(path string, replace bool, before string) error {
	if replace {
		return nil
	}
	finished := ""
	if before != "" {
		finished = "a restore that was cut off has been finished, and what was there is " + before + " now; "
	}
	for _, name := range []string{path, path + "-wal"} {
		if st, err := os.Lstat(name); err == nil && st.Size() > 0 {
			return job.Errorf(job.Conflict, "%s%s exists; with --replace it is moved aside and kept, or choose another place with --db", finished, name)
		}
	}
	return nil
}

// copyBeside makes the copy that takes the place, which decides the restore, and gives it to whose it is to be.
func (o RestoreOptions) copyBeside(ctx context.Context, backup, path string, give func(*os.File) error) error {
	part, err := openPart(path + restoreSuffix)
	if err != nil {
		return err
	}
	_, params, still, err := forReading(backup)
	if err == nil {
		_, err = fillPart(ctx, backup, params, part, BackupOptions{Progress: o.Progress})
		err = cmp.Or(still(), err)
	}
	if err == nil {
		if err = give(part.File); err != nil {
			err = job.Errorf(job.Unavailable, "the copy cannot be given to the owner of the store; restore as that user: %w", err)
		}
	}
	if err == nil {
		err = part.place(path+restoreSuffix, false)
	}
	if err != nil {
		part.remove()
		return err
	}
	return part.Close()
}

// restoreStep is called between the steps of a restore, where a test stops it.
var restoreStep = func(string) error { return nil }

// finishRestore puts a copy that was decided on in the place of the store, and says under which name the old
// one is kept. It does nothing where there is none. The caller holds the lock.
func finishRestore(path string) (kept string, err error) {
	from := path + restoreSuffix
	st, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || !st.Mode().IsRegular() {
		return "", job.Errorf(job.Unavailable, "%s is in the way and is no copy that a restore made; remove it", from)
	}
	if err := removeAll(from + ".part"); err != nil { // a second name of the copy, if its process was killed between the two
		return "", cannotMake(path, err)
	}
	// The same name whenever it is finished: the files of one store stay together.
	kept = path + ".replaced-" + st.ModTime().UTC().Format("20060102T150405.000Z")
	moved := false
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := restoreStep("move" + suffix); err != nil {
			return "", err
		}
		if _, err := os.Lstat(kept + suffix); err == nil {
			moved = true
		}
		switch err := os.Rename(path+suffix, kept+suffix); {
		case err == nil:
			moved = true
		case !errors.Is(err, fs.ErrNotExist):
			return "", job.Errorf(job.Unavailable, "%s cannot be moved aside to %s; check the rights of its folder and restore again: %w", path+suffix, kept+suffix, err)
		}
		if err := flushFolder(path); err != nil {
			return "", err
		}
	}
	if err := restoreStep("place"); err != nil {
		return "", err
	}
	if err := os.Rename(from, path); err != nil {
		return "", job.Errorf(job.Unavailable, "%s cannot be named %s; check the rights of its folder and restore again: %w", from, path, err)
	}
	if err := flushFolder(path); err != nil {
		return "", err
	}
	if !moved {
		kept = ""
	}
	return kept, nil
}

// flushFolder brings the names beside a path to the disk, where a folder can be flushed.
func flushFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	if err := flush(folder(path), os.O_RDONLY); err != nil && !unflushable(err) {
		return job.Errorf(job.Unavailable, "the names in the folder of %s cannot be flushed to the disk; look at the disk: %w", path, err)
	}
	return nil
}
