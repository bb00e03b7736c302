package sqlitestore

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/job"
)

// The events of one commit, packed. Their Seqs follow one another, so they are not
// written; nor is what has been said before: a text is the place where it stood first.
//
//	row   = 1, event…
//	event = type, time - time of the event before it (milliseconds, zigzag),
//	        Seq - Seq of the job's event before (0: none), id, job type, queue, data
//	text  = 0 for the empty one, its place, or the place behind the last one, length, bytes
//	id    = 0 for none | 1, 16 bytes | 2, text
//
// Numbers are those of encoding/binary. The places begin with commonTexts.
const packing = 1

// commonTexts must never change but at their end, and then packing does.
var commonTexts = [...]string{
	"job.enqueued", "job.started", "job.completed", "job.failed", "job.retrying", "job.discarded", "job.cancelled", "job.scheduled",
	"job.expired", "job.activated", "job.retried", "job.updated", "job.deduplicated", "job.debounced", "job.duplicated",
	"cron.triggered", "cron.skipped", "cron.missed", "worker.started", "worker.stopped", "worker.quiet", "worker.stale",
	"default", `{"state":"available","priority":0}`, `{"attempt":1}`,
}

// longText is from how many bytes on nobody looks whether a text was said before.
const longText = 200

// packer packs rows of events. It is used again for the next row.
type packer struct {
	b      []byte
	places map[string]uint64
	next   uint64
}

// pack is a row of events; it is good until the next one.
func (p *packer) pack(events []note) []byte {
	if p.places == nil {
		p.places = map[string]uint64{}
	}
	clear(p.places)
	for i, s := range commonTexts {
		p.places[s] = uint64(i) + 1
	}
	p.next = uint64(len(commonTexts)) + 1
	p.b = append(p.b[:0], packing)
	before := int64(0)
	for i := range events {
		e := &events[i]
		at := e.Time.UnixMilli()
		prev := int64(0)
		if e.prev > 0 {
			prev = e.Seq - e.prev
		}
		p.text([]byte(e.Type))
		p.b = binary.AppendVarint(p.b, at-before)
		p.b = binary.AppendUvarint(p.b, uint64(prev))
		switch id, ok := e.JobID.Bytes(); {
		case e.JobID == "":
			p.b = append(p.b, 0)
		case ok:
			p.b = append(append(p.b, 1), id[:]...)
		default:
			p.b = append(p.b, 2)
			p.text([]byte(e.JobID))
		}
		p.text([]byte(e.JobType))
		p.text([]byte(e.Queue))
		p.text(e.Data)
		before = at
	}
	return p.b
}

func (p *packer) text(s []byte) {
	if len(s) == 0 {
		p.b = append(p.b, 0)
		return
	}
	if len(s) < longText {
		if at, ok := p.places[string(s)]; ok {
			p.b = binary.AppendUvarint(p.b, at)
			return
		}
		p.places[string(s)] = p.next
	}
	p.b = binary.AppendUvarint(p.b, p.next)
	p.b = binary.AppendUvarint(p.b, uint64(len(s)))
	p.b = append(p.b, s...)
	p.next++
}

// unpacker reads a row that was packed.
type unpacker struct {
	b     []byte
	texts []string
	bad   bool
}

// unpack calls fn with the events of a row in their order, until it returns false. It
// reports whether the row could be read as far as that.
func unpack(first int64, row []byte, fn func(note) bool) bool {
	if len(row) == 0 || row[0] != packing {
		return false
	}
	u := unpacker{b: row[1:]}
	at := int64(0)
	for seq := first; len(u.b) > 0; seq++ {
		n := note{Event: job.Event{Seq: seq, Type: u.text()}}
		at += u.varint()
		n.Time = time.UnixMilli(at).UTC()
		if prev := u.uvarint(); prev > 0 && prev < math.MaxInt64 {
			n.prev = seq - int64(prev)
		}
		switch u.byte() {
		case 0:
		case 1:
			n.JobID = u.id()
		case 2:
			n.JobID = job.ID(u.text())
		default:
			u.bad = true
		}
		n.JobType, n.Queue = u.text(), u.text()
		if s := u.text(); s != "" {
			n.Data = json.RawMessage(s)
		}
		if u.bad || !sane(n) {
			return false
		}
		if !fn(n) {
			return true
		}
	}
	return true
}

// sane reports whether an event can be one that was packed: a bit that has turned in a
// text is not seen by the numbers around it, and who asks for events is given no broken JSON.
func sane(n note) bool {
	return (len(n.Data) == 0 || json.Valid(n.Data)) && utf8.ValidString(n.Type) && utf8.ValidString(n.Queue) &&
		utf8.ValidString(n.JobType) && utf8.ValidString(string(n.JobID))
}

func (u *unpacker) byte() byte {
	if len(u.b) == 0 {
		u.bad = true
		return 0
	}
	c := u.b[0]
	u.b = u.b[1:]
	return c
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

// varint undoes the zigzag: the sign is the last bit.
func (u *unpacker) varint() int64 {
	v := u.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return nil
	}
	taken := u.b[:n]
	u.b = u.b[n:]
	return taken
}

func (u *unpacker) id() job.ID {
	b := u.take(16)
	if b == nil {
		return ""
	}
	return job.IDOf([16]byte(b))
}

func (u *unpacker) text() string {
	at := u.uvarint()
	if at == 0 {
		return ""
	}
	if at--; at < uint64(len(commonTexts)) {
		return commonTexts[at]
	}
	switch at -= uint64(len(commonTexts)); {
	case at < uint64(len(u.texts)):
		return u.texts[at]
	case at == uint64(len(u.texts)):
		s := string(u.take(u.uvarint()))
		u.texts = append(u.texts, s)
		return s
	}
	u.bad, u.b = true, nil
	return ""
}
