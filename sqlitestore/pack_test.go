package sqlitestore

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// drawNote draws an event, the Seq of which is given.
func drawNote(r *rapid.T, seq int64, at time.Time) note {
	texts := rapid.OneOf(rapid.SampledFrom([]string{"", "default", "job.enqueued", "a.b", "ä\n\u2028\x00 ", strings.Repeat("x", 199), strings.Repeat("y", 200), strings.Repeat("z", 300)}), rapid.String())
	n := note{Event: job.Event{Seq: seq, Type: texts.Draw(r, "type"), JobType: texts.Draw(r, "job type"), Queue: texts.Draw(r, "queue")}}
	n.Time = at.Add(time.Duration(rapid.OneOf(rapid.Int64Range(-5, 5), rapid.Int64Range(-1e12, 1e12)).Draw(r, "later")) * time.Millisecond)
	if rapid.Bool().Draw(r, "behind another") {
		n.prev = rapid.Int64Range(1, max(1, seq-1)).Draw(r, "prev")
	}
	n.prev = min(n.prev, seq-1)
	switch rapid.IntRange(0, 3).Draw(r, "id") {
	case 0:
	case 1:
		n.JobID = job.ID(texts.Draw(r, "id that is none"))
	default:
		n.JobID = job.IDOf([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(r, "bytes of the id")))
	}
	switch data := texts.Draw(r, "data"); rapid.IntRange(0, 3).Draw(r, "with data") {
	case 0:
	case 1:
		n.Data = json.RawMessage(rapid.SampledFrom(commonTexts[len(commonTexts)-2:]).Draw(r, "common"))
	case 2:
		n.Data = json.RawMessage("{\n \"state\" : \"ä\",\n \"n\": [1e400, -0]}")
	default:
		quoted, err := json.Marshal(map[string]string{"x": data})
		if err != nil {
			r.Fatal(err)
		}
		n.Data = quoted
	}
	return n
}

func unpacked(first int64, row []byte) (ns []note, whole bool) {
	whole = unpack(first, row, func(n note) bool { ns = append(ns, n); return true })
	return ns, whole
}

// What is packed comes back as it was, row for row, whatever the packer did before.
func TestPackedEventsComeBack(t *testing.T) {
	var p packer
	rapid.Check(t, func(r *rapid.T) {
		first := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Just(int64(math.MaxInt64-100))).Draw(r, "first")
		at := time.UnixMilli(rapid.SampledFrom([]int64{0, 1, 1800000000000, -1}).Draw(r, "at")).UTC()
		var want []note
		for i := range rapid.IntRange(1, 30).Draw(r, "events") {
			n := drawNote(r, first+int64(i), at)
			if i > 0 && rapid.Bool().Draw(r, "again") {
				n.Type, n.JobType, n.Queue, n.Data, n.JobID = want[i-1].JobType, want[i-1].Type, want[i-1].Queue, want[i-1].Data, want[i-1].JobID
			}
			want, at = append(want, n), n.Time
		}
		row := p.pack(want)
		got, whole := unpacked(first, row)
		if !whole || !reflect.DeepEqual(got, want) {
			r.Fatalf("%v\ngot  %+v\nwant %+v", whole, got, want)
		}
		stop, seen := rapid.IntRange(1, len(want)).Draw(r, "stop behind"), 0
		if !unpack(first, row, func(note) bool { seen++; return seen < stop }) || seen != stop {
			r.Fatalf("%d were read of the first %d", seen, stop)
		}
		ends := map[int]bool{1: true} // where an event ends the row could, too
		for i := range want {
			ends[len(new(packer).pack(want[:i+1]))] = true
		}
		cut := rapid.IntRange(0, len(row)-1).Draw(r, "cut")
		if got, whole := unpacked(first, row[:cut]); whole != ends[cut] || len(got) > len(want) || len(got) > 0 && !reflect.DeepEqual(got, want[:len(got)]) {
			r.Fatalf("cut to %d of %d bytes: %v, %+v", cut, len(row), whole, got)
		}
	})
}

// The rows of a file are read for as long as the file lives: what one looks like must not change.
func TestPackedRow(t *testing.T) {
	id := job.ID("0197f6a0-0001-7000-8000-0123456789ab")
	at := func(ms int64) time.Time { return time.UnixMilli(1800000000000 + ms).UTC() }
	want := []note{
		{Event: job.Event{Seq: 7, Type: "job.enqueued", Time: at(0), JobID: id, JobType: "email.send", Queue: "default", Data: json.RawMessage(`{"state":"available","priority":0}`)}},
		{Event: job.Event{Seq: 8, Type: "job.started", Time: at(5), JobID: id, JobType: "email.send", Queue: "default", Data: json.RawMessage(`{"attempt":1}`)}, prev: 7},
		{Event: job.Event{Seq: 9, Type: "job.completed", Time: at(3), JobID: id, JobType: "email.send", Queue: "default", Data: json.RawMessage(`{"attempt":1,"duration_ms":3}`)}, prev: 8},
		{Event: job.Event{Seq: 10, Type: "worker.started", Time: at(3), Data: json.RawMessage(`{"worker_id":"w"}`)}},
		{Event: job.Event{Seq: 11, Type: "a.new", Time: at(1000), JobID: "no uuid", JobType: "a.new", Queue: "q"}, prev: 2},
	}
	var common strings.Builder
	for i, s := range commonTexts {
		fmt.Fprintf(&common, "%d %s\n", i+1, s)
	}
	got := common.String() + hex.Dump(new(packer).pack(want))
	path := "testdata/packed.golden"
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(golden) {
		t.Errorf("a row is packed in another way than %s shows: old rows must be read, too, so this is another packing\n%s", path, got)
	}
	back, whole := unpacked(7, rowOfDump(t, string(golden)))
	if !whole || !reflect.DeepEqual(back, want) {
		t.Errorf("%v, %+v", whole, back)
	}
}

// rowOfDump is what hex.Dump has shown.
func rowOfDump(t *testing.T, dump string) (row []byte) {
	t.Helper()
	for line := range strings.Lines(dump) {
		if len(line) < 60 || line[8] != ' ' || line[0] != '0' {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[10:58], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		row = append(row, b...)
	}
	return row
}

// What a row cannot be is told, and not taken for events.
func TestDamagedRowsAreRefused(t *testing.T) {
	event := func(parts ...string) string { return "\x01" + strings.Join(parts, "") }
	id := "\x01" + strings.Repeat("i", 16)
	for name, row := range map[string]string{
		"nothing":                         "",
		"another packing":                 "\x02\x01\x00\x00\x00\x00\x00\x00",
		"no time":                         event("\x01"),
		"a time that does not end":        event("\x01", strings.Repeat("\xff", 10), "\x00\x00\x00\x00\x00"),
		"a kind of id that there is not":  event("\x01\x00\x00\x03\x00\x00\x00"),
		"half an id":                      event("\x01\x00\x00\x01iiii"),
		"a text that was not said":        event("\x01\x00\x00\x00\x00\x00\x7e"),
		"a text longer than the row":      event("\x01\x00\x00\x00\x00\x00\x1a\x7exx"),
		"a length that does not end":      event("\x01\x00\x00\x00\x00\x00\x1a", strings.Repeat("\xff", 10)),
		"a length beyond all memory":      event("\x01\x00\x00\x00\x00\x00\x1a", strings.Repeat("\xff", 9), "\x01xx"),
		"a place beyond all":              event("\x01\x00\x00\x00\x00\x00", strings.Repeat("\xff", 9), "\x01"),
		"data that is no JSON":            event("\x01\x00\x00", id, "\x00\x00\x1a\x03{\"x"),
		"a queue that is no text":         event("\x01\x00\x00", id, "\x00\x1a\x02\xff\xfe\x00"),
		"a second event that is cut":      event("\x01\x00\x00\x00\x00\x00\x00", "\x01\x00"),
		"the second of two is no event":   event("\x01\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x09\x00\x00\x00"),
		"JSON lines of an older schema":   `{"s":1,"t":"job.enqueued","at":1}`,
		"JSON lines that follow an event": event("\x01\x00\x00\x00\x00\x00\x00") + `{"s":1,"t":"job.enqueued","at":1}`,
	} {
		if got, whole := unpacked(1, []byte(row)); whole {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// Whatever a row has become, reading it does no harm, and what is read of it can be
// packed again.
func FuzzUnpack(f *testing.F) {
	golden, err := os.ReadFile("testdata/packed.golden")
	if err != nil {
		f.Fatal(err)
	}
	row := rowOfDump(&testing.T{}, string(golden))
	f.Add(int64(7), row)
	f.Add(int64(7), row[:len(row)/2])
	f.Add(int64(1), []byte{packing, 1, 0, 0, 0, 0, 0, 0})
	f.Add(int64(math.MaxInt64), []byte{packing, 1, 0, 1, 0, 0, 0, 0, 1, 0, 9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, first int64, row []byte) {
		got, whole := unpacked(first, row)
		if !whole || len(got) == 0 || first <= 0 || first > math.MaxInt64/2 {
			return
		}
		for i, n := range got {
			if n.Seq != first+int64(i) || n.prev >= n.Seq || len(n.Data) > 0 && !json.Valid(n.Data) {
				t.Fatalf("event %d is %+v", i, n)
			}
			if n.prev <= 0 { // of a row that was pruned, or none
				got[i].prev = 0
			}
		}
		again, whole := unpacked(first, new(packer).pack(got))
		if !whole || !reflect.DeepEqual(again, got) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", whole, again, got)
		}
	})
}
