package outbox_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	mysqloutbox "github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dialects are the three, the texts that they have beside, and the names that a
// table may have there or not.
var dialects = []struct {
	name       string
	of         func(string) (outbox.Dialect, error)
	extra      []func(string) (string, error)
	fine, none []string
}{
	{"postgres", postgres.Dialect, []func(string) (string, error){postgres.Function, postgres.Trigger, postgres.Notifies},
		[]string{strings.Repeat("a", 40)}, []string{"Jobs", strings.Repeat("a", 41)}},
	{"mysql", mysqloutbox.Dialect, nil,
		[]string{strings.Repeat("a", 40)}, []string{"Jobs", strings.Repeat("a", 41)}},
	{"sqlite", sqlite.Dialect, nil,
		[]string{"Jobs", strings.Repeat("a", 63)}, []string{"sqlite_x", strings.Repeat("a", 64)}},
}

// TestTheSQL is all of a dialect under another name, compared whole: no statement
// may speak of ojs_outbox any more.
func TestTheSQL(t *testing.T) {
	for _, tt := range dialects {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tt.of("shop_jobs")
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			v := reflect.ValueOf(d.Statements())
			for i := range v.NumField() {
				switch f := v.Field(i); f.Kind() {
				case reflect.String:
					fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.TrimSpace(f.String()))
				case reflect.Slice:
					fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.Join(f.Interface().([]string), "\n"))
				}
			}
			for _, of := range tt.extra {
				text, err := of("shop_jobs")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "== extra\n%s\n", strings.TrimSpace(text))
			}
			got, file := b.String(), filepath.Join("../adapters", tt.name, "testdata/shop_jobs.sql")
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
		})
	}
}

func TestNamesOfTables(t *testing.T) {
	for _, tt := range dialects {
		for _, name := range append([]string{"", "a", "_a1"}, tt.fine...) {
			if d, err := tt.of(name); err != nil || name != "" && d.Table() != name {
				t.Errorf("%s: %q: got table %q and %v", tt.name, name, d.Table(), err)
			}
		}
		for _, name := range append([]string{"1a", "a b", "a;b", `a"`, "a.b", "ä"}, tt.none...) {
			if _, err := tt.of(name); job.KindOf(err) != job.Invalid || err == nil {
				t.Errorf("%s: %q: got %v, want Invalid", tt.name, name, err)
			}
		}
	}
}
