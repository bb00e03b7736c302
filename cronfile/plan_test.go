package cronfile

import (
	"encoding/json"
	"errors"
	"github.com/outrider-jobs/outrider/job"
	"testing"
)

// TestFaultOverTheWire: what is no place in an expression is no fault.
func TestFaultOverTheWire(t *testing.T) {
	spec := &job.CronSpec{Expression: "0 3 * * *", Timezone: "UTC"}
	for _, details := range []map[string]any{nil, {"field": "expression"}, {"field": "name", "position": 1}, {"field": "expression", "position": -1}, {"field": "expression", "position": "2"}} {
		if f := faultIn(&job.Error{Kind: job.Invalid, Message: "m", Details: details}, spec); f != nil {
			t.Errorf("%v: got %+v", details, f)
		}
	}
	e := &job.Error{Message: "cron timezone: m", Details: map[string]any{"field": "timezone", "position": 700, "length": json.Number("2")}}
	if f := faultIn(e, spec); f == nil || f.Text != "UTC" || f.Length != 2 || f.Report() == "" {
		t.Errorf("got %+v", f)
	}
	if f := faultIn(errors.New("other"), spec); f != nil {
		t.Errorf("got %+v", f)
	}
}
