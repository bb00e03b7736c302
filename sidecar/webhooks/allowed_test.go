package webhooks

import (
	"net/netip"
	"testing"
)

// What is not public, in every spelling, and what is.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true, "100.128.0.0": true, "223.255.255.255": true, "192.0.1.1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "10.255.255.255": false, "100.64.0.1": false, "100.100.100.200": false, "127.0.0.1": false, "127.9.9.9": false,
		"169.254.169.254": false, "168.63.129.16": false, "172.16.0.1": false, "172.31.255.255": false, "192.0.0.1": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false,
		"198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,
		"2606:4700::1": true, "2a00:1450::1": true,
		"::": false, "::1": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "fec0::1": false, "ff02::1": false, "2001:db8::1": false, "2001::1": false, "2001:20::1": false, "3fff::1": false, "100::1": false, "5f00::1": false,
		"::ffff:8.8.8.8": true, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:10.0.0.1": false,
		"::127.0.0.1": false, "::8.8.8.8": false, // compatible, and gone
		"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false,
		"2002:808:808::1": true, "2002:7f00:1::1": false, "2002:a00:1::": false, "2002:c0a8:101::1": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v", text, got)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// What the targets of --allow-webhook let through, and what no target can be.
func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		targets  []string
		host, ip string
		want     bool
	}{
		{nil, "a.test", "8.8.8.8", false},
		{[]string{"public"}, "a.test", "8.8.8.8", true},
		{[]string{"public"}, "a.test", "10.0.0.1", false},
		{[]string{"10.1.2.0/24"}, "a.test", "10.1.2.77", true},
		{[]string{"10.1.2.0/24"}, "a.test", "::ffff:10.1.2.77", true},
		{[]string{"10.1.2.0/24"}, "a.test", "10.1.3.1", false},
		{[]string{"10.1.2.9/24"}, "a.test", "10.1.2.77", true},
		{[]string{"127.0.0.1"}, "a.test", "127.0.0.1", true},
		{[]string{"127.0.0.1"}, "a.test", "127.0.0.2", false},
		{[]string{"::1"}, "a.test", "::1", true},
		{[]string{"[::1]"}, "a.test", "::1", true},
		{[]string{"::ffff:127.0.0.1"}, "a.test", "127.0.0.1", true},
		{[]string{"fd00::/8"}, "a.test", "fd12::1", true},
		{[]string{"fe80::/10"}, "a.test", "fe80::1%eth0", false},
		{[]string{"Hooks.Internal"}, "hooks.internal.", "10.0.0.1", true},
		{[]string{"hooks.internal"}, "xhooks.internal", "10.0.0.1", false},
		{[]string{"hooks.internal"}, "evil.hooks.internal", "10.0.0.1", false},
		{[]string{"hooks.internal", "public"}, "other.test", "9.9.9.9", true},
	} {
		a, err := ParseAllowed(tt.targets...)
		if err != nil {
			t.Errorf("%q: %v", tt.targets, err)
			continue
		}
		if got := a.Address(tt.host, netip.MustParseAddr(tt.ip)); got != tt.want || a.Any() != (len(tt.targets) > 0) {
			t.Errorf("%q lets %s at %s through: %v", tt.targets, tt.host, tt.ip, got)
		}
	}
	for _, bad := range []string{"", "http://a.test", "a.test:80", "a.test/x", "10.0.0", "1234", "10.0.0.0/33", "fe80::1%eth0", "a..b", "-a.test", "a b", "*", "*.a.test", "::ffff:10.0.0.0/120"} {
		if a, err := ParseAllowed(bad); err == nil {
			t.Errorf("%q was taken: %+v", bad, a)
		}
	}
}
