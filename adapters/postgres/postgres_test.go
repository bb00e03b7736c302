package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTheSQL is all of the dialect under another name, compared whole: no
// statement may speak of ojs_outbox any more.
func TestTheSQL(t *testing.T) {
	d, err := postgres.Dialect("shop_jobs")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.TrimSpace(f.String()))
		case reflect.Slice:
			fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.Join(f.Interface().([]string), "\n"))
		}
	}
	for _, of := range []func(string) (string, error){postgres.Function, postgres.Trigger, postgres.Notifies} {
		text, err := of("shop_jobs")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "== extra\n%s\n", strings.TrimSpace(text))
	}
	got, file := b.String(), filepath.Join("testdata", "shop_jobs.sql")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the SQL has changed; see the diff of go test -update. got\n%s", got)
	}
	if strings.Contains(got, "ojs_outbox") {
		t.Error("a statement keeps the default name")
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a", "_a1", strings.Repeat("a", 40)} {
		if d, err := postgres.Dialect(name); err != nil || name != "" && d.Table != name {
			t.Errorf("%q: got table %q and %v", name, d.Table, err)
		}
	}
	for _, name := range []string{"1a", "Jobs", "a b", "a;b", "a\"", "a.b", "ä", strings.Repeat("a", 41)} {
		if _, err := postgres.Dialect(name); job.KindOf(err) != job.Invalid || err == nil {
			t.Errorf("%q: got %v, want Invalid", name, err)
		}
	}
}
