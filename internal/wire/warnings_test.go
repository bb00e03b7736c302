package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// TestWarningsAreReadBack: those of a PUSH stand beside its job, those of a batch
// in one list with the index of each.
func TestWarningsAreReadBack(t *testing.T) {
	t.Parallel()
	ws := []job.Warning{{Field: "options.a", Message: "a \"b\""}, {Field: "options.c", Message: "d"}}
	j := aJob(job.Available)
	j.Extra = json.RawMessage(`{"warnings":[{"index":0,"message":"of the client"}]}`) // no word of the server's
	want := job.Receipt{Job: j, Warnings: ws}
	got, err := ReadReceipt(AppendReceipt(nil, want))
	if err != nil || !reflect.DeepEqual(got.Warnings, ws) {
		t.Errorf("got %+v, %v", got.Warnings, err)
	}
	rs, err := ReadBatch(AppendBatch(nil, []job.Receipt{{Job: j}, want}))
	if err != nil || rs[0].Warnings != nil || !reflect.DeepEqual(rs[1].Warnings, ws) {
		t.Errorf("got %+v, %v", rs, err)
	}
	if b := AppendReceipt(nil, job.Receipt{Job: aJob(job.Available)}); strings.Contains(string(b), "warnings") {
		t.Errorf("nothing is odd: %s", b)
	}
}

// TestWarningsOfOthers: another server's shape of them loses no receipt.
func TestWarningsOfOthers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{`["slow down"]`: "slow down", `"slow down"`: "", `[1,null,{}]`: "", `{"a":1}`: "", `[{"message":"m","code":7}]`: "m", `null`: ""} {
		b := AppendReceipt(nil, job.Receipt{Job: aJob(job.Available)})
		got, err := ReadReceipt(append(append(b[:len(b)-1], `,"warnings":`+list...), '}'))
		if err != nil || len(got.Warnings) > 1 || (want == "") != (got.Warnings == nil) || want != "" && got.Warnings[0].Message != want {
			t.Errorf("%s: got %+v, %v", list, got.Warnings, err)
		}
	}
}
