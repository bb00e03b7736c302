package appdb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver of outboxes; the library links none

	mysqloutbox "github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/outbox"
)

// A DSN may hold a password, and what is printed is read by many. So a DSN is
// read once, here: what goes on from here are the settings of a driver, a text
// that may be shown, and what must not be in any other text. Mistakes in a DSN
// are told in words of our own, since parsers like to repeat what they could not read.

// DSN names a database of the user's.
type DSN struct {
	scheme  string // "sqlite", "postgres" or "mysql"
	shown   string // without the password
	public  string // without the user, too
	name    string // of the database, in a word
	file    string // of sqlite
	make    bool   // the file is made where it is missing
	pg      *pgx.ConnConfig
	my      *mysql.Config
	secrets []string // what no message may hold, and what it holds instead
}

// String is the DSN with its user, three stars for a password, and without parameters,
// but for that which names a socket.
func (d DSN) String() string { return d.shown }

// Public is String with three stars in the place of the user, too: for whoever may ask
// the server (contract.md: GET /ojs/v1/outbox).
func (d DSN) Public() string { return d.public }

// Scheme is one of [SQLite], [Postgres] and [MySQL].
func (d DSN) Scheme() string { return d.scheme }

// Name is the name of the database, in a word that needs no escapes in a path.
func (d DSN) Name() string { return d.name }

// PG is how pgx connects; nil for other databases.
func (d DSN) PG() *pgx.ConnConfig { return d.pg }

// File names a SQLite file.
func File(path string) DSN {
	return DSN{scheme: SQLite, shown: "sqlite:" + path, public: "sqlite:" + path, name: "file", file: path}
}

// GoString is String: %#v shows no password either.
func (d DSN) GoString() string { return d.shown }

// The databases that have an outbox.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
	MySQL    = "mysql" // and MariaDB
)

// mariaDB is another word for MySQL in front of a DSN.
const mariaDB = "mariadb"

// Kind is the database that a word names, as in a DSN, and whether there is one.
func Kind(word string) (kind string, ok bool) {
	switch word {
	case SQLite, Postgres, MySQL:
		return word, true
	case "postgresql":
		return Postgres, true
	case mariaDB:
		return MySQL, true
	}
	return "", false
}

// patience with a database that does not answer.
const (
	DialTimeout = 10 * time.Second
	ioTimeout   = 30 * time.Second // above what any statement of a relay may take
)

// ownForm is the form of DSN that the MySQL driver has made known: user:password@tcp(host:port)/name.
var ownForm = regexp.MustCompile(`@?(tcp|unix|tcp6|tcp4)\(`)

// beginsDSN is what a DSN begins with. A list is parted only in front of it:
// commas are also in passwords, and between the hosts of PostgreSQL.
var beginsDSN = regexp.MustCompile(`^\s*(sqlite|postgres|postgresql|mysql|mariadb):`)

// ParseDSN reads a DSN. What it refuses it does not repeat.
func ParseDSN(v string) (DSN, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(v), ":")
	kind, _ := Kind(scheme)
	switch {
	case ok && kind == SQLite:
		return parseSQLite(rest)
	case ok && kind == Postgres:
		return parsePostgres(v)
	case ok && kind == MySQL && ambiguousUser(rest):
		return DSN{}, errUser
	case ok && kind == MySQL:
		return parseMySQL(scheme, rest)
	case ownForm.MatchString(v):
		return parseMySQL(MySQL, v)
	case !ok || len(scheme) > 20 || strings.ContainsAny(scheme, "@/ ."):
		return DSN{}, errors.New("does not name the kind of database; write sqlite:./shop.db, postgres://user:password@host/name, mysql://user:password@host/name or mariadb://user:password@host/name")
	}
	return DSN{}, errors.New("has an unknown scheme; an outbox is relayed from sqlite:FILE, postgres://…, mysql://… and mariadb://…")
}

// parseSQLite reads what follows "sqlite:", a file, also behind two slashes.
func parseSQLite(rest string) (DSN, error) {
	file := strings.TrimPrefix(rest, "//")
	if file == "" {
		return DSN{}, errors.New("names no file; write sqlite:./shop.db")
	}
	if err := SureFile(rest); err != nil {
		return DSN{}, err
	}
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(file, `\`, "/")), path.Ext(file))
	d := File(file)
	d.name = word(name)
	return d, nil
}

func parsePostgres(v string) (DSN, error) {
	v = strings.TrimSpace(v)
	_, rest, _ := strings.Cut(v, ":")
	sure, err := sureParts(rest, pgParameters)
	if err != nil {
		return DSN{}, err
	}
	cfg, err := pgx.ParseConfig(v)
	if _, plain := pgx.ParseConfig("postgres://u:p@h/d"); err != nil && plain != nil {
		return DSN{}, errors.New("cannot be read for one of the variables PG… in the environment, such as PGSSLMODE, which has a wrong value")
	}
	if err != nil {
		return DSN{}, unreadable(sure, pgValues, "postgres://user:password@host:5432/name", func(query string) error {
			_, err := pgx.ParseConfig(withQuery(v, sure.query, query))
			return err
		})
	}
	// Nothing is prepared, so that a pooler may give each transaction to another connection.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, DialTimeout)
	cfg.RuntimeParams["client_encoding"] = "UTF8" // the server changes what its database keeps
	cfg.RuntimeParams["application_name"] = cmp.Or(cfg.RuntimeParams["application_name"], "outrider")
	hosts := slices.Compact(hostsOf(cfg))             // it is asked twice, with TLS and without
	if len(hosts) > 1 && cfg.ValidateConnect == nil { // of several hosts one is the primary
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	place := strings.Join(hosts, ",") + "/" + cfg.Database
	if strings.HasPrefix(cfg.Host, "/") {
		place = "/" + cfg.Database + "?host=" + cfg.Host // a folder with a socket
	}
	return DSN{scheme: Postgres, shown: "postgres://" + account(cfg.User, cfg.Password) + place, public: "postgres://***@" + place,
		name: word(cfg.Database), pg: cfg, secrets: secrets(append(sure.secrets(), cfg.Password)...)}, nil
}

// account is the user in front of a host. Parsers have been kept from every DSN in
// which it may be a part of the password.
func account(user, password string) string {
	switch {
	case password != "":
		return url.User(user).String() + ":***@"
	case user != "":
		return url.User(user).String() + "@"
	}
	return ""
}

// hostsOf are the hosts of a DSN of PostgreSQL, with their ports.
func hostsOf(cfg *pgx.ConnConfig) []string {
	hosts := []string{net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))}
	for _, f := range cfg.Fallbacks {
		hosts = append(hosts, net.JoinHostPort(f.Host, fmt.Sprint(f.Port)))
	}
	return hosts
}

// secrets are pairs for a strings.Replacer: what no message may hold, and what
// stands there instead. The user is none: who it is that has no right must be said.
func secrets(passwords ...string) (pairs []string) {
	slices.SortFunc(passwords, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	for _, p := range slices.Compact(passwords) {
		if p != "" {
			pairs = append(pairs, p, "***")
		}
	}
	return pairs
}

// word makes a name that needs no escapes in a path: letters, digits, dots, dashes and underscores.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	if strings.Trim(s, ".-") == "" {
		return "outbox"
	}
	return s
}

// DialectOf returns the dialect of a scheme, for an outbox table of that name; empty
// is the default one. The error is Invalid for a name that no table may have.
func DialectOf(scheme, table string) (outbox.Dialect, error) {
	switch scheme {
	case Postgres:
		return postgres.Dialect(table)
	case MySQL:
		return mysqloutbox.Dialect(table)
	}
	return sqlite.Dialect(table)
}

// open makes a pool of connections. It connects to nothing yet.
func (d DSN) open() (*sql.DB, error) {
	switch d.scheme {
	case Postgres:
		return pool(connector{stdlib.GetConnector(*d.pg), d, ""}), nil
	case MySQL:
		c, err := mysql.NewConnector(d.my)
		if err != nil {
			return nil, d.Scrub(err)
		}
		// Between statements that change many rows InnoDB would lock the gaps in
		// which the app inserts, but for this.
		return pool(connector{c, d, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"}), nil
	}
	name := sqlite.DSN(d.file)
	if !d.make {
		name += "&mode=rw"
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1) // one that waits is soon on a file that has been replaced
	return db, nil
}

// pool bounds what a relay takes of a server: one connection for itself, and
// some for those who look at the outbox.
func pool(c driver.Connector) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(time.Minute)
	return db
}

// connector connects as its driver does, keeps passwords out of the errors, and
// runs a first statement on each connection.
type connector struct {
	driver.Connector
	dsn   DSN
	first string
}

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.dsn.Scrub(err)
	}
	if x, ok := conn.(driver.ExecerContext); ok && c.first != "" {
		if _, err := x.ExecContext(ctx, c.first, nil); err != nil {
			_ = conn.Close() // it was never used
			return nil, c.dsn.Scrub(err)
		}
	}
	return conn, nil
}

// Scrub is err in one line, without the password. What it was is
// still told by errors.Is, but not by errors.As or Unwrap.
func (d DSN) Scrub(err error) error {
	if err == nil {
		return nil
	}
	text := strings.NewReplacer(d.secrets...).Replace(err.Error())
	var lines []string
	for line := range strings.SplitSeq(text, "\n") { // the same for each of the ways to connect
		if line = strings.TrimSpace(line); len(lines) == 0 || line != lines[len(lines)-1] {
			lines = append(lines, line)
		}
	}
	return scrubbed{strings.Join(lines, " "), err}
}

type scrubbed struct {
	text string
	was  error
}

// Error is the text that may be shown.
func (s scrubbed) Error() string { return s.text }

// GoString is the same for %#v.
func (s scrubbed) GoString() string { return s.text }

// Is reports whether the error was target.
func (s scrubbed) Is(target error) bool { return errors.Is(s.was, target) }
