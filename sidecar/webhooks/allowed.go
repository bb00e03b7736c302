package webhooks

import (
	"fmt"
	"net/netip"
	"strings"
)

// Allowed says where events may be sent. The zero value allows nothing.
type Allowed struct {
	public   bool
	prefixes []netip.Prefix
	hosts    map[string]bool
}

// ParseAllowed reads targets: "public" is every public address, a CIDR or an address is
// what it says, and a name of a host is that host under any address that it has.
func ParseAllowed(targets ...string) (Allowed, error) {
	a := Allowed{hosts: map[string]bool{}}
	for _, t := range targets {
		if err := a.add(t); err != nil {
			return Allowed{}, err
		}
	}
	return a, nil
}

func (a *Allowed) add(target string) error {
	if target == "public" {
		a.public = true
		return nil
	}
	if p, err := netip.ParsePrefix(target); err == nil {
		if p.Addr().Is4In6() {
			return fmt.Errorf("must write an IPv4 network as one, such as 10.1.2.0/24")
		}
		a.prefixes = append(a.prefixes, p.Masked())
		return nil
	}
	if ip, err := netip.ParseAddr(strings.Trim(target, "[]")); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	if !validHost(target) {
		return fmt.Errorf("must be public, an address, a network such as 10.1.2.0/24, or the name of a host, without a scheme, a port or a path")
	}
	a.hosts[hostName(target)] = true
	return nil
}

// Any reports whether something is allowed at all.
func (a Allowed) Any() bool { return a.public || len(a.prefixes) > 0 || len(a.hosts) > 0 }

// Address reports whether events may be sent to an address that a host has. It is asked
// about each address that a connection is made to.
func (a Allowed) Address(host string, ip netip.Addr) bool {
	if ip.Zone() != "" {
		return false
	}
	if a.hosts[hostName(host)] {
		return true
	}
	ip = ip.Unmap()
	for _, p := range a.prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return a.public && Public(ip)
}

// hostName is the name of a host as it is compared: without the dot at its end, in lower case.
func hostName(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

func validHost(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	letters := false
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		for _, r := range strings.ToLower(label) {
			if r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				return false
			}
			letters = letters || r >= 'a' && r <= 'z'
		}
	}
	return letters // numbers alone are a wrong address
}

// special are the networks of IPv4, and those inside the public part of IPv6, that are not
// public: private, shared, link-local, for tests, for translation, multicast and reserved ones
// (IANA special-purpose address registries), and the one address of that kind which a cloud
// has for its own services in a public network.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")

var (
	global6  = netip.MustParsePrefix("2000::/3")
	nat64    = netip.MustParsePrefix("64:ff9b::/96") // the last four bytes are an IPv4 address
	sixToFor = netip.MustParsePrefix("2002::/16")    // the four bytes behind it are
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// Public reports whether an address is one of the public Internet. One that carries an
// IPv4 address inside is what that is.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap()
	if ip.Is6() {
		b := ip.As16()
		switch {
		case nat64.Contains(ip):
			return Public(netip.AddrFrom4([4]byte(b[12:])))
		case sixToFor.Contains(ip):
			return Public(netip.AddrFrom4([4]byte(b[2:6])))
		case !global6.Contains(ip):
			return false
		}
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.IsValid()
}
