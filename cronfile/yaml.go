package cronfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// Bounds of a file that cost the library more than its length says.
const (
	maxDeep = 100          // lists and objects in one line, within each other
	maxWide = 1000         // members of one object
	maxCost = 4 * MaxBytes // bytes that the aliases stand for, all together
)

// misplaced is a mistake and its line.
type misplaced struct {
	line int
	error
}

func (m *misplaced) Unwrap() error { return m.error }

// errorAt is a mistake at a node.
func errorAt(n ast.Node, format string, args ...any) error {
	return &misplaced{lineOf(n), fmt.Errorf(format, args...)}
}

// lineOf is where a node begins.
func lineOf(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	return n.GetToken().Position.Line
}

// find is the value below n under a path of names, or nil.
func find(n ast.Node, path ...string) ast.Node {
	b := (&yaml.PathBuilder{}).Root()
	for _, name := range path {
		b = b.Child(name)
	}
	v, err := b.Build().FilterNode(n)
	if err != nil {
		return nil
	}
	return v
}

// parse reads one document of YAML. Its mistakes have the line, and a mark.
func parse(name string, raw []byte) (body ast.Node, err error) {
	defer func() {
		if fell := recover(); fell != nil { // no file may end a server, whatever the library thinks of it
			body, err = nil, fmt.Errorf("%s cannot be read: %v", name, fell)
		}
	}()
	tokens := lexer.Tokenize(string(raw))
	if err := checkShape(name, tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	var wrong yaml.Error
	switch {
	case errors.As(err, &wrong) && wrong.GetToken() != nil:
		at := wrong.GetToken().Position
		_, excerpt, _ := strings.Cut(wrong.FormatError(false, true), "\n")
		lines := strings.Split(wrong.GetMessage()+"\n"+strings.TrimRight(excerpt, "\n"), "\n")
		for i := range lines {
			lines[i] = wording.Printable(lines[i])
		}
		return nil, fmt.Errorf("%s is not valid YAML, line %d, column %d: %s", name, at.Line, at.Column, strings.Join(lines, "\n"))
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	for _, d := range file.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive || d.Body == nil {
			continue
		}
		if body != nil {
			return nil, fmt.Errorf("%s:%d: a second document begins; put all schedules under one list of crons", name, d.Body.GetToken().Position.Line)
		}
		body = d.Body
	}
	return body, nil
}

// checkShape refuses a text on which the parser would spend too much: it calls
// itself for every level, and compares all members of an object with each other.
func checkShape(name string, tokens token.Tokens) error {
	line, flow, marks := 0, 0, 0 // marks open a list or an object, or stand before a value
	members := make(map[int]int) // of the objects that are open, by their columns
	close := func(column int) {
		for c := range members {
			if c > column {
				delete(members, c)
			}
		}
	}
	for i, t := range tokens {
		if t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			marks++
			close(t.Position.Column)
		case token.MappingValueType:
			if flow > 0 || i == 0 {
				continue
			}
			column := tokens[i-1].Position.Column
			close(column)
			if members[column]++; members[column] > maxWide {
				return fmt.Errorf("%s:%d: an object has more than %d members", name, line, maxWide)
			}
		}
		if flow > maxDeep || marks > maxDeep {
			return fmt.Errorf("%s:%d: lists and objects are nested more than %d deep", name, line, maxDeep)
		}
	}
	return nil
}

// bareMark stands at the front of an expression whose quotes were forgotten. No
// expression that can be read has it.
const bareMark = "\x01"

// bareExpression is an expression without quotes whose first character means something else in YAML.
var bareExpression = regexp.MustCompile(`(?m)^([ \t]*(?:-[ \t]+)?["']?(?:cron|expression|schedule)["']?[ \t]*:[ \t]+)([*@][^"'\r\n]*?)([ \t]*(?:#.*)?\r?)$`)

// quoteExpressions puts quotes and a mark where quotes were forgotten, so that the
// rest of the file can be read.
func quoteExpressions(raw []byte) []byte {
	return bareExpression.ReplaceAll(raw, []byte(`$1"\x01$2"$3`))
}

// decoder turns nodes into values, one after another: later ones may stand for
// the anchors of those before.
type decoder struct {
	yaml    *yaml.Decoder
	anchors map[string]int // what an alias to each costs
	cost    int            // of all that was read, in bytes
	err     error          // of the node that is being read
}

func newDecoder() *decoder {
	return &decoder{yaml: yaml.NewDecoder(strings.NewReader("")), anchors: map[string]int{}}
}

// value is what a node stands for, as encoding/json has it.
func (d *decoder) value(n ast.Node) (v any, err error) {
	defer func() {
		if fell := recover(); fell != nil {
			v, err = nil, errorAt(n, "cannot be read: %v", fell)
		}
	}()
	d.err = nil
	before := d.cost
	if ast.Walk(d, n); d.err != nil {
		d.cost = before // what is not read costs nothing
		return nil, d.err
	}
	err = d.yaml.DecodeFromNode(n, &v)
	var wrong yaml.Error
	if errors.As(err, &wrong) && wrong.GetToken() != nil {
		return nil, &misplaced{wrong.GetToken().Position.Line, errors.New(wrong.GetMessage())}
	}
	return v, err
}

var (
	numeric    = regexp.MustCompile(`^[-+]?(\.?[0-9][0-9_]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)
	octalOrNot = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
)

// Visit refuses, before the library reads a node, what it would take for something
// that a person may not have meant, and what would cost too much.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	t := n.GetToken()
	if d.err != nil || t == nil {
		return nil
	}
	d.cost += len(t.Value) + 1
	switch n := n.(type) {
	case *ast.AnchorNode:
		before := d.cost
		ast.Walk(d, n.Value)
		d.anchors[n.Name.GetToken().Value] = d.cost - before
		return nil
	case *ast.AliasNode:
		d.alias(n)
	case *ast.TagNode:
		if n.Start.Value != "!!str" {
			d.err = errorAt(n, "the tag %.40s is not supported; remove it", n.Start.Value)
		}
		return nil
	case *ast.MappingNode:
		mergeFirst(n)
	case *ast.InfinityNode, *ast.NanNode:
		d.err = errorAt(n, "%s is no number that JSON has", t.Value)
	case *ast.IntegerNode, *ast.StringNode:
		quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
		switch _, text := n.(*ast.StringNode); {
		case quoted:
		case octalOrNot.MatchString(t.Value):
			d.err = errorAt(n, "%.40s is read as octal by some and as decimal by others: write it without the leading 0, as 0o17, or in quotes", t.Value)
		case text && numeric.MatchString(t.Value):
			d.err = errorAt(n, "%.40s is a number for some and text for others: write it in plain digits that fit 64 bits, or in quotes", t.Value)
		}
	}
	if d.err == nil && d.cost > maxCost {
		d.err = errorAt(n, "the aliases of the file stand for more than 4 MiB altogether")
	}
	return d
}

// alias adds up what an alias costs, and refuses one that stands for nothing.
func (d *decoder) alias(n *ast.AliasNode) {
	name := n.Value.GetToken().Value
	cost, ok := d.anchors[name]
	switch d.cost += cost; {
	case ok:
	case strings.ContainsAny(name, " ,/"):
		d.err = errorAt(n, "what begins with * must be in quotes, as * means something else at the front in YAML")
	default:
		d.err = errorAt(n, "*%s stands for nothing: no &%[1]s is before it; text that begins with * must be in quotes", wording.Printable(name))
	}
}

// mergeFirst puts << in front of the other members, and the objects that it lists
// in reverse: of two members the library takes the last, and YAML the object's own
// and then the first.
func mergeFirst(n *ast.MappingNode) {
	order := func(v *ast.MappingValueNode) int {
		if v.Key.IsMergeKey() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(n.Values, func(a, b *ast.MappingValueNode) int { return order(a) - order(b) })
	for _, v := range n.Values {
		if list, ok := v.Value.(*ast.SequenceNode); ok && v.Key.IsMergeKey() {
			slices.Reverse(list.Values)
		}
	}
}
