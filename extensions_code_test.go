package outrider_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type set = map[string]bool

// collection is what the code reads, by function, and what it writes.
type collection struct {
	read    map[string]set
	written set
}

var (
	memberName = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)
	inJSON     = regexp.MustCompile(`"([a-z][a-z0-9_]*)":`)
	// writers are the functions that write a member, one of whose arguments is its name.
	writers = strings.Fields("str num flag at key array again orNull counts ids strs someText someMillis someJSON someStrings someMap optional int bool time raw strings brief Str Optional Int Bool Time Raw Strings Object Array Key")
)

// collect reads the names of members in the packages that decode and encode.
func collect(t *testing.T) collection {
	t.Helper()
	c := collection{map[string]set{}, set{}}
	for _, dir := range []string{"job", "internal/wire", "sidecar", "sidecar/httpapi"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				c.decl(file.Name.Name, d)
			}
		}
	}
	return c
}

func (c *collection) decl(pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := pkg + "." + d.Name.Name
		if d.Recv != nil {
			name = pkg + "." + strings.TrimPrefix(exprText(d.Recv.List[0].Type), "*") + "." + d.Name.Name
		}
		c.walk(pkg, name, d.Body)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, value := range v.Values {
					c.value(pkg, pkg+"."+v.Names[0].Name, value)
				}
			}
			if pkg == "wire" { // elsewhere a tag is of what is stored
				ast.Inspect(spec, c.tags)
			}
		}
	}
}

// value looks at a variable of a package: a map is a list of names that are known.
func (c *collection) value(pkg, where string, e ast.Expr) {
	lit, ok := e.(*ast.CompositeLit)
	if ok && where == "job.customIDs" {
		for _, e := range lit.Elts {
			c.reads(where, e)
		}
		return
	}
	if !ok || exprText(lit.Type) != "map" {
		c.walk(pkg, where, e)
		return
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			c.reads(where, kv.Key)
		}
	}
}

func (c *collection) tags(n ast.Node) bool {
	if f, ok := n.(*ast.Field); ok && f.Tag != nil {
		tag, _ := strconv.Unquote(f.Tag.Value)
		if m := regexp.MustCompile(`json:"([a-z0-9_]+)`).FindStringSubmatch(tag); m != nil {
			c.written[m[1]] = true
		}
	}
	return true
}

func (c *collection) reads(where string, e ast.Expr) {
	if s, ok := literal(e); ok && memberName.MatchString(s) {
		if c.read[where] == nil {
			c.read[where] = set{}
		}
		c.read[where][s] = true
	}
}

func (c *collection) writes(e ast.Expr) {
	if s, ok := literal(e); ok && memberName.MatchString(s) {
		c.written[s] = true
	}
}

func (c *collection) walk(pkg, where string, n ast.Node) {
	request := strings.HasSuffix(where, "Body") || strings.HasSuffix(where, "holder") || strings.Contains(where, "Query") || strings.Contains(where, "AppendPush")
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			if isMember(n.Tag) {
				for _, s := range n.Body.List {
					for _, e := range s.(*ast.CaseClause).List {
						c.reads(where, e)
					}
				}
			}
		case *ast.BinaryExpr:
			if isMember(n.X) {
				c.reads(where, n.Y)
			}
		case *ast.CallExpr:
			_, method := n.Fun.(*ast.SelectorExpr)
			name := exprText(n.Fun)
			name = name[strings.LastIndex(name, ".")+1:]
			if pkg == "job" && (name == "asked" || name == "happened") {
				c.member(where, name == "asked", n.Args[0])
			}
			for _, a := range n.Args {
				if pkg == "job" && method && slices.Contains([]string{"get", "of", "set"}, name) {
					c.reads(where, a)
				}
			}
			if slices.Contains(writers, name) && !request {
				if i := slices.IndexFunc(n.Args, func(a ast.Expr) bool { _, ok := literal(a); return ok }); i >= 0 {
					c.writes(n.Args[i])
				}
			}
		case *ast.CompositeLit:
			if m, ok := n.Type.(*ast.MapType); ok && strings.HasPrefix(exprText(m.Value), "*") { // where each member goes
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						c.reads(where, kv.Key)
					}
				}
			}
		case *ast.KeyValueExpr:
			if !request {
				c.writes(n.Key)
			}
		case *ast.StructType:
			if pkg == "wire" {
				ast.Inspect(n, c.tags)
			}
		case *ast.BasicLit:
			if s, ok := literal(n); ok && !request {
				for _, m := range inJSON.FindAllStringSubmatch(s, -1) {
					c.written[m[1]] = true
				}
			}
		}
		return true
	})
}

// member reads a row of the table of members: the names that it has in a request,
// of which the first is its own if there are no others, and in an answer.
func (c *collection) member(where string, asked bool, row ast.Expr) {
	lit, ok := row.(*ast.CompositeLit)
	if !ok {
		return
	}
	of := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		of[exprText(kv.Key)] = kv.Value
	}
	if of["unshown"] == nil {
		c.writes(of["name"])
	}
	if asked && of["asks"] == nil && of["unread"] == nil {
		c.reads(where, of["name"])
	}
	for _, list := range []string{"asks", "echoes"} {
		names, ok := of[list].(*ast.CompositeLit)
		for i := 0; ok && i < len(names.Elts); i++ {
			c.reads(where, names.Elts[i])
		}
	}
}

// isMember reports whether an expression is the name of a member that is being read.
func isMember(e ast.Expr) bool {
	if f, ok := e.(*ast.SelectorExpr); ok {
		e = f.Sel
	}
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "name" || id.Name == "member")
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// exprText is a name, with its package or receiver, and "map" for the type of a map.
func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return "*" + exprText(e.X)
	case *ast.MapType:
		return "map"
	}
	return ""
}

// goldens are the members of the golden answers, by their place. What a user
// sent is not looked into.
func goldens(t *testing.T) map[string]set {
	t.Helper()
	files, err := filepath.Glob("sidecar/httpapi/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden answers: %v", err)
	}
	found := map[string]set{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split(string(raw), "-- answer --\n")[1:] {
			answer, _, _ := strings.Cut(text, "\n=== ")
			_, body, _ := strings.Cut(answer, "\n\n")
			var v any
			if json.Unmarshal([]byte(body), &v) == nil {
				gather(found, "answers", v)
			}
		}
	}
	return found
}

// users are the members that a user named, or whose own members have a user's names, or those of the table of routes.
var users = strings.Fields("args meta result details options retry unique deduplication debounce labels by_queue by_type by_error_type counts_by_priority config configuration job_template policy data metadata state last_checkpoint checkpoint_metadata progress_data schema endpoints")

func gather(found map[string]set, place string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			gather(found, place, e)
		}
	case map[string]any:
		if v["args"] != nil && v["attempt"] != nil {
			place = "job"
		} else if v["datacontenttype"] != nil {
			place = "events"
		}
		for name, value := range v {
			if name == "trace" { // of the jobs of the golden answers, whose attributes are not all known
				continue
			}
			if found[place] == nil {
				found[place] = set{}
			}
			found[place][name] = true
			if byQueue, ok := value.(map[string]any); ok && name == "queues" && byQueue["total"] == nil { // its names are those of queues
				continue
			} else if byID, ok := value.(map[string]any); ok && name == "results" { // its names are ids
				for _, one := range byID {
					gather(found, place, one)
				}
			} else if !slices.Contains(users, name) {
				gather(found, place, value)
			}
		}
	}
}
