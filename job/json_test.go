package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The hand-written form of an instant is the one that the format says.
func TestAppendTimeIsTimeFormat(t *testing.T) {
	zone := time.FixedZone("", -7*3600)
	for ms := int64(-62135596800000); ms < 253402300800000; ms += 86_399_999_777 {
		at := time.UnixMilli(ms).In(zone)
		if got, want := string(appendTime(nil, at)), at.UTC().Format(TimeFormat); got != want {
			t.Fatalf("%d: got %s, want %s", ms, got, want)
		}
	}
}

// One job cannot fill the disk with what its failures say.
func TestFailuresAreBounded(t *testing.T) {
	huge := strings.Repeat("é", 1<<20)
	details, err := json.Marshal(map[string]string{"x": huge})
	must(t, err)
	j := started(t, `{"max_attempts":100,"backoff_strategy":"none"}`)
	for range 30 {
		must(t, j.Fail(j.StartedAt, Claim{ID: j.ID}, Failure{Type: huge, Message: huge, Code: huge, Details: details, Backtrace: []string{huge, huge}}, 0))
		must(t, j.Ready(j.NextRetryAt))
		must(t, j.Start(j.EnqueuedAt, Lease{Token: "t"}))
	}
	if n := len(j.Errors); n > 2<<20 || !json.Valid(j.Errors) {
		t.Errorf("the history is %d bytes, valid %v", n, json.Valid(j.Errors))
	}
	if !strings.Contains(string(j.Error), `"omitted_bytes":`) {
		t.Errorf("nothing says that details were left out: %.300s", j.Error)
	}
}
