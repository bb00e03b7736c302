package job

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// One job cannot fill the disk with what its failures say, and nothing of an
// error but its backtrace is cut: what cannot be kept is refused.
func TestFailuresAreBounded(t *testing.T) {
	huge := strings.Repeat("é", MaxErrorBytes/2-50)
	details, err := json.Marshal(map[string]string{"x": huge})
	must(t, err)
	extra, err := json.Marshal(map[string]string{"cause": huge})
	must(t, err)
	j := started(t, `{"max_attempts":100,"backoff_strategy":"none"}`)
	for i := range 30 {
		fits := []Failure{{Type: huge, Message: "m"}, {Type: "E", Message: huge}, {Code: huge}, {Type: "E", Details: details}, {Type: "E", Extra: extra}}[i%5]
		fits.Backtrace = []string{huge, huge}
		for _, f := range []Failure{{Message: huge + huge}, {Type: "E", Message: huge, Details: details}, {Code: huge, Extra: extra}} {
			before := *j
			if err := j.Fail(j.StartedAt, Claim{ID: j.ID}, f, 0); KindOf(err) != TooLarge || !reflect.DeepEqual(*j, before) {
				t.Fatalf("not refused, or not without a trace: %v", err)
			}
		}
		must(t, j.Fail(j.StartedAt, Claim{ID: j.ID}, fits, 0))
		if !strings.Contains(string(j.Error), huge) {
			t.Fatalf("cut: %.300s", j.Error)
		}
		must(t, j.Ready(j.NextRetryAt))
		must(t, j.Start(j.EnqueuedAt, Lease{Token: "t"}))
	}
	if n := len(j.Errors); n > 3<<20 || !json.Valid(j.Errors) {
		t.Errorf("the history is %d bytes, valid %v", n, json.Valid(j.Errors))
	}
}
