package wire

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

func TestEventIDsReadBack(t *testing.T) {
	at := time.Date(2026, 3, 15, 12, 0, 0, 7e6, time.UTC)
	before := ""
	for _, seq := range []int64{0, 1, 41, 42, 1 << 12, 1 << 32, 1<<62 - 1, 1 << 62, math.MaxInt64} {
		id := EventID(job.Event{Seq: seq, Time: at})
		got, err := ParseEventID(id)
		if err != nil || got != seq {
			t.Errorf("%s: got %d, %v, want %d", id, got, err, seq)
		}
		if !job.ValidID(id[4:]) {
			t.Errorf("%s is no UUIDv7", id)
		}
		u, err := uuid.Parse(id[4:])
		if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Errorf("%s: version %d, variant %s, %v", id, u.Version(), u.Variant(), err)
		}
		if s, ns := u.Time().UnixTime(); !time.Unix(s, ns).Equal(at) {
			t.Errorf("%s holds %v, want %v", id, time.Unix(s, ns), at)
		}
		if id <= before {
			t.Errorf("%s sorts before %s", id, before)
		}
		before = id
	}
	if id := EventID(job.Event{Seq: 1, Time: at.Add(time.Millisecond)}); id <= before {
		t.Errorf("%s is later but sorts before %s", id, before)
	}
}

func TestParseEventIDRefuses(t *testing.T) {
	for _, s := range []string{"", "evt_", "evt_1", "-1", "1.5", "99999999999999999999", "01970000-0000-7000-8000-000000000001",
		"evt_01970000-0000-4000-8000-000000000001", "EVT_01970000-0000-7000-8000-000000000001", "evt_01970000-0000-7002-8000-000000000001",
		"evt_01970000-0000-7000-8000-00000000000G"} {
		if seq, err := ParseEventID(s); job.KindOf(err) != job.Invalid || seq != 0 {
			t.Errorf("%q: got %d, %v", s, seq, err)
		}
	}
	if seq, err := ParseEventID("42"); seq != 42 || err != nil {
		t.Errorf("a bare Seq: got %d, %v", seq, err)
	}
}
