package sqlitestore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
)

// The format of SQLite's write-ahead log, as https://sqlite.org/fileformat2.html
// (section 4) has it: a header, then frames of a header and a page each. A sum
// runs through the header and all frames, so a frame holds only where all before
// it do. The salts are new whenever the log begins anew over its old frames.
const (
	logHeader   = 32         // bytes before the first frame
	frameHeader = 24         // bytes before the page of each frame
	logMagic    = 0x377f0682 // and one more where the sums are of big-endian words
	logVersion  = 3007000
)

// sum is the running checksum of a log.
type sum [2]uint32

// plus is the sum with b, of pairs of words, behind it.
func (s sum) plus(order binary.ByteOrder, b []byte) sum {
	if order == binary.LittleEndian { // known to the compiler: three times as fast
		for ; len(b) >= 8; b = b[8:] {
			s[0] += binary.LittleEndian.Uint32(b) + s[1]
			s[1] += binary.LittleEndian.Uint32(b[4:]) + s[0]
		}
		return s
	}
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

// readSum reads a sum as it stands in the log.
func readSum(b []byte) sum {
	return sum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// logHead is the header of a log.
type logHead struct {
	valid bool // SQLite takes the log for one
	order binary.ByteOrder
	page  int
	salts [8]byte
	sum   sum // as it is computed
	said  sum // as it stands there
}

// readHead reads the header. Of one that is not valid, what it says is a guess.
func readHead(b []byte) logHead {
	h := logHead{order: binary.LittleEndian, page: int(binary.BigEndian.Uint32(b[8:])), salts: [8]byte(b[16:24]), said: readSum(b[24:])}
	magic := binary.BigEndian.Uint32(b)
	if magic == logMagic+1 {
		h.order = binary.BigEndian
	}
	h.sum = sum{}.plus(h.order, b[:24])
	h.valid = magic&^1 == logMagic && isPageSize(h.page) && h.sum == h.said && binary.BigEndian.Uint32(b[4:]) == logVersion
	return h
}

// isPageSize reports whether pages may have so many bytes.
func isPageSize(n int) bool { return n >= 512 && n <= 65536 && n&(n-1) == 0 }

// frame is one page in the log.
type frame struct {
	page   uint32 // its number
	commit uint32 // pages of the database after the transaction that ends here, else 0
	salts  [8]byte
	said   sum
	bytes  []byte // its header and its page
}

// after is the sum that the frame has to have behind one with the sum s.
func (f *frame) after(s sum, order binary.ByteOrder) sum {
	return s.plus(order, f.bytes[:8]).plus(order, f.bytes[frameHeader:])
}

// logFile reads a log from its beginning.
type logFile struct {
	f    *os.File
	r    *bufio.Reader
	size int64
	n    int   // frames that were read
	err  error // why they ended
}

// openLog opens a log and reads its header. There may be no log, or none that is
// as long as its header: both are nil.
func openLog(path string) (*logFile, logHead, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, logHead{}, nil
	}
	if err != nil {
		return nil, logHead{}, err
	}
	head := make([]byte, logHeader)
	st, err := f.Stat()
	if err == nil {
		_, err = io.ReadFull(f, head)
	}
	if err != nil {
		_ = f.Close() // err is why we are here
		if tooShort(err) {
			err = nil
		}
		return nil, logHead{}, err
	}
	return &logFile{f: f, r: bufio.NewReaderSize(f, 1<<20), size: st.Size()}, readHead(head), nil
}

// frames are those that follow, by their number from 1, each good until the next.
// They end with the file, or before a frame that is cut off, or with err.
func (l *logFile) frames(page int) iter.Seq2[int, *frame] {
	return func(yield func(int, *frame) bool) {
		f := &frame{bytes: make([]byte, frameHeader+page)}
		for b := f.bytes; ; {
			if _, err := io.ReadFull(l.r, b); err != nil {
				if !tooShort(err) {
					l.err = err
				}
				return
			}
			f.page, f.commit = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
			f.salts, f.said = [8]byte(b[8:16]), readSum(b[16:])
			if l.n++; !yield(l.n, f) {
				return
			}
		}
	}
}

// tooShort reports whether a file has ended before all of what was read.
func tooShort(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// flipped finds the one bit that has changed in what a sum was made of: which bit
// of which byte, counted from where the 8 bytes of the frame's header are joined
// to its page. got is the sum of the bytes as they are, said the sum they had.
// The sum is linear, so each word's share in it is known without making it again.
func flipped(order binary.ByteOrder, f *frame, got, said sum) (offset int, bit uint, ok bool) {
	want := sum{said[0] - got[0], said[1] - got[1]}
	word := func(i int) (uint32, int) { // the i-th, and where it stands in the frame
		at := 4 * i
		if at >= 8 {
			at += frameHeader - 8
		}
		return order.Uint32(f.bytes[at:]), at
	}
	share := [2]sum{{1, 1}, {0, 1}} // of the first and the second word of the last pair
	for i := (len(f.bytes)-frameHeader+8)/4 - 2; i >= 0; i -= 2 {
		for k, s := range share {
			w, at := word(i + k)
			for b := range uint(32) {
				by := uint32(1) << b
				if w&by != 0 {
					by = -by
				}
				if by*s[0] == want[0] && by*s[1] == want[1] {
					in := int(b / 8) // the byte of the word
					if order != binary.LittleEndian {
						in = 3 - in
					}
					return at + in, b % 8, true
				}
			}
			share[k] = sum{s[0] + s[1], s[0] + 2*s[1]}
		}
	}
	return 0, 0, false
}

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
	if _, err := io.ReadFull(f, b); tooShort(err) {
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
