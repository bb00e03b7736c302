package cronfile

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/outrider-jobs/outrider/internal/wording"
)

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
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
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
		n.Value = asWritten(n.Value)
		ast.Walk(d, n.Value)
		d.anchors[n.Name.GetToken().Value] = d.cost - before
		return nil
	case *ast.AliasNode:
		d.alias(n)
	case *ast.TagNode:
		if n.Value = asWritten(n.Value); n.Start.Value != "!!str" {
			d.err = errorAt(n, "the tag %.40s is not supported; remove it", n.Start.Value)
		}
		return nil
	case *ast.MappingNode:
		mergeFirst(n)
	case *ast.MappingValueNode:
		n.Key, n.Value = nameOf(n.Key), asWritten(n.Value)
	case *ast.MappingKeyNode:
		if name, ok := n.Value.(ast.MapKeyNode); ok {
			n.Value = nameOf(name)
		}
	case *ast.SequenceNode:
		for i, v := range n.Values {
			n.Values[i] = asWritten(v)
		}
	case *ast.InfinityNode, *ast.NanNode:
		d.err = errorAt(n, "%s is no number that JSON has", t.Value)
	case *ast.IntegerNode, *ast.StringNode:
		switch _, text := n.(*ast.StringNode); {
		case isQuoted(t):
		case octalOrNot.MatchString(t.Value):
			d.err = errorAt(n, "%.40s is read as octal by some and as decimal by others: write it without the leading 0, as 0o17, or in quotes", t.Value)
		case text && numeric.MatchString(t.Value):
			d.err = errorAt(n, "%.40s is a number for some and text for others: write it as JSON does, such as 1.5e3, or in quotes", t.Value)
		}
	}
	if d.err == nil && d.cost > maxCost {
		d.err = errorAt(n, "the aliases of the file stand for more than 4 MiB altogether")
	}
	return d
}

// asWritten is a node that stands for a number, with its text if JSON has numbers
// like that; else the node as it is. The library would make 1.5 of 1.50, and takes
// 1e5 and what does not fit 64 bits for text.
func asWritten(n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		if t := n.GetToken(); !isQuoted(t) && jsonNumber.MatchString(t.Value) {
			return &ast.IntegerNode{BaseNode: &ast.BaseNode{}, Token: t, Value: json.Number(t.Value)}
		}
	}
	return n
}

// nameOf is the name of a member as it is written, where the library would take it
// for a number or a boolean and respell it: 1.10 and 1.1 are two names. One that
// looks octal is left, and refused.
func nameOf(n ast.MapKeyNode) ast.MapKeyNode {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if t := n.GetToken(); !octalOrNot.MatchString(t.Value) {
			quoted := *t
			quoted.Type = token.SingleQuoteType
			return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: &quoted, Value: t.Value}
		}
	}
	return n
}

func isQuoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
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
