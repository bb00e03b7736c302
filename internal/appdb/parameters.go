package appdb

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A driver that cannot read a DSN says so with the DSN in its words. What it means
// is found by reading the DSN again without each parameter: only the name of the
// one at fault is told, since its value may hold what should be secret.

// Values that a parameter may have, in words, by its name in lower case.
type values map[string]string

var pgValues = values{
	"sslmode":              "disable, allow, prefer, require, verify-ca or verify-full",
	"sslcertmode":          "disable, allow or require",
	"sslnegotiation":       "postgres or direct",
	"target_session_attrs": "any, read-write, read-only, primary, standby or prefer-standby",
	"channel_binding":      "disable, prefer or require",
	"connect_timeout":      "a number of seconds",
	"port":                 "a number from 1 to 65535",
	"min_protocol_version": "3.0, 3.2 or latest",
	"max_protocol_version": "3.0, 3.2 or latest",
	"require_auth":         "none, password, md5, scram-sha-256 or a list of them",
	"service":              "the name of a service in the service file",

	"default_query_exec_mode":    "cache_statement, cache_describe, describe_exec, exec or simple_protocol",
	"statement_cache_capacity":   "a number",
	"description_cache_capacity": "a number",
}

var mysqlValues = switches(values{
	"tls":              "true, false, skip-verify or preferred",
	"timeout":          "a duration, such as 10s",
	"readtimeout":      "a duration, such as 10s",
	"writetimeout":     "a duration, such as 10s",
	"timetruncate":     "a duration, such as 1ms",
	"loc":              "a time zone, such as UTC",
	"maxallowedpacket": "a number of bytes",
	"serverpubkey":     "the name of a key that the program has registered, and outrider has none",
	"collation":        "the name of a collation, such as utf8mb4_bin",
}, `allowallfiles allowcleartextpasswords allowfallbacktoplaintext allownativepasswords allowoldpasswords checkconnliveness
	clientfoundrows columnswithalias compress interpolateparams multistatements parsetime rejectreadonly`)

// switches adds parameters that are on or off.
func switches(known values, names string) values {
	for name := range strings.FieldsSeq(names) {
		known[name] = "true or false"
	}
	return known
}

// fileParameters name files that the driver reads.
var fileParameters = strings.Fields(`servicefile sslrootcert sslcert sslkey`)

// errCannot is what is said of a DSN that a driver cannot read for none of its parameters.
func errCannot(form string) error {
	return errors.New("cannot be read; write " + form + ", with %-escapes for special characters in the password, such as %40 for @")
}

// unreadable says why a DSN cannot be read. read reads it with other parameters.
func unreadable(p parts, known values, form string, read func(query string) error) error {
	if err := surePorts(p.host); err != nil {
		return err
	}
	all := parametersOf(p.query)
	if err := unreadableFile(all); err != nil {
		return err
	}
	if read("") != nil {
		return errCannot(form)
	}
	for i := range all {
		if read(strings.Join(slices.Delete(slices.Clone(all), i, i+1), "&")) == nil {
			return wrongValue(all[i], known)
		}
	}
	for i := range all { // several are wrong: the first of them
		if read(strings.Join(all[:i+1], "&")) != nil {
			return wrongValue(all[i], known)
		}
	}
	return errCannot(form)
}

func wrongValue(parameter string, known values) error {
	name, _, _ := strings.Cut(parameter, "=")
	if may := known[strings.ToLower(name)]; may != "" {
		return errors.New("has a wrong value of the parameter " + name + "; it must be " + may)
	}
	return errors.New("has a wrong value of the parameter " + name)
}

// unreadableFile names the parameter whose file cannot be read.
func unreadableFile(all []string) error {
	for _, p := range all {
		name, value, _ := strings.Cut(p, "=")
		path, err := url.QueryUnescape(value)
		if err != nil || !slices.Contains(fileParameters, name) || path == "system" && name == "sslrootcert" {
			continue
		}
		if _, err := os.ReadFile(path); err != nil {
			var reason *fs.PathError // without the path, which is of a value
			if errors.As(err, &reason) {
				err = reason.Err
			}
			return errors.New("names a file that cannot be read in the parameter " + name + ": " + err.Error())
		}
	}
	return nil
}

// surePorts refuses a host with a port that is none. host may be several, with commas.
func surePorts(host string) error {
	for one := range strings.SplitSeq(host, ",") {
		at := strings.LastIndexByte(one, ':')
		if at < 0 || strings.HasSuffix(one, "]") {
			continue
		}
		if n, err := strconv.Atoi(one[at+1:]); one[at+1:] != "" && (err != nil || n < 1 || n > 65535) {
			return errors.New("has a wrong port behind the host; it must be a number from 1 to 65535, and a user and a password end with @ before the host")
		}
	}
	return nil
}

// parametersOf parts a query.
func parametersOf(query string) []string {
	if query == "" {
		return nil
	}
	return strings.Split(query, "&")
}

// withQuery is a DSN that ends in a query with another in its place.
func withQuery(dsn, query, other string) string { return strings.TrimSuffix(dsn, query) + other }
