package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const eventPrefix = "evt_"

// EventID is the public name of an event (contract §3.18): "evt_" and a UUIDv7 that
// holds the event's time and its Seq. Names sort as the events do, and [ParseEventID]
// reads one without looking anything up.
func EventID(e job.Event) string {
	return string(AppendEventID(make([]byte, 0, 40), e))
}

// AppendEventID appends EventID(e).
func AppendEventID(dst []byte, e job.Event) []byte {
	seq := uint64(e.Seq)
	return AppendUUID(append(dst, eventPrefix...), e.Time, uint16(seq>>62), seq)
}

// ParseEventID is the Seq in an event's name, or a plain Seq. Anything else is
// Invalid, with the field "after".
func ParseEventID(s string) (seq int64, err error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	u, ok := strings.CutPrefix(s, eventPrefix)
	if !ok || !job.ValidID(u) {
		return 0, refuse("after", "must be the id of an event, such as evt_01970000-0000-7000-8000-00000000002a")
	}
	var b [16]byte
	// ValidID has seen that all of it is hexadecimal.
	_, _ = hex.Decode(b[:], []byte(u[:8]+u[9:13]+u[14:18]+u[19:23]+u[24:]))
	high := uint64(b[6]&0x0f)<<8 | uint64(b[7])
	low := uint64(b[8] & 0x3f)
	for _, c := range b[9:] {
		low = low<<8 | uint64(c)
	}
	if high > 1 {
		return 0, refuse("after", "is not the id of an event of this server")
	}
	return int64(high<<62 | low), nil
}

// AppendUUID appends a UUIDv7 of the instant t, in milliseconds, the 12 bits a
// and the 62 bits b (RFC 9562 §5.7), in lower case.
func AppendUUID(dst []byte, t time.Time, a uint16, b uint64) []byte {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(t.UnixMilli())<<16|7<<12|uint64(a&0xfff)) // version 7
	binary.BigEndian.PutUint64(u[8:], 1<<63|b&(1<<62-1))                               // variant 10
	var x [32]byte
	hex.Encode(x[:], u[:])
	dst = append(append(dst, x[:8]...), '-')
	dst = append(append(dst, x[8:12]...), '-')
	dst = append(append(dst, x[12:16]...), '-')
	dst = append(append(dst, x[16:20]...), '-')
	return append(dst, x[20:]...)
}
