package outbox_test

import (
	"os"
	"testing"

	"github.com/outrider-jobs/outrider/outbox"
)

// TestTheProcessOfARelayIsNamed: by its host and pid, and the newest one of an owner.
func TestTheProcessOfARelayIsNamed(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, w *world) {
		relay := w.relay(outbox.RelayOptions{Owner: "a"})
		w.drain(relay)
		if p := w.status().Relays; len(p) != 1 || p[0].Host != host || p[0].PID != os.Getpid() {
			t.Errorf("got %+v", p)
		}
		for written, want := range map[string]outbox.Peer{
			"'web-1:17'": {Host: "web-1", PID: 17}, "'fe80::1:4711'": {Host: "fe80::1", PID: 4711}, "':5'": {PID: 5},
			"NULL": {}, "''": {}, "'web-1'": {Host: "web-1"}, "'web-1:x'": {Host: "web-1:x"}, "'web-1:-2'": {Host: "web-1:-2"},
		} {
			w.exec(`UPDATE ojs_outbox_relays SET host = ` + written)
			if p := w.status().Relays; len(p) != 1 || p[0].Host != want.Host || p[0].PID != want.PID {
				t.Errorf("%s: got %+v", written, p)
			}
		}
		w.drain(w.relay(outbox.RelayOptions{Owner: "a"}))
		if p := w.status().Relays; len(p) != 1 || p[0].Host != host || p[0].PID != os.Getpid() {
			t.Errorf("of the next process: got %+v", p)
		}
	})
}
