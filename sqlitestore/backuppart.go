package sqlitestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/outrider-jobs/outrider/job"
)

// partFile is a copy that is not whole yet. Its lock, where the system has such locks, tells one
// that is being written from one that was left by a process that was killed.
type partFile struct {
	*os.File
	name string
}

// openPart makes the file of a copy under its temporary name, beside its place.
func openPart(dest string) (*partFile, error) {
	name := dest + ".part"
	if err := removeLeft(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|noSurprise, 0o600)
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "%s cannot be made; check that its folder is there, its owner and its rights: %w", name, err)
	}
	if ok, err := lockDatabase(f); err != nil || !ok {
		_ = f.Close()
		return nil, job.Errorf(job.Conflict, "another process is writing %s; wait for it, or choose another name", name)
	}
	return &partFile{f, name}, nil
}

// removeLeft removes a copy that was cut off, unless it is being written.
func removeLeft(name string) error {
	st, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return job.Errorf(job.Unavailable, "%s cannot be looked at; check the rights of its folder: %w", name, err)
	case !st.Mode().IsRegular():
		return job.Errorf(job.Conflict, "%s is not a plain file (%v), and its name is needed for the copy; remove it, or choose another name", name, st.Mode().Type())
	}
	f, err := os.OpenFile(name, os.O_RDWR|noSurprise, 0)
	if err != nil {
		return job.Errorf(job.Unavailable, "%s was left by another copy and cannot be opened; remove it, or choose another name: %w", name, err)
	}
	defer f.Close()
	if ok, err := lockDatabase(f); err != nil || !ok {
		return job.Errorf(job.Conflict, "another process is writing %s; wait for it, or choose another name", name)
	}
	return removeAll(name, name+"-wal", name+"-shm")
}

// place gives the copy its own name.
func (p *partFile) place(dest string, overwrite bool) error {
	st, err := p.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(p.name); err != nil || !os.SameFile(st, there) {
		return job.Errorf(job.Conflict, "%s was removed or replaced while it was written; find out who does that, and try again", p.name)
	}
	if err := p.rename(dest, overwrite); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return job.Errorf(job.Conflict, "%s was made by somebody else meanwhile; choose another name, or replace it with --overwrite", dest)
		}
		return job.Errorf(job.Unavailable, "the copy cannot be named %s; check the rights of its folder: %w", dest, err)
	}
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be flushed there
	}
	if err := flush(filepath.Dir(dest), os.O_RDONLY); err != nil && !unflushable(err) {
		return job.Errorf(job.Unavailable, "the name %s cannot be flushed to the disk: %w", dest, err)
	}
	return nil
}

// rename gives the copy its name. Without overwrite a file of that name stays: a second name is
// refused where there is one, and where a file can have only one name it is looked for.
func (p *partFile) rename(dest string, overwrite bool) error {
	if !overwrite {
		err := os.Link(p.name, dest)
		if err == nil {
			return os.Remove(p.name)
		}
		if _, lerr := os.Lstat(dest); lerr == nil || errors.Is(err, fs.ErrExist) {
			return fs.ErrExist
		}
	}
	if runtime.GOOS == "windows" {
		_ = p.Close() // an open file keeps its name there
	}
	return os.Rename(p.name, dest)
}

// remove takes away a copy that did not succeed.
func (p *partFile) remove() {
	_ = p.Close()
	_ = removeAll(p.name, p.name+"-wal", p.name+"-shm", p.name+"-journal") // the error before is why
}
