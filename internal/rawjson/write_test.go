package rawjson

import (
	"testing"
	"time"
)

// The hand-written form of an instant is the one that the format says.
func TestAppendTimeIsTimeFormat(t *testing.T) {
	zone := time.FixedZone("", -7*3600)
	for ms := int64(-62135596800000); ms < 253402300800000; ms += 86_399_999_777 {
		at := time.UnixMilli(ms).In(zone)
		if got, want := string(AppendTime(nil, at)), at.UTC().Format(TimeFormat); got != want {
			t.Fatalf("%d: got %s, want %s", ms, got, want)
		}
	}
}
