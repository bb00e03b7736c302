package job

import (
	"encoding/json"
	"testing"
	"time"
)

// A job that never reached a worker goes back however often that happens, and
// whatever the server says of those who give their jobs back: nobody has seen it.
func TestAnUndeliveredJobHasNotFailed(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{0, 1, -1} {
		j := &Job{Envelope: Envelope{ID: "01970000-0000-7000-8000-000000000001", Type: "a.b", Args: json.RawMessage(`[]`), Retry: json.RawMessage(`{"max_attempts":1}`)}}
		now := time.UnixMilli(1_800_000_000_000).UTC()
		if err := j.push(now); err != nil {
			t.Fatal(err)
		}
		j.Seq = 7
		rules := &Rules{Releases: bound}
		for n := 1; n <= DefaultReleases+2; n++ {
			if err := j.Start(now, Lease{Token: "t", Length: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if err := j.Under(rules).Fail(now, Claim{ID: j.ID, Token: "old"}, Failure{Requeue: true, Undelivered: true}, 0); KindOf(err) != Conflict || err == nil {
				t.Fatalf("by another token: %v", err)
			}
			if err := j.Under(rules).Fail(now, Claim{ID: j.ID, Token: "t"}, Failure{Requeue: true, Undelivered: true}, 0); err != nil {
				t.Fatal(err)
			}
			if j.State != Available || j.Error != nil || j.Errors != nil || j.Attempt != n || j.Seq != 7 {
				t.Fatalf("bound %d, time %d: %s, attempt %d, place %d, %s", bound, n, j.State, j.Attempt, j.Seq, j.Error)
			}
		}
		// Its one attempt is still to come.
		if err := j.Start(now, Lease{Token: "t", Length: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := j.Under(rules).Fail(now, Claim{ID: j.ID}, Failure{Message: "no"}, 0); err != nil || j.State != Discarded {
			t.Errorf("bound %d: after its attempt %s, %v", bound, j.State, err)
		}
	}
}
