package outrider_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// checksOf is where production code holds an envelope to the rules: how often,
// and for whom. From there on it is a job.Checked, which nothing checks again, so
// each way of an envelope into a store has one line here.
var checksOf = map[string]struct {
	times int
	why   string
}{
	"internal/wire/bulk.go":         {1, "what came over HTTP: each job of a bulk request"},
	"job/servicetest/bulk.go":       {1, "a judge's own jobs"},
	"internal/wire/decode.go":       {2, "what came over HTTP: a PUSH, and each job of a batch"},
	"sidecar/enqueue.go":            {1, "what a Go program made, in this process"},
	"client/jobs.go":                {1, "what a Go program made, before it is written to a server"},
	"outbox/outbox.go":              {1, "what a Go program made, before it is written to an outbox"},
	"outbox/row.go":                 {1, "what a row says: that is read once by the relay, and once by who writes it"},
	"sidecar/middleware.go":         {2, "what a middleware has changed; and who of several is to blame for it"},
	"job/cron.go":                   {1, "a template: its runs are made of it unread"},
	"job/parse.go":                  {1, "ParseEnvelope calls ParseChecked"},
	"job/warning.go":                {1, "a template that is shown: which of its options nobody reads"},
	"sqlitestore/upgrade.go":        {1, "a job of a file of schema 1, which had no key"},
	"cmd/outrider/enqueue_batch.go": {1, "a line of a file, before it is written to a server"},
	"cmd/outrider/unique.go":        {1, "a stored job, as a question"},
	"internal/bench/baseline.go":    {1, "the server that stores nothing"},
	"internal/bench/beside.go":      {1, "what a store holds first"},
	"internal/bench/inprocess.go":   {3, "what is pushed again and again, and what is another each time"},
	"internal/bench/outbox.go":      {1, "what is pushed again and again"},
	"job/workflow_parse.go":         {1, "each step of a workflow that came over HTTP"},
	"job/workflow_build.go":         {1, "what a Go program made a step of"},
	"job/workflow_law.go":           {1, "a step whose turn has come, as it is stored"},
	"job/servicetest/workflows.go":  {1, "what was shown is sent again"},
	"job/storetest/storetest.go":    {1, "a judge's own jobs"},
	"job/storetest/keys_audit.go":   {1, "an audit reads what is stored once more"},
	"job/servicetest/keeping.go":    {1, "a judge's own jobs"},
	"job/servicetest/pushing.go":    {1, "a judge's own jobs"},
}

// TestAnEnvelopeIsCheckedOnce: only what makes a job.Checked checks, and that
// stands where an envelope enters.
func TestAnEnvelopeIsCheckedOnce(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && checks(call) {
				found[filepath.ToSlash(path)]++
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, n := range found {
		if n != checksOf[path].times {
			t.Errorf("%s checks envelopes in %d places, and %d are known: let it take a job.Checked, or say in checksOf why not", path, n, checksOf[path].times)
		}
	}
	for path := range checksOf {
		if found[path] == 0 {
			t.Errorf("%s is listed, and checks nothing", path)
		}
	}
}

// checks reports whether a call makes a job.Checked.
func checks(call *ast.CallExpr) bool {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	return name == "Check" && len(call.Args) == 0 || name == "ParseEnvelope" || name == "ParseChecked"
}
