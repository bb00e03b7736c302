package appdb

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A password with a special character that nobody escaped moves the borders
// between the parts of a DSN: what stands behind its @ would be a host, printed
// and asked of the DNS. So before a parser sees a DSN it must be sure where the
// password ends. One that is not sure is refused, and no part of it repeated.

// errUnsure is what is said of a DSN whose password cannot be told from the rest.
var errUnsure = errors.New("is ambiguous: it is not clear where the password ends; write scheme://user:password@host/name, with %-escapes for special characters in the password: %40 for @, %2F for /, %3F for ?, %23 for #, %3A for :, %25 for %, %26 for &")

// errUser is what is said of mysql:word@tcp(host)/name: the word may be a user or a password.
var errUser = errors.New("is ambiguous: its first word may be the kind of database or the user; write user@tcp(host)/name, or mysql://user@host/name, or mysql://mysql:password@host/name if mysql is the user")

// errBehind is what is said of parameters that may be a part of the password before them.
var errBehind = errors.New("has parameters after the password that may be part of it; put the password last")

// parameters are those that a DSN may have. One that is none of them may be the
// rest of a password.
type parameters struct {
	known   []string
	named   *regexp.Regexp // further ones, which no password comes before; nil: none
	unknown error
}

var pgParameters = parameters{pgNames, regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$`),
	errors.New("has an unknown parameter; a setting of the server may be written as options=-c%20name%3Dvalue; & separates parameters, so write %26 for one in a password")}

var mysqlParameters = parameters{mysqlNames, nil,
	errors.New("has a parameter that is not supported; leave it out; & separates parameters, so write %26 for one in a password")}

// pgNames are those of a DSN of PostgreSQL: of the driver, and settings that a
// server takes at the start of a session. Those of extensions and apps have a dot.
var pgNames = strings.Fields(`host port database dbname user password passfile connect_timeout sslmode ssl sslkey sslcert sslcertmode sslrootcert
	sslnegotiation sslpassword sslsni krbspn krbsrvname target_session_attrs service servicefile min_protocol_version max_protocol_version
	channel_binding require_auth application_name client_encoding options search_path timezone datestyle intervalstyle role
	statement_timeout lock_timeout idle_in_transaction_session_timeout idle_session_timeout transaction_timeout
	tcp_user_timeout extra_float_digits default_transaction_isolation synchronous_commit
	default_transaction_read_only default_transaction_deferrable client_min_messages session_replication_role row_security
	tcp_keepalives_idle tcp_keepalives_interval tcp_keepalives_count work_mem temp_buffers jit plan_cache_mode bytea_output
	default_query_exec_mode statement_cache_capacity description_cache_capacity`)

// mysqlNames are those of a DSN of MySQL: of the driver, variables of a session, and
// the path of a socket, which is ours to read.
var mysqlNames = strings.Fields(`allowallfiles allowcleartextpasswords allowfallbacktoplaintext allownativepasswords allowoldpasswords
	checkconnliveness clientfoundrows charset collation columnswithalias compress interpolateparams loc multistatements parsetime
	timetruncate readtimeout rejectreadonly serverpubkey strict timeout tls writetimeout maxallowedpacket connectionattributes
	time_zone sql_mode autocommit tx_isolation transaction_isolation tx_read_only transaction_read_only wait_timeout net_read_timeout net_write_timeout
	lock_wait_timeout innodb_lock_wait_timeout max_execution_time max_statement_time interactive_timeout wsrep_sync_wait
	socket`)

// secretParameters are those that hold a password.
var secretParameters = strings.Fields(`password sslpassword`)

// placing are the parameters that name what is printed, dialled or read. Behind
// a password they may be a part of it.
var placing = strings.Fields(`host port database dbname user passfile service servicefile sslkey sslcert sslrootcert socket`)

// parts are those of a DSN in the form of a URL, as they are written.
type parts struct {
	userinfo string
	host     string // with ports; of PostgreSQL several
	query    string
}

// password is the password in the user's part, with its escapes.
func (p parts) password() string {
	_, password, _ := strings.Cut(p.userinfo, ":")
	return password
}

// secrets are all passwords in it, as they are written and as they are meant.
func (p parts) secrets() (all []string) {
	add := func(raw string) {
		all = append(all, raw)
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if meant, err := decode(raw); err == nil {
				all = append(all, meant)
			}
		}
	}
	add(p.password())
	for parameter := range strings.SplitSeq(p.query, "&") {
		if name, v, _ := strings.Cut(parameter, "="); slices.Contains(secretParameters, strings.ToLower(name)) {
			add(v)
		}
	}
	return all
}

// hosts are the names, addresses and ports that may stand in a URL.
var hosts = regexp.MustCompile(`^[A-Za-z0-9._,:%\[\]-]*$`)

// sureParts cuts what follows the scheme of a URL: //user:password@host:port/name?parameters.
func sureParts(rest string, taken parameters) (parts, error) {
	text, ok := strings.CutPrefix(rest, "//")
	if !ok || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("#\\\"<>^`{|}", r) }) {
		return parts{}, errUnsure
	}
	authority := text
	if i := strings.IndexAny(text, "/?"); i >= 0 {
		authority = text[:i]
	}
	var p parts
	if p.host = authority; strings.Contains(text, "@") {
		if p.userinfo, p.host, ok = strings.Cut(authority, "@"); !ok || strings.Count(text, "@") > 1 {
			return parts{}, errUnsure
		}
	}
	if !hosts.MatchString(p.host) {
		return parts{}, errUnsure
	}
	_, p.query, _ = strings.Cut(text, "?")
	return p, sureQuery(p.query, taken)
}

// sureQuery holds parameters to those that are known. Behind a password none may
// name what is printed or dialled.
func sureQuery(query string, taken parameters) error {
	if query == "" {
		return nil
	}
	if strings.Contains(query, "@") {
		return errUnsure
	}
	if _, err := url.ParseQuery(query); err != nil {
		return errUnsure
	}
	secret := false
	for parameter := range strings.SplitSeq(query, "&") {
		name, _, valued := strings.Cut(parameter, "=")
		further := taken.named != nil && taken.named.MatchString(name)
		name = strings.ToLower(name)
		switch {
		case !valued || !slices.Contains(taken.known, name) && !further:
			return taken.unknown
		case secret && (further || slices.Contains(placing, name) || slices.Contains(secretParameters, name)):
			return errBehind
		}
		secret = secret || slices.Contains(secretParameters, name)
	}
	return nil
}

// ownRest is what follows the network in the form of the MySQL driver: address)/name?parameters.
var ownRest = regexp.MustCompile(`^[A-Za-z0-9._:%\[\]/-]*\)/[^/@?#()&=\s]*(?:\?([^@/#]*))?$`)

// sureOwn checks user:password@tcp(host:port)/name?parameters, and returns the latter.
// A password ends at the network, so it may hold anything but another one.
func sureOwn(v string) (query string, err error) {
	marks := ownForm.FindAllStringIndex(v, -1)
	if len(marks) != 1 {
		return "", errUnsure
	}
	at, end := marks[0][0], marks[0][1]
	user, _, _ := strings.Cut(v[:at], ":")
	rest := ownRest.FindStringSubmatch(v[end:])
	if rest == nil || at > 0 && v[at] != '@' || strings.ContainsAny(user, "/= \t") || strings.Contains(v[:at], "://") {
		return "", errUnsure // the latter are of another form
	}
	if socket, _, err := cutSocket(rest[1]); err != nil || socket != "" {
		return "", errors.New("has a socket as a parameter; write user:password@unix(/path)/name, or " + socketForm)
	}
	return rest[1], sureQuery(rest[1], mysqlParameters)
}

// ambiguousUser reports whether what follows "mysql:" or "mariadb:" may also be a
// password, and that the user: mysql:word@tcp(host)/name.
func ambiguousUser(rest string) bool {
	mark := ownForm.FindStringIndex(rest)
	return mark != nil && mark[0] > 0 && !strings.HasPrefix(rest, "//") && !strings.Contains(rest[:mark[0]], ":")
}

// secretWord is what a password is told by in a text that is none of our DSNs.
var secretWord = regexp.MustCompile(`(?i):.*@|//[^/]*@|(pass|passwd|password|pwd|secret|token|key)\s*=`)

// MayHoldSecret reports whether a word that is of no use where it stands may hold a password.
func MayHoldSecret(v string) bool { return secretWord.MatchString(v) }

// SureFile refuses the name of a file that may be the address of a server, or a
// text of parameters.
func SureFile(file string) error {
	named := strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "//") || strings.HasPrefix(file, "./") || strings.HasPrefix(file, "../")
	if MayHoldSecret(file) || strings.Contains(file, "?") || strings.Contains(file, "@") && !named {
		return errors.New("may not be a file name: it may contain a password or parameters; write sqlite:./shop.db, and rename a file that has : before @, or ?")
	}
	return nil
}

// SplitDSNs parts a list of DSNs at the commas that stand in front of one. A list
// in which a password may have been parted is refused.
func SplitDSNs(v string) (all []string, err error) {
	for part := range strings.SplitSeq(v, ",") {
		if len(all) > 0 && !beginsDSN.MatchString(part) {
			all[len(all)-1] += "," + part
			continue
		}
		all = append(all, part)
	}
	for i, part := range all[:len(all)-1] {
		rest := strings.Join(all[i+1:], ",")
		if mayGoOn(part, rest) {
			return nil, errors.New("cannot be split: a comma before a DSN may belong to the previous password; write %2C for a comma in a password, and %40 for @")
		}
	}
	return all, nil
}

// mayGoOn reports whether a password may begin in a DSN of a list and end in what follows.
func mayGoOn(part, rest string) bool {
	scheme, text, _ := strings.Cut(strings.TrimSpace(part), ":")
	if scheme == SQLite {
		return false
	}
	open := strings.Contains(text, ":") && !strings.Contains(text, "@") // a user whose @ has not come
	_, query, _ := strings.Cut(text, "?")
	inQuery := slices.ContainsFunc(strings.Split(query, "&"), func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return slices.Contains(secretParameters, strings.ToLower(name))
	})
	return open && strings.Contains(rest, "@") || inQuery
}
