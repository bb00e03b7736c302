package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
		d, err := parseDSN(v)
		if err == nil || strings.Contains(err.Error(), "hunter2") || d.shown != "" {
			t.Errorf("%q: got %s, %v", v, d, err)
		}
	}
	for _, v := range []string{"postgres://ada:12,mysql://hunter2@h/shop", "postgres://ada:12/x,mysql:w@tcp(h)/shop",
		"sqlite:a.db,mysql://ada:12,postgres://h:hunter2@i/x", "postgres://h/shop?password=12,mysql://hunter2/x"} {
		o := try(t, []string{"OUTRIDER_OUTBOX=" + v}, "outbox", "check")
		if o.code != exitUsage || strings.Contains(o.stderr, "hunter2") || !strings.Contains(o.stderr, "cannot be parted surely") {
			t.Errorf("%s: exit %d, %s", v, o.code, o.stderr)
		}
	}
}

// TestWhatIsSaidOfADSN: each refusal names the way out, and no part of the DSN.
func TestWhatIsSaidOfADSN(t *testing.T) {
	const noUser, unknown, value = "write user@tcp(host)/name, or mysql://user@host/name", "options=-c%20name%3Dvalue", "the value of a parameter may be wrong, or the file that it names cannot be read"
	for v, want := range map[string]string{
		"mysql:canary@tcp(h)/shop":                           noUser,
		"mysql:canary@unix(/run/canary.sock)/shop":           noUser,
		"postgres://h/shop?canary=5":                         unknown,
		"postgres://h/shop?canary":                           unknown,
		"postgres://h/shop?canary.=5":                        unknown,
		"postgres://h/shop?can-ary.x=5":                      unknown,
		"postgres://h/shop?password=a&canary.b=5":            "let the password be the last one",
		"postgres://h/shop?sslpassword=a&canary.b=5":         "let the password be the last one",
		"mysql://h/shop?canary=5":                            "is not taken",
		"mysql://h/shop?canary.b=5":                          "is not taken",
		"canary@tcp(h)/shop?canary=5":                        "is not taken",
		"postgres://h/shop?sslrootcert=/nope/canary.pem":     value,
		"postgres://h/shop?sslmode=canary":                   value,
		"postgres://h/shop?connect_timeout=canary":           value,
		"postgres://h/shop?service=canary&servicefile=/nope": value,
		"mysql://h/shop?parseTime=canary":                    value,
		"mysql://h/shop?tls=canary":                          value,
		"canary@tcp(h)/shop?timeout=canary":                  value,
	} {
		if _, err := parseDSN(v); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "nope") {
			t.Errorf("%s: got %v, want it to say: %s", v, err, want)
		}
	}
	d, err := parseDSN("postgres://ada:pw@h/shop?app.tenant=5&sslmode=disable&myApp.Role_2=x&password=pw")
	if err != nil || d.shown != "postgres://***@h:5432/shop" || d.pg.RuntimeParams["app.tenant"] != "5" || d.pg.RuntimeParams["myApp.Role_2"] != "x" {
		t.Errorf("got %s, %v", d, err)
	}
}

// awkward are what passwords are made of, and what ends one where it should not.
var awkward = []string{"@", "/", "?", "#", ":", "%", "%40", "%zz", "&", "=", "+", ",", ";", " ", "\\", "'", "\"", "(", ")", "[", "]", "`", "$", "ü",
	"@tcp(", ")/", "?password=", "&host=", "&a.", "?a.", "://", "mysql:", "postgres://", ",sqlite:", "0", "1234", "q", "xyzzy", "Plugh"}

// A way is a form of DSN with a place for a password, and what may be seen and dialled of it.
type way struct{ before, behind, scheme, host string }

var ways = []way{
	{"postgres://root:", "@198.51.100.7:2/vault", onPostgres, "198.51.100.7:2"},
	{"postgresql://root:", "@db.test/vault?sslmode=disable", onPostgres, "db.test"},
	{"postgres://db.test/vault?sslmode=disable&user=root&password=", "", onPostgres, "db.test"},
	{"postgres://db.test/vault?app.tenant=5&user=root&password=", "", onPostgres, "db.test"},
	{"mysql://root:", "@db.test:3/vault", onMySQL, "db.test:3"},
	{"mysql:root:", "@tcp(db.test:3)/vault", onMySQL, "db.test:3"},
	{"root:", "@tcp(db.test:3)/vault?collation=utf8mb4_bin", onMySQL, "db.test:3"},
	{"root:", "@unix(/run/my.sock)/vault", onMySQL, "/run/my.sock"},
	{"mysqli://root:", "@db.test/vault", "", ""},
	{"host=db.test user=root password=", " dbname=vault", "", ""},
	{"postgres:host=db.test user=root password=", "", "", ""},
	{"root:", "@db.test/vault", "", ""},
	{"sqlite://root:", "@db.test/vault", "", ""},
	{"sqlite:vault.db?_key=", "", "", ""},
	{"jdbc:postgresql://db.test/vault?user=root&password=", "", "", ""},
}

// marks are letters that passwords are drawn with. None of our own words has one
// beside a special character or beside another, so what has is of a password.
const marks = "QXZKJ"

func drawPassword(t *rapid.T) string {
	begin := strings.Join(rapid.SliceOfN(rapid.SampledFrom(awkward), 0, 5).Draw(t, "begin"), "")
	return begin + rapid.StringMatching(`[`+marks+`@/:?#%&=,]{2,4}[`+marks+`]{2}[`+marks+`@/:?#%&=,]{0,6}`).Draw(t, "end")
}

// leak is a part of four characters of a password that text shows, or empty.
func leak(text, password string) string {
	runes := []rune(password)
	for i := range len(runes) - 3 {
		if part := string(runes[i : i+4]); strings.ContainsAny(part, marks) && strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// TestNoPartOfAPasswordIsShownOrDialled draws passwords that nobody escaped. A DSN
// is refused in words that do not hold them, or its password is read as it was
// meant: then what is shown and asked of the DNS and the network is its host alone.
func TestNoPartOfAPasswordIsShownOrDialled(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		w, password := rapid.SampledFrom(ways).Draw(t, "way"), drawPassword(t)
		d, err := parseDSN(w.before + password + w.behind)
		if err != nil {
			if part := leak(err.Error(), password); part != "" || d.shown != "" {
				t.Fatalf("%q of it is in %v, %s", part, err, d)
			}
			return
		}
		taken++
		if d.scheme != w.scheme {
			t.Fatalf("taken for one of %s: %s", d.scheme, d)
		}
		if part := leak(d.String()+d.name, password); part != "" || !strings.Contains(d.String(), w.host) {
			t.Fatalf("%q of it is shown: %s", part, d)
		}
		if read := d.password(); !strings.Contains(password, "%") && read != password {
			t.Fatalf("its password is read as %q", read)
		}
		if said := d.scrub(errors.New("no: " + password + d.password())); said.Error() != "no: ******" {
			t.Fatalf("an error says %q", said)
		}
		for _, at := range dialled(t, d) {
			if host, _, _ := strings.Cut(w.host, ":"); at != w.host && at != host && at != host+":5432" {
				t.Fatalf("it dials %q", at)
			}
		}
	})
	if taken == 0 {
		t.Error("no DSN was taken")
	}
}

// password is what the driver was told.
func (d dsn) password() string {
	if d.scheme == onPostgres {
		return d.pg.Password
	}
	return d.my.Passwd
}

var errNoNetwork = errors.New("no network here")

// dialled is what connecting asks of the DNS and of the network.
func dialled(t *rapid.T, d dsn) (all []string) {
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		all = append(all, addr)
		return nil, errNoNetwork
	}
	switch d.scheme {
	case onPostgres:
		d.pg.DialFunc = dial
		d.pg.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			all = append(all, host)
			return []string{host}, nil
		}
	case onMySQL:
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

// TestNoCommandShowsAPassword draws passwords, and gives them to every command
// that takes an address, in every place of a command line.
func TestNoCommandShowsAPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	here := slices.Clone(ways)
	for i := range here { // where nobody listens
		for _, host := range []string{"198.51.100.7:2", "db.test:3", "db.test"} {
			here[i].before, here[i].behind = strings.Replace(here[i].before, host, "127.0.0.1:1", 1), strings.Replace(here[i].behind, host, "127.0.0.1:1", 1)
		}
	}
	here = append(here, way{"http://root:", "@127.0.0.1:1/vault", "", ""}, way{"http://127.0.0.1:1/?token=", "", "", ""}, way{"unix://root:", "@127.0.0.1:1/vault", "", ""})
	commands := []string{"outbox check DSN", "outbox init DSN", "outbox status DSN", "outbox ls DSN", "outbox replay --all DSN", "outbox check --outbox DSN",
		"bench --workload none --outbox DSN", "bench --jobs 1 --workload push --url DSN", "unique ls --url DSN", "cron ls --url DSN",
		"outbox DSN", "serve DSN", "DSN", "outbox check --outbx=DSN", "cron preview DSN", "serve --db DSN --log-level x", "serve --listen DSN",
		"serve --cron-file DSN", "serve --log-level DSN", "serve --outbox DSN --outbox-batch 0", "relay --to DSN --outbox sqlite:none.db",
		"relay --outbox DSN --to x", "outbox sql --db DSN", "outbox ls -o DSN", "unique explain DSN", "cron apply -f DSN", "cron diff -f DSN",
		"relay --outbox DSN --outbox-batch 0", "cron get --url http://127.0.0.1:1 DSN", "outbox sql --outbox-table DSN", "outbox init --wake DSN sqlite:a.db"}
	variables := []string{"OUTRIDER_OUTBOX", "OUTRIDER_OUTBOX_FILE", "OUTRIDER_URL", "OUTRIDER_URL_FILE"}
	rapid.Check(t, func(rt *rapid.T) {
		w, password := rapid.SampledFrom(here).Draw(rt, "way"), drawPassword(rt)
		v := w.before + password + w.behind
		var env []string
		args := strings.Fields(rapid.SampledFrom(commands).Draw(rt, "command"))
		if name := rapid.SampledFrom(append(variables, "", "")).Draw(rt, "variable"); name != "" {
			args = []string{"outbox", "check"}
			if strings.HasPrefix(name, "OUTRIDER_URL") {
				args = []string{"cron", "ls"}
			}
			if env = []string{name + "=" + v}; strings.HasSuffix(name, "_FILE") && rapid.Bool().Draw(rt, "in a file") {
				file := filepath.Join(t.TempDir(), "value")
				if err := os.WriteFile(file, []byte(v+"\n"), 0o600); err != nil {
					rt.Fatal(err)
				}
				env = []string{name + "=" + file}
			}
		}
		for i := range args {
			args[i] = strings.Replace(args[i], "DSN", v, 1)
		}
		o := try(t, env, args...)
		if part := leak(o.stdout+o.stderr, password); part != "" || o.code == exitOK && len(env) > 0 {
			rt.Fatalf("%q of it is in the output of %q (exit %d):\n%s%s", part, args, o.code, o.stdout, o.stderr)
		}
	})
}

// TestAFlagThatADSNIsWrittenTo: the name of such a flag ends at a = that is the DSN's own.
func TestAFlagThatADSNIsWrittenTo(t *testing.T) {
	for _, dsn := range []string{"postgres://shop:vault@127.0.0.1:1/shop?sslmode=disable", "postgres://shop:vault=x@127.0.0.1:1/shop", "shop:vault@tcp(127.0.0.1:1)/shop?tls=false"} {
		for _, flag := range []string{"--", "--outbox", "--outbox:", "-", "-o"} {
			for _, command := range []string{"serve", "outbox check", "relay", "bench", "cron", ""} {
				o := try(t, nil, append(strings.Fields(command), flag+dsn)...)
				if o.code != exitUsage || strings.Contains(o.stdout+o.stderr, "vault") {
					t.Errorf("%s %s: exit %d, %s", command, flag+dsn, o.code, o.stderr)
				}
			}
		}
	}
}
