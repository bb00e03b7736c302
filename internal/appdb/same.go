package appdb

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Same reports whether two DSNs surely name one database: the same file, or the
// same server, name and schema, however they are spelled.
func (d DSN) Same(other DSN) bool {
	if d.scheme != other.scheme {
		return false
	}
	switch d.scheme {
	case Postgres:
		return d.pg.Database == other.pg.Database && d.schemas() == other.schemas() && overlap(hostsOf(d.pg), hostsOf(other.pg))
	case MySQL:
		return d.my.DBName == other.my.DBName && d.my.Net == other.my.Net && host(d.my.Addr) == host(other.my.Addr)
	}
	return sameFile(d.file, other.file)
}

// schemas is where tables are looked for. The name of the user is a part of it
// unless a search_path without it is given.
func (d DSN) schemas() string {
	path, options := d.pg.RuntimeParams["search_path"], d.pg.RuntimeParams["options"]
	if path == "" || strings.Contains(path, "$user") {
		path = fmt.Sprintf("%s of %s", path, d.pg.User)
	}
	return path + " " + options
}

// overlap reports whether two lists of hosts have one in common.
func overlap(some, others []string) bool {
	return slices.ContainsFunc(some, func(a string) bool {
		return slices.ContainsFunc(others, func(b string) bool { return host(a) == host(b) })
	})
}

// host is host:port in one spelling: this machine has several names.
func host(addr string) string {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // a socket
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		name = "localhost"
	}
	return net.JoinHostPort(name, cmp.Or(port, "0"))
}

// sameFile reports whether two paths name one file, which need not be there yet.
func sameFile(a, b string) bool {
	if is, err := os.Stat(a); err == nil {
		if other, err := os.Stat(b); err == nil {
			return os.SameFile(is, other)
		}
	}
	return whole(a) == whole(b)
}

// whole is a path from the root on, its links followed where that can be done.
func whole(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(real, filepath.Base(abs))
	}
	return abs
}
