package sqlitestore

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"os"
)

// SQLite takes from a log what stands before the first frame that does not hold,
// and says nothing of what stands behind it: one bit loses everything after it,
// and one in the header all. So the log is read through before SQLite has it, and
// what is behind such a frame is judged. It may be there in good order:
//
//   - frames with other salts are of the log's earlier life, all of which is in
//     the database file: the header with the new salts is flushed before any frame
//     behind it is written, and begins anew only what was moved and flushed.
//   - A transaction is written whole, flushed, and only then acknowledged; the next
//     begins only after that. A crash in between leaves any part of its frames, in
//     any order, perhaps with the one that commits, and one whose pages did not fit
//     into memory leaves frames with sums of before.
//   - After such a crash the log goes on where it held, with the same salts, so that
//     remnants of several transactions that never were may lie behind its end. Each
//     of these is a piece of one transaction: what commits can only be its last frame.
//
// A frame is known to be whole by its sum, which is made of the sum that stands in
// the frame before it. Therefore acknowledged transactions are lost, and the log is
// damaged, where one of these is so:
//
//   - The index (see [logIndex]) knows of more frames that were committed.
//   - Behind the first frame that does not hold stands a whole frame that commits, and
//     a whole frame made upon that one: whoever wrote it had flushed what is before.
//     That holds because Open flushes a log which it finds: what was written by a
//     process that was killed in its flush is read, but might not be on the disk.
//   - The same, where the frame that commits is the first that does not hold itself,
//     but does with one bit of it as it was.
//   - The header does not hold, and frames follow: it was flushed before them, and its
//     32 bytes are too few for a disk to write one half of them. Only where the index
//     knows that all of the frames were moved nothing is lost.
//
// What cannot be told apart from a write that was cut off, without the index, is
// damage to the last transaction (also of one bit: the sector that is missing may differ
// from what was there before by no more), or of more than one bit to the last
// frames of the two before it, and a tail that is missing. A process that was killed
// leaves the index, a power cut one that may be of before.

// survey is what a log holds, and whether that is all that was acknowledged.
type survey struct {
	path      string
	size      int64 // of the file
	frames    int   // whole ones of this life of the log, also behind a gap
	committed int   // up to where SQLite takes them
	lost      int   // behind that: committed frames, as far as it can be seen
	commits   int   // transactions among these
	at        int64 // where in the file the damage is
	why       string
	index     logIndex
}

// damaged reports whether acknowledged transactions are lost.
func (s *survey) damaged() bool { return s.why != "" }

// surveyLog reads the log of a database through. page is the size of the
// database's pages, for a log that cannot say it. Nothing is changed.
func surveyLog(database string, page int) (survey, error) {
	s := survey{path: database + "-wal"}
	var err error
	if s.index, err = readIndex(database + "-shm"); err != nil {
		return s, err
	}
	l, head, err := openLog(s.path)
	if err != nil {
		return s, err
	}
	if l == nil {
		s.shortened("the log is missing or empty")
		return s, nil
	}
	defer l.f.Close()
	s.size = l.size
	if head.valid {
		s.walk(l, head)
	} else {
		if isPageSize(page) {
			head.page = page
		}
		s.walkHeadless(l, head)
	}
	return s, l.err
}

// shortened judges a log of which less is there than its index knows.
func (s *survey) shortened(why string) {
	if s.index.known && s.index.frames > max(s.committed, s.index.moved) {
		s.why, s.lost = why, max(s.lost, s.index.frames-s.committed)
	}
}

// walk reads a log whose header holds.
func (s *survey) walk(l *logFile, head logHead) {
	sum := head.sum
	for n, f := range l.frames(head.page) {
		got := f.after(sum, head.order)
		if f.salts != head.salts || got != f.said || f.page == 0 {
			s.at = logHeader + int64(n-1)*int64(frameHeader+head.page)
			s.behind(l, head, n, f, got)
			break
		}
		sum = got
		s.frames = n
		if f.commit != 0 {
			s.committed = n
		}
	}
	s.ended(head)
}

// ended asks the index whether what was found is all.
func (s *survey) ended(head logHead) {
	if s.damaged() || !s.index.known || s.index.salts != head.salts || s.index.frames <= s.committed {
		return
	}
	if s.committed == 0 && s.index.moved == s.index.frames {
		return // nothing is taken, and nothing is missing
	}
	if s.at == 0 {
		s.at = s.size
	}
	s.why = fmt.Sprintf("it ends after %d frames, and %d were committed", s.committed, s.index.frames)
	s.lost = max(s.lost, s.index.frames-s.committed)
}

// behind judges what stands behind the first frame that does not hold, which is
// the n-th; got is the sum that it should have.
func (s *survey) behind(l *logFile, head logHead, n int, bad *frame, got sum) {
	own := func(f *frame) bool { return f.salts == head.salts && f.page != 0 }
	flip, sealed := oneBit(head, bad, got)
	// What the next frame is made upon: the sum as it stands, or as it should.
	before, other := bad.said, got
	if own(bad) || flip != "" {
		s.frames = n
	}
	if sealed || own(bad) && bad.commit != 0 {
		s.commits++
	}
	for n, f := range l.frames(head.page) {
		linked := own(f) && (f.after(before, head.order) == f.said || f.after(other, head.order) == f.said)
		before, other = f.said, f.said
		if !own(f) {
			sealed = false
			continue
		}
		s.frames = n
		if f.commit != 0 {
			s.commits++
		}
		if linked && sealed && !s.damaged() {
			if s.why = "the frame there does not hold, and later transactions do"; flip != "" {
				s.why = flip
			}
		}
		if s.damaged() {
			s.lost = n - s.committed
		}
		sealed = linked && f.commit != 0
	}
}

// oneBit looks for a single flipped bit that would explain a bad frame, and describes it;
// commits reports whether the frame ends a transaction once that bit is restored.
func oneBit(head logHead, f *frame, got sum) (which string, commits bool) {
	const text = "bit %d of byte %d of the frame is flipped"
	differs := func(at int, is, want []byte) (string, bool) {
		found := ""
		for i := range is {
			switch x := is[i] ^ want[i]; {
			case x == 0:
			case found != "" || x&(x-1) != 0:
				return "", false
			default:
				found = fmt.Sprintf(text, bits.TrailingZeros8(x), at+i)
			}
		}
		return found, found != ""
	}
	var want [8]byte
	binary.BigEndian.PutUint32(want[:], got[0])
	binary.BigEndian.PutUint32(want[4:], got[1])
	switch {
	case got == f.said && f.salts != head.salts:
		if which, ok := differs(8, f.salts[:], head.salts[:]); ok {
			return which, f.commit != 0
		}
		return "its salts are not those of the log, and its sum is", f.commit != 0
	case f.salts != head.salts:
		return "", false
	}
	if which, ok := differs(16, f.bytes[16:24], want[:]); ok {
		return which, f.commit != 0
	}
	at, bit, ok := flipped(head.order, f, got, f.said)
	if !ok {
		return "", false
	}
	f.bytes[at] ^= 1 << bit
	commits = binary.BigEndian.Uint32(f.bytes[4:]) != 0
	f.bytes[at] ^= 1 << bit
	return fmt.Sprintf(text, bit, at), commits
}

// walkHeadless reads a log whose header does not hold, of which SQLite takes nothing.
func (s *survey) walkHeadless(l *logFile, head logHead) {
	if !isPageSize(head.page) {
		head.page = s.index.page
	}
	if !isPageSize(head.page) {
		s.why, s.lost = "its header does not hold, nor says the database how large its pages are", 1
		return
	}
	var salts [8]byte // those of the first frame: the log is written from its beginning
	lastCommit := 0
	for n, f := range l.frames(head.page) {
		if salts == ([8]byte{}) && f.page != 0 {
			salts = f.salts
		}
		if f.page == 0 || f.salts != salts {
			continue
		}
		s.frames = n
		if f.commit != 0 {
			s.commits++
			lastCommit = n
		}
	}
	moved := s.index.known && s.index.salts == salts && s.index.moved == s.index.frames
	switch {
	case lastCommit > 0 && !(moved && lastCommit <= s.index.moved):
		s.why, s.lost = "its header does not hold, so that all behind it is nothing to SQLite", lastCommit
	case lastCommit == 0:
		s.shortened("its header and its frames do not hold")
	}
}

// databasePage is the size of a database's pages, as its header has it, 0 for
// none. It also returns how many bytes the file must have when nothing is in the
// log, 0 where the header does not say it.
func databasePage(path string) (page int, whole int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	b := make([]byte, 100)
	if _, err := io.ReadFull(f, b); err != nil {
		return 0, 0, nil // what it is then is judged by others
	}
	if page = int(binary.BigEndian.Uint16(b[16:])); page == 1 {
		page = 65536
	}
	if !isPageSize(page) {
		return 0, 0, nil
	}
	if binary.BigEndian.Uint32(b[24:]) == binary.BigEndian.Uint32(b[92:]) {
		whole = int64(binary.BigEndian.Uint32(b[28:])) * int64(page)
	}
	return page, whole, nil
}
