package sqlitestore

import (
	"bytes"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// Whatever crashes and power cuts leave behind a log's end is no damage, however
// often and wherever they come.
func TestACrashIsNoDamage(t *testing.T) {
	for name, index := range map[string]bool{"without an index": false, "with one of any time": true} {
		t.Run(name, func(t *testing.T) {
			look := looker(t, index)
			rapid.Check(t, func(t *rapid.T) {
				m := grown(t, look)
				if got := look(m); got.damaged() || got.committed != m.committed {
					t.Fatalf("%d of %d frames are taken, %q", got.committed, m.committed, got.why)
				}
			})
		})
	}
}

// One bit anywhere in what was acknowledged is told, also in the header: but for
// the last transaction, where that takes the index.
func TestOneBitIsTold(t *testing.T) {
	look := looker(t, false)
	database := filepath.Join(t.TempDir(), "o.db")
	rapid.Check(t, func(t *rapid.T) {
		m := grown(t, look)
		m.commit()
		end, shm := m.marks[len(m.marks)-2], []byte(nil)
		if rapid.Bool().Draw(t, "index") {
			end, shm = m.committed, m.encode(m.committed, 0)
		}
		at := rapid.IntRange(0, frameAt(end+1)-1).Draw(t, "at")
		bit := rapid.IntRange(0, 7).Draw(t, "bit")
		log := bytes.Clone(m.disk)
		log[at] ^= 1 << bit
		got := judged(t, database, log, shm)
		if !got.damaged() {
			t.Fatalf("bit %d of byte %d of %d is not told", bit, at, len(log))
		}
		if at < logHeader {
			if got.committed != 0 || got.lost < m.committed || got.at != 0 {
				t.Fatalf("the header: %d frames hold, and %d are lost at %d", got.committed, got.lost, got.at)
			}
			return
		}
		n, from := (at-logHeader)/(frameHeader+modelPage), 0 // the frames before the transaction that is damaged
		for _, mark := range m.marks {
			if mark <= n {
				from = mark
			}
		}
		if got.committed != from || got.lost < m.committed-from || got.lost > m.written-from || got.at != int64(frameAt(n+1)) {
			t.Fatalf("byte %d: %d frames hold, want %d; %d are lost, of %d and %d; told is %d", at, got.committed, from, got.lost, m.committed, m.written, got.at)
		}
	})
}

// A stretch of sectors that is lost is told where three transactions follow, and
// wherever it lies when the index is there.
func TestLostSectorsAreTold(t *testing.T) {
	look := looker(t, false)
	database := filepath.Join(t.TempDir(), "o.db")
	rapid.Check(t, func(t *rapid.T) {
		m := grown(t, look)
		for range 3 {
			m.commit()
		}
		index := rapid.Bool().Draw(t, "index")
		end, shm := m.marks[len(m.marks)-4], []byte(nil)
		if index {
			end, shm = m.committed, m.encode(m.committed, 0)
		}
		log := bytes.Clone(m.disk)
		from := rapid.IntRange(0, (frameAt(end+1)-1)/512).Draw(t, "from") * 512
		to := min(from+512*rapid.IntRange(1, 8).Draw(t, "sectors"), frameAt(end+1))
		with := byte(rapid.SampledFrom([]int{0, 0xff, 0x55}).Draw(t, "with"))
		for i := from; i < to; i++ {
			log[i] = with
		}
		if got := judged(t, database, log, shm); !got.damaged() {
			t.Fatalf("bytes %d to %d of %d are lost, and that is not told", from, to, len(log))
		}
	})
}

// A tail that is missing is told by the index; so is the whole log, but where all
// of it is in the database file.
func TestAMissingTailIsTold(t *testing.T) {
	look := looker(t, false)
	database := filepath.Join(t.TempDir(), "o.db")
	rapid.Check(t, func(t *rapid.T) {
		m := grown(t, look)
		cut := rapid.IntRange(0, frameAt(m.committed+1)-1).Draw(t, "cut")
		if got := judged(t, database, m.disk[:cut], m.encode(m.committed, 0)); !got.damaged() || got.lost < m.committed-got.committed {
			t.Fatalf("%d bytes of %d are there; told %q, %d are lost", cut, len(m.disk), got.why, got.lost)
		}
		if got := judged(t, database, m.disk[:min(cut, logHeader)], m.encode(m.committed, m.committed)); got.damaged() {
			t.Fatalf("a log that was moved is missed: %s", got.message())
		}
	})
}
