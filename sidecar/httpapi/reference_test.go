package httpapi

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/http.md is made from the table of routes; -update writes it.
func TestTheReferenceIsTheTable(t *testing.T) {
	const page = "../../docs/http.md"
	want := reference()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/http.md is not what the table of routes says; go test ./sidecar/httpapi -run TestTheReferenceIsTheTable -update writes it")
	}
}

func reference() string {
	var b strings.Builder
	b.WriteString(`# Endpoints

Every route of the server, made from the table that also makes the router and its guard (` + "`sidecar/httpapi/routes.go`" + `). What is sent and
answered stands in [contract.md](contract.md) under the section. A ` + "`GET`" + ` answers ` + "`HEAD`" + `, too.

Without ` + "`--token-file`" + ` whoever can reach the server may ask everything. With it a caller needs one of the named roles; an ` + "`operator`" + `
may ask everything, and "everybody" needs no token ([contract §1.10](contract.md)). A stream goes on until one side ends it.
`)
	table := Routes()
	slices.SortStableFunc(table, func(a, b Route) int { return cmp.Compare(sectionNumber(a), sectionNumber(b)) })
	b.WriteString("\n| endpoint | what it does | who may ask | § |\n|---|---|---|---|\n")
	for _, r := range table {
		who := strings.ReplaceAll((r.Who &^ Operator).String(), ",", ", ")
		switch r.Who {
		case everybody:
			who = "everybody"
		case operators:
			who = "operator"
		}
		does := r.Does
		if r.Stream {
			does += " (a stream)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r, does, who, r.Section)
	}
	return b.String()
}

// sectionNumber is where the section of a route stands in the contract.
func sectionNumber(r Route) int {
	var chapter, n int
	_, _ = fmt.Sscanf(r.Section, "%d.%d", &chapter, &n)
	return 1000*chapter + n
}

// Every row is whole, and no two are of the same route.
func TestRowsOfTheTable(t *testing.T) {
	seen := map[string]bool{}
	contract, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Routes() {
		name := r.Method + " " + r.Path
		if seen[name] {
			t.Errorf("%s has two rows", name)
		}
		seen[name] = true
		if r.Does == "" || strings.HasSuffix(r.Does, ".") || r.handle == nil {
			t.Errorf("%s: %q", name, r.Does)
		}
		if !strings.Contains(string(contract), "### "+r.Section+" ") {
			t.Errorf("%s is of contract §%s, which docs/contract.md does not have", name, r.Section)
		}
	}
	served := 0
	for _, r := range newEcho(world(), quiet()).Routes() {
		if r.Method != "HEAD" {
			served++
			if !seen[r.Method+" "+r.Path] {
				t.Errorf("%s %s is served, and has no row", r.Method, r.Path)
			}
		}
	}
	if served != len(seen) || served < 100 {
		t.Errorf("%d routes are served, %d have a row", served, len(seen))
	}
}
