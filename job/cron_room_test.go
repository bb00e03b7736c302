package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestRunsHaveRoomForTheirMeta: what is taken for the template of a schedule has
// room for what any run adds to its meta, with a key and without, and what has no
// room is refused when the schedule is put.
func TestRunsHaveRoomForTheirMeta(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 3, 15, 9, 30, 0, 0, time.UTC)
	const id = ID("019539a4-b68c-7def-8000-1a2b3c4d5e6f")
	for _, options := range []string{`{}`, `{"unique":{"keys":["meta"],"meta_keys":["k"]}}`} {
		taken, refused := 0, 0
		for fill := MaxMetaBytes - 300; fill < MaxMetaBytes; fill++ {
			meta := `{"k":"` + strings.Repeat("x", fill-8) + `"}`
			s := CronSpec{Name: "nightly", Expression: "@daily", Template: json.RawMessage(`{"type":"a.b","args":[],"meta":` + meta + `,"options":` + options + `}`)}
			template, err := s.Validate()
			if err != nil {
				if KindOf(err) != TooLarge {
					t.Fatal(err)
				}
				refused++
				continue
			}
			taken++
			c := &Cron{CronSpec: s}
			run, err := c.Instance(template.Job, id, at, at)
			if err != nil {
				t.Fatalf("meta of %d bytes: %v", len(meta), err)
			}
			j, err := run.PushBehind(id, at)
			if err != nil || len(j.Meta) > MaxMetaBytes {
				t.Fatalf("meta of %d bytes: the run has %d, %v", len(meta), len(j.Meta), err)
			}
		}
		if taken < 100 || refused < 100 {
			t.Errorf("%s: %d taken, %d refused", options, taken, refused)
		}
		// One that was stored before is refused where its run has no room, with a key and without.
		c, err := ParseEnvelope([]byte(`{"type":"a.b","args":[],"meta":{"k":"` + strings.Repeat("x", MaxMetaBytes-8) + `"},"options":` + options + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Cron{CronSpec: CronSpec{Name: "nightly"}}).Instance(c, id, at, at); KindOf(err) != TooLarge {
			t.Errorf("%s: a run with too large a meta: %v", options, err)
		}
	}
}
