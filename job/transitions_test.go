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
	{Pending, Activate, Scheduled}:  "contract §3.6: activated before its time",
	{Active, Requeue, Available}:    "contract §4.4(1): the reservation ends early",
	{Active, Lost, Retryable}:       "ojs-retry.md §9.2(4)",
	{Active, Lost, Discarded}:       "ojs-retry.md §9.2(5)",
	{Active, Overrun, Retryable}:    "ojs-core.md §5.2 timeout: a failure",
	{Active, Overrun, Discarded}:    "ojs-core.md §5.2 timeout: a failure",
	{Active, LateAck, Completed}:    "ojs-delivery-guarantees.md §8",
	{Available, LateAck, Completed}: "ojs-delivery-guarantees.md §8",
	{Retryable, LateAck, Completed}: "ojs-delivery-guarantees.md §8",
	{Scheduled, Expire, Discarded}:  "ojs-core.md §5.2 expires_at",
	{Available, Expire, Discarded}:  "ojs-core.md §5.2 expires_at",
	{Pending, Expire, Discarded}:    "ojs-core.md §5.2 expires_at",
	{Retryable, Expire, Discarded}:  "ojs-core.md §5.2 expires_at",
}

// The machine has every edge of the document, those that other clauses add, and no others.
func TestTransitionsAreTheDocuments(t *testing.T) {
	names := map[string]Trigger{"PUSH": Push, "Timer": Timer, "ACTIVATE": Activate, "FETCH": Fetch, "ACK": Ack, "FAIL": Fail, "CANCEL": Cancel,
		"Timeout": Lost, "RETRY (manual)": Revive}
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
