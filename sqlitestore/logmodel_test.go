package sqlitestore

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

const modelPage = 512

// logModel writes a log as SQLite does, on a disk that keeps what was flushed and,
// of what was written since, any sectors.
type logModel struct {
	t       *rapid.T
	disk    []byte
	pending []piece

	salts     [8]byte
	end       sum // of the last committed frame
	committed int // frames that were acknowledged
	marks     []int
	written   int // frames of this life, also of transactions that never were
	pages     uint32
	stale     []byte // an index of an earlier life, or none
}

type piece struct {
	at int
	b  []byte
}

func (m *logModel) write(at int, b []byte) {
	m.pending = append(m.pending, piece{at, append([]byte{}, b...)})
}

func (m *logModel) apply(at int, b []byte) {
	if need := at + len(b); need > len(m.disk) {
		m.disk = append(m.disk, make([]byte, need-len(m.disk))...)
	}
	copy(m.disk[at:], b)
}

func (m *logModel) flush() {
	for _, w := range m.pending {
		m.apply(w.at, w.b)
	}
	m.pending = nil
}

// cut is a power cut: of each write any sectors are on the disk, or all but a few.
// The sectors may be smaller than those of any disk. A killed process has them all.
func (m *logModel) cut() {
	if rapid.Bool().Draw(m.t, "killed") {
		m.flush()
		return
	}
	sector := rapid.SampledFrom([]int{512, 128, 8}).Draw(m.t, "sector")
	// As one seed, since rapid takes its time for each of many draws.
	kept, lost := rand.New(rand.NewPCG(0, rapid.Uint64().Draw(m.t, "kept"))), rapid.SampledFrom([]int{2, 2, 8, 100}).Draw(m.t, "one in")
	for _, w := range m.pending {
		for at := w.at; at < w.at+len(w.b); {
			to := min(max((at/sector+1)*sector, logHeader), w.at+len(w.b)) // no disk tears the header
			if kept.IntN(lost) > 0 {
				m.apply(at, w.b[at-w.at:to-w.at])
			}
			at = to
		}
	}
	m.pending = nil
}

// renew begins the log anew over its old frames.
func (m *logModel) renew() {
	if n := len(m.marks); n > 0 {
		m.stale = m.encode(m.marks[rapid.IntRange(0, n-1).Draw(m.t, "stale")], 0)
	}
	binary.BigEndian.PutUint32(m.salts[:], binary.BigEndian.Uint32(m.salts[:])+1)
	copy(m.salts[4:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(m.t, "salt"))
	h := make([]byte, logHeader)
	for i, v := range []uint32{logMagic, logVersion, modelPage, 1} {
		binary.BigEndian.PutUint32(h[4*i:], v)
	}
	copy(h[16:], m.salts[:])
	m.end = sum{}.plus(binary.LittleEndian, h[:24])
	putSum(h[24:], m.end)
	m.write(0, h)
	m.committed, m.marks, m.written = 0, nil, 0
}

func putSum(b []byte, s sum) {
	binary.BigEndian.PutUint32(b, s[0])
	binary.BigEndian.PutUint32(b[4:], s[1])
}

func frameAt(n int) int { return logHeader + (n-1)*(frameHeader+modelPage) }

func (m *logModel) page() []byte {
	// Much alike, but never the same: pieces of two that never were could make one that was.
	b := make([]byte, modelPage)
	m.pages++
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint32(b[i:], m.pages)
	}
	b[rapid.IntRange(0, modelPage-1).Draw(m.t, "where")] = byte(rapid.IntRange(0, 3).Draw(m.t, "what"))
	return b
}

// transaction writes frames behind the last committed one, and gives their last
// sum. One that is large writes pages again in their place, and then all sums; it
// may be left before that. commits says whether it comes to its last frame.
func (m *logModel) transaction(large, commits bool) sum {
	n := rapid.IntRange(1, 4).Draw(m.t, "frames")
	pages := make([][]byte, n)
	heads := make([][]byte, n)
	sums := func(s sum) sum {
		for i := range pages {
			s = s.plus(binary.LittleEndian, heads[i][:8]).plus(binary.LittleEndian, pages[i])
			putSum(heads[i][16:], s)
		}
		return s
	}
	for i := range pages {
		pages[i], heads[i] = m.page(), make([]byte, frameHeader)
		binary.BigEndian.PutUint32(heads[i], uint32(1+i))
		if commits && i == n-1 {
			binary.BigEndian.PutUint32(heads[i][4:], 9)
		}
		copy(heads[i][8:], m.salts[:])
	}
	end := sums(m.end)
	for i := range pages {
		m.write(frameAt(m.committed+1+i), append(append([]byte{}, heads[i]...), pages[i]...))
	}
	if large {
		for i := range pages[:n-1] {
			if rapid.Bool().Draw(m.t, "again") {
				pages[i] = m.page()
				m.write(frameAt(m.committed+1+i)+frameHeader, pages[i])
			}
		}
		if commits {
			end = sums(m.end)
			for i := range pages {
				m.write(frameAt(m.committed+1+i), heads[i])
			}
		}
	}
	m.written = max(m.written, m.committed+n)
	if commits {
		m.committed += n
	}
	return end
}

func (m *logModel) commit() {
	m.end = m.transaction(rapid.Bool().Draw(m.t, "large"), true)
	m.flush()
	m.marks = append(m.marks, m.committed)
}

// crash leaves a transaction anywhere, and reads the log as the next start does.
func (m *logModel) crash(look func() survey) {
	acknowledged, end := m.committed, m.end
	commits := rapid.Bool().Draw(m.t, "to its end")
	m.transaction(rapid.Bool().Draw(m.t, "large"), commits)
	m.cut()
	got := look()
	if got.damaged() {
		m.t.Fatalf("a crash is taken for damage: %s", got.message())
	}
	switch {
	case got.committed == acknowledged:
		m.committed, m.end = acknowledged, end
	case commits && got.committed == m.committed:
		// Where all that was written again is lost, the sums are those of before.
		last := m.disk[frameAt(m.committed)+16:]
		m.end = sum{binary.BigEndian.Uint32(last), binary.BigEndian.Uint32(last[4:])}
		m.marks = append(m.marks, m.committed)
	default:
		m.t.Fatalf("%d frames are taken, %d were acknowledged, %d written", got.committed, acknowledged, m.committed)
	}
	m.flush()
}

// grown is a log that has seen commits, rollbacks, crashes and beginnings.
func grown(t *rapid.T, look func(*logModel) survey) *logModel {
	m := &logModel{t: t, salts: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}
	m.renew()
	m.flush()
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"commit", "commit", "roll back", "crash", "crash", "crash", "renew"}).Draw(t, "step") {
		case "commit":
			m.commit()
		case "roll back":
			m.transaction(true, false)
		case "crash":
			m.crash(func() survey { return look(m) })
		case "renew":
			m.flush()
			m.renew()
			if rapid.Bool().Draw(t, "cut") {
				m.cut()
				if got := look(m); got.damaged() {
					t.Fatalf("a beginning that was cut off is taken for damage: %s", got.message())
				}
				m.renew()
			}
			m.flush()
		}
	}
	m.commit()
	return m
}

// encode is the index of a log of which so many frames are committed.
func (m *logModel) encode(frames, moved int) []byte {
	native := binary.NativeEndian
	b := make([]byte, 136)
	native.PutUint32(b, indexVersion)
	b[12] = 1
	native.PutUint16(b[14:], modelPage)
	native.PutUint32(b[16:], uint32(frames))
	copy(b[32:], m.salts[:])
	s := sum{}.plus(binary.LittleEndian, b[:40])
	native.PutUint32(b[40:], s[0])
	native.PutUint32(b[44:], s[1])
	copy(b[48:96], b[:48])
	native.PutUint32(b[96:], uint32(moved))
	return b
}

// looker reads models from files in a folder; a model of which some was committed
// has an index of any time before, if it has one.
func looker(t *testing.T, index bool) func(*logModel) survey {
	database := filepath.Join(t.TempDir(), "o.db")
	return func(m *logModel) survey {
		var shm []byte
		if n := len(m.marks); index && n > 0 {
			at := m.marks[rapid.IntRange(0, n-1).Draw(m.t, "known")]
			shm = m.encode(at, 0)
		}
		if index && len(m.disk) > logHeader && rapid.IntRange(0, 3).Draw(m.t, "an earlier index") == 0 {
			shm = m.stale
		}
		return judged(m.t, database, m.disk, shm)
	}
}

func judged(t *rapid.T, database string, log, shm []byte) survey {
	for suffix, b := range map[string][]byte{"-wal": log, "-shm": shm} {
		if err := os.WriteFile(database+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := surveyLog(database, modelPage)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
