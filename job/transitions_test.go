package job

import (
	"strings"
	"testing"
)

// tableOf63 is the table of ojs-core.md §6.3 without its last two columns.
const tableOf63 = `
| *(initial)* | PUSH | scheduled |
| *(initial)* | PUSH | available |
| *(initial)* | PUSH | pending |
| scheduled | Timer | available |
| pending | ACTIVATE | available |
| available | FETCH | active |
| active | ACK | completed |
| active | FAIL | retryable |
| active | FAIL | discarded |
| active | CANCEL | cancelled |
| active | Timeout | available |
| retryable | Timer | available |
| scheduled | CANCEL | cancelled |
| available | CANCEL | cancelled |
| pending | CANCEL | cancelled |
| retryable | CANCEL | cancelled |
| discarded | RETRY (manual) | available |
`

// beyond63 are the edges that other clauses add, each with its clause.
var beyond63 = map[transition]string{
	{Pending, onActivate, Scheduled}:  "contract §3.6: activated before its time",
	{Active, onRequeue, Available}:    "contract §4.4(1): the reservation ends early",
	{Active, onLost, Retryable}:       "ojs-retry.md §9.2(4)",
	{Active, onLost, Discarded}:       "ojs-retry.md §9.2(5)",
	{Active, onOverrun, Retryable}:    "ojs-core.md §5.2 timeout: a failure",
	{Active, onOverrun, Discarded}:    "ojs-core.md §5.2 timeout: a failure",
	{Active, onLateAck, Completed}:    "ojs-delivery-guarantees.md §8",
	{Available, onLateAck, Completed}: "ojs-delivery-guarantees.md §8",
	{Retryable, onLateAck, Completed}: "ojs-delivery-guarantees.md §8",
	{Scheduled, onExpire, Discarded}:  "ojs-core.md §5.2 expires_at",
	{Available, onExpire, Discarded}:  "ojs-core.md §5.2 expires_at",
	{Pending, onExpire, Discarded}:    "ojs-core.md §5.2 expires_at",
	{Retryable, onExpire, Discarded}:  "ojs-core.md §5.2 expires_at",
	{Available, onDrop, Discarded}:    "contract §4.13 drop_oldest",
	{Available, onLimit, Scheduled}:   "contract §4.12: on_limit reschedule",
	{Available, onLimit, Discarded}:   "contract §4.12: on_limit drop",
}

// The machine has every edge of the document, those that other clauses add, and no others.
func TestTransitionsAreTheDocuments(t *testing.T) {
	names := map[string]trigger{"PUSH": onPush, "Timer": onTimer, "ACTIVATE": onActivate, "FETCH": onFetch, "ACK": onAck, "FAIL": onFail, "CANCEL": onCancel,
		"Timeout": onLost, "RETRY (manual)": onRevive}
	want := map[transition]bool{}
	for line := range strings.Lines(strings.TrimSpace(tableOf63)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if cells[0] == "*(initial)*" {
			cells[0] = ""
		}
		want[transition{State(cells[0]), names[cells[1]], State(cells[2])}] = true
	}
	if len(want) != 17 {
		t.Fatalf("%d edges were read", len(want))
	}
	for edge, clause := range beyond63 {
		if want[edge] || clause == "" {
			t.Errorf("%v is in the document's table, or has no clause", edge)
		}
		want[edge] = true
	}
	for edge := range want {
		if !transitions[edge] {
			t.Errorf("%v is missing", edge)
		}
	}
	for edge, on := range transitions {
		if on && !want[edge] {
			t.Errorf("%v is in no document", edge)
		}
	}
}
