package sidecar_test

import (
	"testing"
	"time"
)

// bank is the world outside: what was charged, and the table processed_jobs.
type bank struct {
	charges   int
	processed map[any]bool
}

// safe is the handler of ojs-delivery-guarantees.md §13.1: check, act and record in one.
func (b *bank) safe(j object) {
	if b.processed[j["id"]] {
		return
	}
	b.unsafe(j)
	b.processed[j["id"]] = true
}

// unsafe is the handler of §13.2. Its args["payment_id"] is args[0] here: args are an array, contract C-19.
func (b *bank) unsafe(j object) {
	if j["args"].([]any)[0].(object)["payment_id"] == "pay_1" {
		b.charges++
	}
}

// ojs-delivery-guarantees.md §6.5, §7.2, §13: the first worker dies between the
// effect and its ACK. The job comes again under the same id; the handler of
// §13.1 then charges once, that of §13.2 twice.
func TestExamplesOfHandlers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		handle  func(*bank, object)
		charges int
	}{{"13.1 idempotent", (*bank).safe, 1}, {"13.2 anti-pattern", (*bank).unsafe, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) {
				b := &bank{processed: map[any]bool{}}
				j := d.push(`{"type":"payment.process","args":[{"payment_id":"pay_1","amount":4999,"recipient":"r"}],"visibility_timeout_ms":30000}`)
				tt.handle(b, d.take(j)) // and the worker is gone
				d.pass(30*time.Second - time.Millisecond)
				if twice := d.fetch(j); twice != nil {
					t.Fatal("the job was given out while it was reserved (§10.2)")
				}
				d.pass(time.Millisecond)
				if back := d.info(j["id"]); back["state"] != "available" {
					t.Fatalf("§6.5(7): %v", back)
				}
				tt.handle(b, d.take(j))
				d.ask(200, "POST", "/ojs/v1/workers/ack", write(t, object{"job_id": j["id"]}))
				if done := d.info(j["id"]); done["state"] != "completed" || write(t, done["attempt"]) != "2" || b.charges != tt.charges {
					t.Errorf("charged %d times, want %d: %v", b.charges, tt.charges, done)
				}
				d.pass(24 * time.Hour)
				if again := d.fetch(j); again != nil {
					t.Error("a completed job was delivered again (§10.3)")
				}
			})
		})
	}
}
