package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/testdb"
)

// TestOutboxesOverSockets: a server on this machine is reached over its socket, in
// each form of a DSN.
func TestOutboxesOverSockets(t *testing.T) {
	my := testdb.MySQL(t)
	var socket string
	if err := testdb.Open(t, "mysql", my.FormatDSN()).QueryRow("SELECT @@socket").Scan(&socket); err != nil {
		t.Fatal(err)
	}
	user := url.User(my.User)
	if my.Passwd != "" {
		user = url.UserPassword(my.User, my.Passwd)
	}
	own := strings.TrimSuffix(my.User+":"+my.Passwd, ":")
	dsns := []string{"mysql://" + user.String() + "@localhost/" + my.DBName + "?socket=" + socket, "mariadb://" + user.String() + "@/" + my.DBName + "?socket=" + url.QueryEscape(socket),
		own + "@unix(" + socket + ")/" + my.DBName}
	if _, err := os.Stat(socket); err != nil {
		dsns = nil // the server is on another machine
	}
	pg := testdb.Postgres(t)
	var folder string
	if err := testdb.Open(t, "pgx", pg.String()).QueryRow("SELECT current_setting('unix_socket_directories')").Scan(&folder); err != nil {
		t.Fatal(err)
	}
	folder, _, _ = strings.Cut(folder, ",")
	if _, err := os.Stat(folder + "/.s.PGSQL." + pg.Port()); err == nil {
		pg.RawQuery += "&host=" + folder
		pg.Host = ":" + pg.Port()
		dsns = append(dsns, pg.String())
	}
	for _, dsn := range dsns {
		for _, command := range []string{"init", "check", "status"} {
			if o := try(t, nil, "outbox", command, dsn); o.code != exitOK || o.stderr != "" || !strings.Contains(o.stdout, "ojs_outbox") {
				t.Errorf("outbox %s %s: exit %d\n%s%s", command, dsn, o.code, o.stdout, o.stderr)
			}
		}
	}
}
