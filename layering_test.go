package outrider_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outrider-jobs/outrider"

// mayImport is the map of the house: for every package, which of ours it may
// import. "." is the package in the root. A package that is not listed fails
// the test: a new wall is drawn here first.
var mayImport = map[string][]string{
	".":                    {},
	"job":                  {"internal/wording", "internal/rawjson"},
	"job/storetest":        {"job"},
	"job/servicetest":      {"job", "internal/rawjson"},
	"sqlitestore":          {".", "job", "internal/rawjson"},
	"outbox":               {"internal/outboxsql", "job", "internal/rawjson"},
	"adapters/sqlite":      {"internal/outboxsql", "job", "outbox"},
	"adapters/postgres":    {"internal/outboxsql", "job", "outbox"},
	"adapters/mysql":       {"internal/outboxsql", "job", "outbox"},
	"adapters/pgx":         {"job", "outbox", "adapters/postgres"},
	"adapters/gorm":        {"job", "outbox"},
	"adapters/nethttp":     {"job", "internal/rawjson"},
	"adapters/echo":        {"job", "adapters/nethttp"}, // the rules of headers stand once
	"cronsched":            {"job", "internal/wording"},
	"cronfile":             {"job", "cronsched", "internal/rawjson", "internal/wording"},
	"sidecar":              {"job", "sidecar/schedule", "sidecar/schemas"},
	"sidecar/schemas":      {"job"},
	"sidecar/schedule":     {"job", "cronsched"},
	"sidecar/httpapi":      {"job", "internal/wire"},
	"sidecar/webhooks":     {"job", "internal/wire", "internal/rawjson"},
	"internal/wire":        {"job", "internal/wording", "internal/rawjson"},
	"internal/rawjson":     {},
	"internal/outboxsql":   {},
	"internal/wording":     {},
	"internal/term":        {"internal/wording"},
	"internal/flowchart":   {"job", "internal/term"},
	"internal/sift":        {"job", "internal/wording"},
	"internal/logsink":     {},
	"internal/testdb":      {},
	"internal/costs":       {},
	"internal/netguard":    {"job", "internal/rawjson"},
	"internal/self":        {},
	"internal/memory":      {},
	"internal/readfile":    {},
	"internal/tokens":      {"internal/readfile", "sidecar/httpapi"},
	"internal/appdb":       {"internal/outboxsql", "job", "outbox", "adapters/sqlite", "adapters/postgres", "adapters/mysql", "sidecar/httpapi"},
	"internal/bench":       {"job", "outbox", "adapters/postgres", "client", "sidecar", "sqlitestore", "internal/appdb", "internal/netguard", "internal/self"},
	"internal/bench/plot":  {"internal/bench"},
	"internal/handwork":    {"job", "client", "internal/self", "internal/term", "sidecar/webhooks"},
	"internal/demo":        {"job", "outbox", "adapters/sqlite", "client", "internal/self"},
	"client":               {"job", "internal/wire"},
	"once":                 {"job"},
	"examples":             {},
	"examples/quickstart":  public,
	"examples/go-once":     public,
	"examples/workflow":    {"client", "job"},
	"examples/go-postgres": public,
	"examples/go-sqlite":   public,
	"cmd/outrider": append([]string{
		"internal/appdb",
		"internal/bench",
		"internal/demo",
		"internal/flowchart",
		"internal/handwork",
		"internal/logsink",
		"internal/memory",
		"internal/netguard",
		"internal/rawjson",
		"internal/readfile",
		"internal/sift",
		"internal/term",
		"internal/tokens",
		"internal/wire",
		"internal/wording",
	}, public...),
}

// public is what anybody may import.
var public = []string{"job", "sqlitestore", "outbox", "adapters/sqlite", "adapters/postgres", "adapters/mysql",
	"adapters/pgx", "adapters/gorm", "adapters/nethttp", "adapters/echo", "cronsched", "cronfile", "sidecar", "sidecar/httpapi", "sidecar/webhooks", "client", "once"}

// adapters/pgx and adapters/gorm are packages, not modules of their own. A module
// that imports client, outbox or sidecar gets neither pgx nor gorm into its go.mod
// or go.sum as it is, since nothing that it builds needs them. As modules they would
// each need a tag and a commit of their own at every release, behind the one that
// they require, and go test ./... would no longer test them.

// mustNotLink says what a program that imports the package must not be made to
// carry: a package, or with a slash at the end all below it.
var mustNotLink = map[string][]string{
	"job":              {"database/sql", "net/http"},
	"sidecar":          append([]string{"github.com/labstack/", "net/http"}, drivers...),
	"sidecar/httpapi":  append([]string{module + "/sidecar"}, drivers...),
	"sidecar/webhooks": append([]string{"github.com/labstack/", module + "/sidecar"}, drivers...),
	"outbox":           append([]string{"github.com/labstack/"}, drivers...),
	"adapters/pgx":     {"modernc.org/", "gorm.io/", "github.com/go-sql-driver/", "github.com/labstack/"},
	"adapters/gorm":    append([]string{"github.com/glebarez/", "github.com/labstack/"}, drivers...),
	"adapters/nethttp": append([]string{"database/sql", "github.com/labstack/"}, drivers...),
	"adapters/echo":    append([]string{"database/sql"}, drivers...),
	"cronfile":         append([]string{"database/sql", "net/http"}, drivers...),
	"client":           append([]string{"github.com/labstack/", module + "/sidecar"}, drivers...),
	"once":             append([]string{"net/http", "github.com/labstack/", module + "/client"}, drivers...),
}

// drivers of databases are chosen by the program, never by the library.
var drivers = []string{"modernc.org/", "github.com/jackc/", "github.com/lib/pq", "github.com/go-sql-driver/",
	"github.com/mattn/go-sqlite3", "github.com/ncruces/"}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestImportsFollowTheMap(t *testing.T) {
	packages := listPackages(t)
	for name, p := range packages {
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("package %s is not on the map: add it to mayImport", name)
			continue
		}
		for _, path := range p.Imports {
			if ours, ok := local(path); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; it may import %v", name, ours, allowed)
			}
		}
	}
}

func TestEmbeddingLinksNothingUnasked(t *testing.T) {
	packages := listPackages(t)
	for name, banned := range mustNotLink {
		for _, dep := range packages[name].Deps {
			for _, b := range banned {
				if dep == b || strings.HasSuffix(b, "/") && strings.HasPrefix(dep, b) {
					t.Errorf("%s links %s", name, dep)
				}
			}
		}
	}
}

// local is the name on the map of an import path of ours.
func local(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatalf("read go list: %v", err)
		}
		name, ok := local(p.ImportPath)
		if !ok {
			t.Fatalf("go list names %q, which is not of this module", p.ImportPath)
		}
		packages[name] = p
	}
}
