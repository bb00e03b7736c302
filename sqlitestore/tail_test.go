package sqlitestore

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// The last transaction of a log lies behind the frame that ends the one before.
func TestLastTransaction(t *testing.T) {
	const frame = frameHeader + pageSize
	for name, tt := range map[string]struct {
		ends     []bool // which frames end a transaction
		from, to int64
	}{
		"one frame":                      {[]bool{true}, 0, 32 + frame},
		"one of three frames":            {[]bool{false, false, true}, 0, 32 + 3*frame},
		"two of one frame":               {[]bool{true, true}, 32 + frame, 32 + 2*frame},
		"one frame, then three":          {[]bool{true, false, false, true}, 32 + frame, 32 + 4*frame},
		"three of one frame, then two":   {[]bool{true, true, true, false, true}, 32 + 3*frame, 32 + 5*frame},
		"a long one, and one at the end": {[]bool{false, false, false, true, true}, 32 + 4*frame, 32 + 5*frame},
	} {
		t.Run(name, func(t *testing.T) {
			log := make([]byte, 32+len(tt.ends)*frame)
			for i, ends := range tt.ends {
				if ends {
					binary.BigEndian.PutUint32(log[32+i*frame+4:], 9)
				}
			}
			if from, to, err := lastTransaction(bytes.NewReader(log), int64(len(tt.ends))); from != tt.from || to != tt.to || err != nil {
				t.Errorf("from %d to %d, %v; want %d to %d", from, to, err, tt.from, tt.to)
			}
		})
	}
}

// The log of a store that was left is found as it was, to the byte, and all of it
// is taken over; also where its last transaction is larger than what is copied at once.
func TestTheTailIsRenewedAsItWas(t *testing.T) {
	for name, last := range map[string]int{"small": 10, "large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			ids := pushed(t, s, 5)
			write(t, s, 1)
			left := filepath.Join(t.TempDir(), "o.db")
			if last > 10 {
				if err := s.Update(t.Context(), func(tx job.Tx) error {
					for range 4 {
						j := big(t, last/4)
						ids = append(ids, j.ID)
						if err := tx.InsertJob(j); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			for _, suffix := range []string{"", "-wal"} {
				if err := os.WriteFile(left+suffix, contents(t, s.path+suffix), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			was := contents(t, left+"-wal")
			c, err := newConnector(left, false)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := c.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := renewTail(conn, left+"-wal"); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(contents(t, left+"-wal"), was) {
				t.Error("the log is another")
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(t.Context(), left, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			holds(t, again, ids)
		})
	}
}
