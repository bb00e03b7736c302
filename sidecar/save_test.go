package sidecar

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Jobs are stored by the methods of turn, and the store is written to by update:
// what must happen with each change of a job, and after it, has one place.
func TestOneWayToStoreAJob(t *testing.T) {
	t.Parallel()
	banned := []string{"Update", "InsertJob", "InsertJobs", "InsertFirst", "UpdateJob", "RewriteJob", "DeleteJob"}
	found := map[string]int{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(banned, s.Sel.Name) {
				if found[s.Sel.Name]++; name != "save.go" {
					t.Errorf("%s calls %s: store jobs by way of turn, in save.go", name, s.Sel.Name)
				}
			}
			return true
		})
	}
	for _, name := range banned {
		if found[name] != 1 {
			t.Errorf("%s is called in %d places, want one", name, found[name])
		}
	}
}
