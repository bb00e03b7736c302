package sqlitestore

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/outrider-jobs/outrider/job"
)

// renewTail writes the last transaction of the log once more, as it is, and
// flushes it. If the flush of that transaction has failed in the process before,
// the system still shows it, calls it clean and has it nowhere on the disk: then
// what is added behind it now, and acknowledged, would be lost with it at the next
// power cut, as a log is read up to its first gap. All before it was flushed, or
// the process would not have gone on. (Nor may it be moved into the database from
// the system's memory alone: with power cut in the middle of that, the log on the
// disk could not make the database whole again.)
//
// It is called before anything is written. The lock for writing is held, so no
// other program begins the log anew meanwhile.
func renewTail(conn driver.Conn, path string) error {
	pages, _, err := checkpoint(conn, "NOOP")
	if err != nil || pages == 0 {
		return err
	}
	if err := script(conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() { _ = script(conn, "ROLLBACK") }() // nothing was changed
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return job.Errorf(job.Unavailable, "the log %s cannot be read and written; check the owner and the rights of the file: %w", path, err)
	}
	defer f.Close()
	from, to, err := lastTransaction(f, pages)
	if err == nil {
		err = rewrite(f, from, to)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "the log %s cannot be flushed, so the disk is not to be trusted; nothing was changed, see what the system says of the disk and start again: %w", path, err)
	}
	return nil
}

// lastTransaction is where the last transaction lies in a log of so many frames,
// in bytes. That of the first one begins with the header of the log.
func lastTransaction(log io.ReaderAt, frames int64) (from, to int64, err error) {
	at := func(frame int64) int64 { return logHeader + frame*(frameHeader+pageSize) }
	for first := frames - 1; first > 0; first-- {
		var head [frameHeader]byte
		if _, err := log.ReadAt(head[:], at(first-1)); err != nil {
			return 0, 0, fmt.Errorf("frame %d: %w", first, err)
		}
		if binary.BigEndian.Uint32(head[4:]) != 0 { // the frame before ends a transaction
			return at(first), at(frames), nil
		}
	}
	return 0, at(frames), nil
}

// rewrite writes what stands in a part of a file once more.
func rewrite(f *os.File, from, to int64) error {
	buf := make([]byte, min(to-from, 1<<20))
	for from < to {
		part := buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(part, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, from); err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}
