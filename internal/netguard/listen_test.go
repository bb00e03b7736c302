package netguard

import (
	"testing"
)

func TestLoopbackAddresses(t *testing.T) {
	for v, want := range map[string]string{"127.0.0.1:0": "127.0.0.1:0", "localhost:80": "127.0.0.1:80", "LOCALHOST:80": "127.0.0.1:80",
		"127.9.9.9:1": "127.9.9.9:1", "[::1]:8080": "[::1]:8080", "[::ffff:127.0.0.1]:1": "[::ffff:127.0.0.1]:1"} {
		if got, err := ParseAddress(v); err != nil || got.Where != want {
			t.Errorf("%s: got %+v, %v", v, got, err)
		}
	}
}
