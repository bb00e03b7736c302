package appdb

import (
	"context"
	"errors"
	"net"
	"pgregory.net/rapid"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/testdb"
)

// TestDSNsThatAreNotSure: a password that may end elsewhere is not guessed at.
func TestDSNsThatAreNotSure(t *testing.T) {
	for _, v := range []string{
		"postgres://shop:a@hunter2@127.0.0.1/shop", "postgres://shop:12/hunter2@127.0.0.1/shop", "postgres://shop:12?host=hunter2@127.0.0.1/shop",
		"postgres://shop:12#hunter2@127.0.0.1/shop", "postgres://shop@hunter2@127.0.0.1/shop", `postgres://shop:12\hunter2@127.0.0.1/shop`,
		"postgres://h/shop?password=se&hunter2=x", "postgres://h/shop?password=se&host=hunter2", "postgres://h/shop?password=se&hunter2",
		"postgres://h/shop?password=se#hunter2", "postgres://h/shop?pasword=hunter2", "postgres://h/shop?password=a@hunter2",
		"postgres:host=h password=hunter2", "host=h user=ada password=hunter2", "postgres:ada:hunter2@h/shop",
		"mysql://shop:a@hunter2@127.0.0.1/shop", "mysql://shop:12/hunter2@127.0.0.1/shop", "mysql://h/shop?password=hunter2",
		"ada:a@tcp(hunter2)/x@tcp(h)/shop", "mysql:ada:12@tcp(h)/hunter2@tcp(i)/shop", "ada:a@tcp(h)/x@hunter2/shop", "mysql:hunter2@tcp(h)/shop",
		"ada:12tcp(hunter2)/shop", "ada:pw@tcp(h)/shop?hunter2=1", "mysql://ada:x@tcp(hunter2)/y@h/shop",
		"sqlite://ada:hunter2@h/shop", "sqlite:ada:hunter2@h/shop", "sqlite://hunter2@h/shop", "sqlite:hunter2@h/shop",
		"sqlite:shop.db?_key=hunter2", "sqlite:host=h password=hunter2", "sqlite:./shop.db;Password=hunter2",
		"postgre://ada:hunter2@h/shop", "Postgres://ada:hunter2@h/shop", "postgres//ada:hunter2@h/shop", "//ada:hunter2@h/shop",
	} {
		d, err := ParseDSN(v)
		if err == nil || strings.Contains(err.Error(), "hunter2") || d.shown != "" {
			t.Errorf("%q: got %s, %v", v, d, err)
		}
	}
	for _, v := range []string{"postgres://ada:12,mysql://hunter2@h/shop", "postgres://ada:12/x,mysql:w@tcp(h)/shop",
		"sqlite:a.db,mysql://ada:12,postgres://h:hunter2@i/x", "postgres://h/shop?password=12,mysql://hunter2/x"} {
		if all, err := SplitDSNs(v); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %q, %v", v, all, err)
		}
	}
}

// TestWhatIsSaidOfADSN: each refusal names the way out, and no part of the DSN.
func TestWhatIsSaidOfADSN(t *testing.T) {
	const noUser, unknown = "write user@tcp(host)/name, or mysql://user@host/name", "options=-c%20name%3Dvalue"
	for v, want := range map[string]string{
		"mysql:canary@tcp(h)/shop":                                                    noUser,
		"mysql:canary@unix(/run/canary.sock)/shop":                                    noUser,
		"postgres://h/shop?canary=5":                                                  unknown,
		"postgres://h/shop?canary":                                                    unknown,
		"postgres://h/shop?canary.=5":                                                 unknown,
		"postgres://h/shop?can-ary.x=5":                                               unknown,
		"postgres://h/shop?password=a&canary.b=5":                                     "put the password last",
		"postgres://h/shop?sslpassword=a&canary.b=5":                                  "put the password last",
		"mysql://h/shop?canary=5":                                                     "is not supported",
		"mysql://h/shop?canary.b=5":                                                   "is not supported",
		"canary@tcp(h)/shop?canary=5":                                                 "is not supported",
		"mariadb:canary@tcp(h)/shop":                                                  noUser,
		"postgres://h/shop?sslrootcert=/nope/canary.pem":                              "a file that cannot be read in the parameter sslrootcert: no such file",
		"postgres://h/shop?sslmode=verify-full&sslcert=/nope/canary.pem&sslkey=/nope": "in the parameter sslcert: no such file",
		"postgres://h/shop?sslmode=canary":                                            "value of the parameter sslmode; it must be disable, allow, prefer, require, verify-ca or verify-full",
		"postgres://h/shop?application_name=x&sslmode=canary&connect_timeout=5":       "the parameter sslmode;",
		"postgres://h/shop?sslmode=canary&connect_timeout=canary":                     "the parameter sslmode;",
		"postgres://h/shop?connect_timeout=canary":                                    "the parameter connect_timeout; it must be a number of seconds",
		"postgres://h/shop?target_session_attrs=canary&password=canary":               "the parameter target_session_attrs; it must be any,",
		"postgres://h/shop?service=canary&servicefile=/nope":                          "in the parameter servicefile: no such file",
		"postgres://ada:canary@h:port/shop":                                           "wrong port",
		"postgres://ada:canary/shop":                                                  "wrong port",
		"mysql://ada:canary@h:99999/shop":                                             "wrong port",
		"mysql://ada:canary@/shop":                                                    "names no host",
		"mysql://h/shop?parseTime=canary":                                             "the parameter parseTime; it must be true or false",
		"mysql://h/shop?charset=utf8mb4&tls=canary":                                   "the parameter tls; it must be true, false, skip-verify or preferred",
		"mariadb://h/shop?socket=canary":                                              "the parameter socket; it must be one absolute path",
		"mysql://ada:canary@db.test/shop?socket=/canary":                              "names a host and a socket",
		"canary:ca?nary@tcp(h)/shop?timeout=canary":                                   "the parameter timeout; it must be a duration",
	} {
		if _, err := ParseDSN(v); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "nope") {
			t.Errorf("%s: got %v, want it to say: %s", v, err, want)
		}
	}
	d, err := ParseDSN("postgres://ada:pw@h/shop?app.tenant=5&sslmode=disable&myApp.Role_2=x&password=pw")
	if err != nil || d.shown != "postgres://ada:***@h:5432/shop" || d.pg.RuntimeParams["app.tenant"] != "5" || d.pg.RuntimeParams["myApp.Role_2"] != "x" {
		t.Errorf("got %s, %v", d, err)
	}
}

// TestNoPartOfAPasswordIsShownOrDialled draws passwords that nobody escaped. A DSN
// is refused in words that do not hold them, or its password is read as it was
// meant: then what is shown and asked of the DNS and the network is its host alone.
func TestNoPartOfAPasswordIsShownOrDialled(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		w, password := rapid.SampledFrom(testdb.Ways()).Draw(t, "way"), testdb.Password(t)
		d, err := ParseDSN(w.Before + password + w.Behind)
		if err != nil {
			if part := testdb.Leak(err.Error(), password); part != "" || d.shown != "" {
				t.Fatalf("%q of it is in %v, %s", part, err, d)
			}
			return
		}
		taken++
		if d.scheme != w.Scheme {
			t.Fatalf("taken for one of %s: %s", d.scheme, d)
		}
		if part := testdb.Leak(d.String()+d.Public()+d.name, password); part != "" || !strings.Contains(d.String(), w.Host) {
			t.Fatalf("%q of it is shown: %s", part, d)
		}
		if read := d.password(); !strings.Contains(password, "%") && read != password {
			t.Fatalf("its password is read as %q", read)
		}
		if said := d.Scrub(errors.New("no: " + password + d.password())); said.Error() != "no: ******" {
			t.Fatalf("an error says %q", said)
		}
		for _, at := range dialled(t, d) {
			if host, _, _ := strings.Cut(w.Host, ":"); at != w.Host && at != host && at != host+":5432" {
				t.Fatalf("it dials %q", at)
			}
		}
	})
	if taken == 0 {
		t.Error("no DSN was taken")
	}
}

// password is what the driver was told.
func (d DSN) password() string {
	if d.scheme == Postgres {
		return d.pg.Password
	}
	return d.my.Passwd
}

var errNoNetwork = errors.New("no network here")

// dialled is what connecting asks of the DNS and of the network.
func dialled(t *rapid.T, d DSN) (all []string) {
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		all = append(all, addr)
		return nil, errNoNetwork
	}
	switch d.scheme {
	case Postgres:
		d.pg.DialFunc = dial
		d.pg.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			all = append(all, host)
			return []string{host}, nil
		}
	case MySQL:
		d.my.DialFunc = dial
	}
	db, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.PingContext(t.Context()); err == nil || len(all) == 0 {
		t.Fatalf("nothing was dialled: %v", err)
	}
	return all
}
