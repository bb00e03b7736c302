package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// A page that begins at an offset ends by its own bytes, and not by those of the
// events before it: it would be empty, and who asks by offset would ask for ever.
func TestPagesOfEventsByOffset(t *testing.T) {
	const events, each = 20, 1 << 20
	f := world()
	f.events = func(_ context.Context, q job.EventFilter) (es []job.Event, err error) {
		for n := q.After + 1; n <= events && len(es) < q.Limit && q.Room.Take(each); n++ {
			es = append(es, job.Event{Seq: n, Type: "job.enqueued", Time: noon, JobID: idOne})
		}
		return es, nil
	}
	h := New(f, quiet())
	for _, tt := range []struct {
		query string
		held  int
		more  bool
	}{
		{"limit=100", 4, true},
		{"limit=3", 3, true},
		{"offset=2&limit=3", 3, true},
		{"offset=5&limit=10", 4, true},
		{"offset=16&limit=10", 4, false},
		{"offset=17&limit=10", 3, false},
		{"page=3&per_page=6", 4, true},
		{"offset=30&limit=10", 0, false},
	} {
		var page struct {
			Events []json.RawMessage
			More   bool `json:"has_more"`
			Cursor string
		}
		w := serve(h, "GET", "/ojs/v1/events?"+tt.query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatalf("%s: %d %s", tt.query, w.Code, w.Body)
		}
		if got := fmt.Sprint(len(page.Events), page.More, page.Cursor != ""); got != fmt.Sprint(tt.held, tt.more, tt.held > 0) {
			t.Errorf("%s: events, more, cursor are %s; want %d %v", tt.query, got, tt.held, tt.more)
		}
	}
}
