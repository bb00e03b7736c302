package appdb

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// parseMySQL reads what follows "mysql:" or "mariadb:", as a URL or in the driver's
// own form. scheme is the word that the user has for it.
func parseMySQL(scheme, v string) (DSN, error) {
	read := mysqlURL
	if ownForm.MatchString(v) {
		read = mysqlOwn
	}
	cfg, passwords, err := read(v)
	if err != nil {
		return DSN{}, err
	}
	if cfg.DBName == "" {
		return DSN{}, errors.New("names no database; write " + scheme + "://user:password@host:3306/name")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DialTimeout)
	cfg.ReadTimeout, cfg.WriteTimeout = cmp.Or(cfg.ReadTimeout, ioTimeout), cmp.Or(cfg.WriteTimeout, ioTimeout)
	cfg.ParseTime, cfg.MultiStatements = false, false
	cfg.InterpolateParams = true // one journey per statement, and nothing prepared in a pooler
	cfg.RejectReadOnly = true    // a primary that has become a replica: look for the new one
	cfg.Logger = &mysql.NopLogger{}
	cfg.ConnectionAttributes = "program_name:outrider"
	place := cfg.Addr + "/" + cfg.DBName
	if cfg.Net == "unix" {
		place = "localhost/" + cfg.DBName + "?socket=" + cfg.Addr
	}
	return DSN{scheme: MySQL, shown: scheme + "://" + account(cfg.User, cfg.Passwd) + place, public: scheme + "://***@" + place,
		name: word(cfg.DBName), my: cfg, secrets: secrets(passwords...)}, nil
}

// The forms of a DSN, for those who have written another.
const (
	mysqlForm  = "mysql://user:password@host:3306/name"
	socketForm = "mysql://user:password@localhost/name?socket=/run/mysqld/mysqld.sock"
)

// mysqlURL reads //user:password@host:port/name?parameters of the driver. Without a
// host there must be the path of a socket, which no driver knows as a parameter.
func mysqlURL(v string) (*mysql.Config, []string, error) {
	sure, err := sureParts(v, mysqlParameters)
	if err != nil {
		return nil, nil, err
	}
	socket, query, err := cutSocket(sure.query)
	if err != nil {
		return nil, nil, err
	}
	if err := surePorts(sure.host); err != nil {
		return nil, nil, err
	}
	u, err := url.Parse("mysql:" + v)
	switch {
	case err != nil:
		return nil, nil, errCannot(mysqlForm)
	case u.Hostname() == "" && socket == "":
		return nil, nil, errors.New("names no host; write " + mysqlForm + ", or " + socketForm)
	case socket != "" && u.Host != "" && host(net.JoinHostPort(u.Hostname(), "0")) != "localhost:0":
		return nil, nil, errors.New("names a host and a socket, which is on this machine; leave one of them out, as in " + socketForm)
	}
	read := func(query string) error {
		_, err := mysql.ParseDSN("/?" + query)
		return err
	}
	cfg, err := mysql.ParseDSN("/?" + query)
	if err != nil {
		sure.query = query
		return nil, nil, unreadable(sure, mysqlValues, mysqlForm, read)
	}
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	if socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	cfg.User, cfg.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Passwd, _ = u.User.Password()
	return cfg, sure.secrets(), nil
}

// cutSocket takes the path of a socket out of parameters.
func cutSocket(query string) (socket, rest string, err error) {
	var others []string
	for _, p := range parametersOf(query) {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(name, "socket") {
			others = append(others, p)
			continue
		}
		path, err := url.QueryUnescape(value)
		if err != nil || socket != "" || !strings.HasPrefix(path, "/") {
			return "", "", errors.New("has a wrong value of the parameter socket; it must be one absolute path, as in " + socketForm)
		}
		socket = path
	}
	return socket, strings.Join(others, "&"), nil
}

// mysqlOwn reads user:password@tcp(host:port)/name?parameters, or unix(path).
func mysqlOwn(v string) (*mysql.Config, []string, error) {
	own := strings.TrimPrefix(v, "//")
	rest, err := sureOwn(own)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := mysql.ParseDSN(own)
	if err != nil {
		return nil, nil, unreadable(parts{query: rest}, mysqlValues, "user:password@tcp(host:3306)/name", func(query string) error {
			_, err := mysql.ParseDSN(withQuery(own, rest, query))
			return err
		})
	}
	return cfg, []string{cfg.Passwd}, nil
}
