package sqlitestore

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// logIndex is what the -shm file beside a log says about it. SQLite keeps it in
// memory that is shared with the file, and changes it only behind the flush of a
// commit, or of the database file after all has been moved (walFrames and
// walCheckpoint in its wal.c). So, of the life of the log that has its salts, it
// may say less than the log has, where the power failed before the kernel wrote
// it, but never more: frames that it knows of were committed and flushed.
type logIndex struct {
	known  bool
	page   int
	salts  [8]byte
	frames int // committed
	moved  int // of them are in the database file
	begun  int // of them may be: somebody was moving them
}

const (
	indexVersion = 3007000
	indexMoved   = 96 // where the count of the moved frames lies
)

// readIndex reads the index. One that is not there, or is not whole, is not known.
func readIndex(path string) (logIndex, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return logIndex{}, nil
	}
	if err != nil {
		return logIndex{}, err
	}
	defer f.Close()
	b := make([]byte, 136)
	if _, err := io.ReadFull(f, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return logIndex{}, nil
	} else if err != nil {
		return logIndex{}, err
	}
	native := binary.NativeEndian
	var order binary.ByteOrder = binary.LittleEndian
	if native.Uint16([]byte{0, 1}) == 1 {
		order = binary.BigEndian
	}
	head := b[:48]
	whole := string(head) == string(b[48:96]) && native.Uint32(head) == indexVersion && head[12] == 1 &&
		sum{}.plus(order, head[:40]) == sum{native.Uint32(head[40:]), native.Uint32(head[44:])}
	if !whole {
		return logIndex{}, nil
	}
	page := native.Uint16(head[14:])
	return logIndex{known: true, page: int(page&0xfe00) + int(page&1)<<16, salts: [8]byte(head[32:40]),
		frames: int(native.Uint32(head[16:])), moved: int(native.Uint32(b[indexMoved:])), begun: int(native.Uint32(b[128:]))}, nil
}

// forgetMoved takes the count of the moved frames back, so that all of them are
// moved once more: the flush that covers them may have failed in the process
// before. SQLite makes the index anew at a start and counts from 0 by itself,
// unless another program has kept the database open meanwhile. SQLite must not
// have the file open in this process: closing it would take its locks away.
func forgetMoved(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 4), indexMoved)
	return errors.Join(err, f.Close())
}
