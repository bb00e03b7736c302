package appdb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDSNs(t *testing.T) {
	for _, tt := range []struct{ in, shown, name string }{
		{"sqlite:./shop.db", "sqlite:./shop.db", "shop"},
		{"sqlite:///var/lib/a b.db", "sqlite:/var/lib/a b.db", "a-b"},
		{"postgres://ada:pw@db/shop", "postgres://ada:***@db:5432/shop", "shop"},
		{"postgresql://ada@db:6432/shop?sslmode=disable&password=pw", "postgres://ada:***@db:6432/shop", "shop"},
		{"postgres://ada:pw@one:1,two:2/shop", "postgres://ada:***@one:1,two:2/shop", "shop"},
		{"postgres://ada@db/shop", "postgres://ada@db:5432/shop", "shop"},
		{"postgres:///shop?host=/run/postgresql&user=ada", "postgres://ada@/shop?host=/run/postgresql", "shop"},
		{"postgres://a%0Ad%20a@db/shop", "postgres://a%0Ad%20a@db:5432/shop", "shop"},
		{"mysql://ada:p%40w@db/shop", "mysql://ada:***@db:3306/shop", "shop"},
		{"mysql://db/shop", "mysql://db:3306/shop", "shop"},
		{"mysql://ada:pw@db:3307/shop?tls=false", "mysql://ada:***@db:3307/shop", "shop"},
		{"mysql:ada:p@w@tcp(db:3307)/shop", "mysql://ada:***@db:3307/shop", "shop"},
		{"mariadb://ada:pw@db/shop", "mariadb://ada:***@db:3306/shop", "shop"},
		{"mariadb:ada:p@w@tcp(db:3307)/shop", "mariadb://ada:***@db:3307/shop", "shop"},
		{"ada:p@w:x@tcp(db:3307)/shop?collation=utf8mb4_bin", "mysql://ada:***@db:3307/shop", "shop"},
		{"ada:pw@unix(/run/mysqld.sock)/shop", "mysql://ada:***@localhost/shop?socket=/run/mysqld.sock", "shop"},
		{"mysql://ada:pw@localhost/shop?socket=/run/mysqld.sock", "mysql://ada:***@localhost/shop?socket=/run/mysqld.sock", "shop"},
		{"mariadb://ada@/shop?tls=false&socket=%2Frun%2Fmysqld.sock", "mariadb://ada@localhost/shop?socket=/run/mysqld.sock", "shop"},
		{"mysql:///shop?socket=/run/mysqld.sock", "mysql://localhost/shop?socket=/run/mysqld.sock", "shop"},
	} {
		d, err := ParseDSN(tt.in)
		if err != nil || d.String() != tt.shown || d.name != tt.name {
			t.Errorf("%s: got %s, %q, %v", tt.in, d, d.name, err)
			continue
		}
		if again, err := ParseDSN(d.String()); err != nil || !again.Same(d) {
			t.Errorf("%s: what is shown is not read as the same database: %s, %v", tt.in, d, err)
		}
		if strings.Contains(d.Public(), "ada") || !strings.HasSuffix(d.String(), d.Public()[strings.LastIndex(d.Public(), "@")+1:]) {
			t.Errorf("%s: what the server tells of it is %s", tt.in, d.Public())
		}
		for _, text := range []string{d.Public(), fmt.Sprint(d), fmt.Sprintf("%v %+v %#v %s %q", d, d, d, d, d)} {
			for _, secret := range []string{"pw", "p@w", "p%40w"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %q shows %s", tt.in, text, secret)
				}
			}
		}
	}
}

func TestDSNsThatAreNone(t *testing.T) {
	for _, v := range []string{"", "shop.db", "sqlite:", "postgres:ada:hunter2@db/shop", "postgres://ada:hunter2@db:port/shop",
		"postgres://ada:hun%zzter2@db/shop", "mysql://", "mysql://ada:hunter2@db", "mysql:ada:hunter2", "mysql://ada:hunter2@db/shop?parseTime=hunter2",
		"mysql:///hunter2", "mysql://ada:hunter2@/shop", "mysql://ada:hunter2@db.test/shop?socket=/x", "mysql://ada:hunter2@/shop?socket=x", "mysql://ada:hunter2@/shop?socket=/a&socket=/b",
		"ada:hunter2@unix(/a)/shop?socket=/b", "mysql://ada:hunter2@db:0/shop", "postgres://ada:hunter2@db:70000/shop", "mariadb:hunter2@unix(/a)/shop", "hunter2@db:3306", "ada:hunter2@db/shop", "mssql://ada:hunter2@db/shop", "hunter2:"} {
		d, err := ParseDSN(v)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ada:") {
			t.Errorf("%q: got %s, %v", v, d, err)
		}
	}
}

func TestScrub(t *testing.T) {
	d, err := ParseDSN("postgres://ada:h%40nter2@db/shop")
	if err != nil {
		t.Fatal(err)
	}
	was := errors.New("no way in")
	got := d.Scrub(fmt.Errorf("cannot connect with h@nter2 or h%%40nter2 as user=ada database=shop:\n\tone: %w\n\tone: %w", was, was))
	if want := "cannot connect with *** or *** as user=ada database=shop: one: no way in"; got.Error() != want || fmt.Sprintf("%#v", got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !errors.Is(got, was) || errors.Unwrap(got) != nil {
		t.Error("the cause is not told, or can be had")
	}
}

func TestAListOfDSNs(t *testing.T) {
	got, err := SplitDSNs("sqlite:one.db,postgres://ada:p,w@h1,h2/shop, mysql://h/shop,postgresql://h/x")
	want := []string{"sqlite:one.db", "postgres://ada:p,w@h1,h2/shop", " mysql://h/shop", "postgresql://h/x"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
