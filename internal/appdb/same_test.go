package appdb

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestOneOutboxTwice: however it is spelled it is refused, and two that may be
// different ones are not.
func TestOneOutboxTwice(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "shop.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	type pair struct{ a, b string }
	same := []pair{{"sqlite:shop.db", "sqlite:" + file}, {"sqlite:./shop.db", "sqlite://shop.db"}, {"sqlite:none.db", "sqlite:./x/../none.db"},
		{"postgres://a:x@db/shop", "postgres://a:y@db:5432/shop?sslmode=disable"}, {"postgres://a@localhost/shop", "postgresql://a@127.0.0.1:5432/shop"},
		{"postgres://a@one,two/shop", "postgres://a@two/shop"}, {"postgres://a@db/shop?search_path=s", "postgres://b@DB/shop?search_path=s"},
		{"mysql://a:x@db/shop", "a:x@tcp(db:3306)/shop"}, {"mysql://a:x@db/shop?parseTime=true", "mysql://b@db:3306/shop"}, {"mysql://a@localhost/shop", "mysql://a@127.0.0.1/shop"}, {"mariadb://a@db/shop", "mysql://a@db/shop"},
		{"mysql://a@/shop?socket=/run/s", "b@unix(/run/s)/shop"}}
	other := []pair{{"sqlite:shop.db", "sqlite:other.db"}, {"sqlite:a/none.db", "sqlite:b/none.db"}, {"postgres://a@db/shop", "postgres://a@db/shop2"}, {"postgres://a@db/shop", "postgres://a@db:5433/shop"},
		{"postgres://a@db/shop", "postgres://b@db/shop"}, {"postgres://a@db/shop?search_path=s", "postgres://a@db/shop?search_path=z"},
		{"postgres://a@db/shop", "mysql://a@db/shop"}, {"mysql://a@db/shop", "mysql://a@db2/shop"}, {"mysql://a@db/shop", "mysql://a@db:3307/shop"}, {"mysql://a@/shop?socket=/run/s", "mysql://a@/shop?socket=/run/t"}}
	if runtime.GOOS != "windows" {
		if err := os.Symlink(file, filepath.Join(dir, "link.db")); err != nil {
			t.Fatal(err)
		}
		same = append(same, pair{"sqlite:link.db", "sqlite:shop.db"})
	}
	read := func(v string) DSN {
		d, err := ParseDSN(v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		return d
	}
	for want, pairs := range map[bool][]pair{true: same, false: other} {
		for _, p := range pairs {
			if read(p.a).Same(read(p.b)) != want || read(p.b).Same(read(p.a)) != want {
				t.Errorf("%s and %s: the same is not %v", p.a, p.b, want)
			}
		}
	}
}
