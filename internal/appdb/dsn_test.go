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
		{"postgres://ada:pw@db/shop", "postgres://***@db:5432/shop", "shop"},
		{"postgresql://ada@db:6432/shop?sslmode=disable&password=pw", "postgres://***@db:6432/shop", "shop"},
		{"postgres://ada:pw@one:1,two:2/shop", "postgres://***@one:1,two:2/shop", "shop"},
		{"postgres:///shop?host=/run/postgresql", "postgres://***@/run/postgresql/shop", "shop"},
		{"mysql://ada:p%40w@db/shop", "mysql://***@db:3306/shop", "shop"},
		{"mysql://ada:pw@db:3307/shop?tls=false", "mysql://***@db:3307/shop", "shop"},
		{"mysql:ada:p@w@tcp(db:3307)/shop", "mysql://***@db:3307/shop", "shop"},
		{"ada:p@w:x@tcp(db:3307)/shop?collation=utf8mb4_bin", "mysql://***@db:3307/shop", "shop"},
		{"ada:pw@unix(/run/mysqld.sock)/shop", "mysql://***@/run/mysqld.sock/shop", "shop"},
	} {
		d, err := ParseDSN(tt.in)
		if err != nil || d.String() != tt.shown || d.name != tt.name {
			t.Errorf("%s: got %s, %q, %v", tt.in, d, d.name, err)
			continue
		}
		for _, text := range []string{fmt.Sprint(d), fmt.Sprintf("%v %+v %#v %s %q", d, d, d, d, d)} {
			for _, secret := range []string{"ada", "pw", "p@w", "p%40w"} {
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
		"hunter2@db:3306", "ada:hunter2@db/shop", "mssql://ada:hunter2@db/shop", "hunter2:"} {
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
	if want := "cannot connect with *** or *** as user=*** database=shop: one: no way in"; got.Error() != want || fmt.Sprintf("%#v", got) != want {
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
