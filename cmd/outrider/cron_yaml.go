package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// yamlReader turns YAML into values of JSON. It knows the anchors that it has
// passed, and how much may still be made of the aliases to them: each of them
// may stand for all that was before.
type yamlReader struct {
	anchors map[string]*leaf
	left    *int // bytes of JSON
}

// parseYAML reads one document. Its mistakes have the line, and a mark.
func parseYAML(name string, raw []byte) (body ast.Node, err error) {
	defer func() {
		if fell := recover(); fell != nil { // no file may end a server, whatever its parser thinks of it
			body, err = nil, fmt.Errorf("%s cannot be read as YAML: %v", name, fell)
		}
	}()
	tokens := lexer.Tokenize(string(raw))
	if err := checkShape(name, tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // we find those ourselves, entry by entry
	var wrong yaml.Error
	switch {
	case errors.As(err, &wrong) && wrong.GetToken() != nil:
		return nil, badYAML(name, raw, wrong)
	case err != nil:
		return nil, fmt.Errorf("%s is no YAML: %w", name, err)
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

// badYAML is a mistake in the text, with the line and a mark under it.
func badYAML(name string, raw []byte, wrong yaml.Error) error {
	at := wrong.GetToken().Position
	lines := bytes.SplitAfter(raw, []byte("\n"))
	n := min(max(at.Line, 1), len(lines))
	start := len(bytes.Join(lines[:n-1], nil))
	text := []rune(string(bytes.TrimRight(lines[n-1], "\r\n")))
	column := min(max(at.Column-1, 0), len(text))
	line, column, shown, mark := place(raw, start+len(string(text[:column])))
	return fmt.Errorf("%s is no YAML, line %d, column %d: %s\n  %s\n  %s^", name, line, column, wording.Printable(wrong.GetMessage()), shown, strings.Repeat(" ", mark))
}

// bareExpression is an expression without quotes whose first character means something else in YAML.
var bareExpression = regexp.MustCompile(`(?m)^([ \t]*(?:-[ \t]+)?["']?(?:cron|expression|schedule)["']?[ \t]*:[ \t]+)([*@][^"'\r\n]*?)([ \t]*(?:#.*)?\r?)$`)

// quoteExpressions puts quotes where they were forgotten, so that the rest of the
// file can be read, and says in which lines it did.
func quoteExpressions(raw []byte) (quoted []byte, lines map[int]bool) {
	lines = map[int]bool{}
	for _, m := range bareExpression.FindAllSubmatchIndex(raw, -1) {
		lines[1+bytes.Count(raw[:m[4]], []byte("\n"))] = true
	}
	return bareExpression.ReplaceAll(raw, []byte(`$1"$2"$3`)), lines
}

// line is where a node begins.
func line(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	return n.GetToken().Position.Line
}

// read is a node as a value of JSON.
func (y *yamlReader) read(n ast.Node) (*leaf, error) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		v, err := y.read(n.Value)
		if err == nil {
			y.anchors[n.Name.GetToken().Value] = v
		}
		return v, err
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if v, ok := y.anchors[name]; ok {
			return v, nil
		}
		if strings.ContainsAny(name, " ,/") {
			return nil, at(n, "what begins with * must be in quotes, as * means something else at the front in YAML")
		}
		return nil, at(n, "*%s stands for nothing: no &%[1]s is before it; text that begins with * must be in quotes", wording.Printable(name))
	case *ast.TagNode:
		if n.Start.Value == "!!str" && n.Value != nil {
			return textLeaf(line(n), n.Value.GetToken().Value), nil
		}
		return nil, at(n, "the tag %.40s is not understood here; leave it away", n.Start.Value)
	case *ast.MappingNode:
		return y.object(n, n.Values)
	case *ast.MappingValueNode:
		return y.object(n, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		l := &leaf{line: line(n), kind: '['}
		for _, v := range n.Values {
			item, err := y.read(v)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, item)
		}
		return l, nil
	}
	return scalar(n)
}

// at is a mistake at a node.
func at(n ast.Node, format string, args ...any) error {
	return &misplaced{line(n), fmt.Errorf(format, args...)}
}

// object is a mapping, with what << takes into it.
func (y *yamlReader) object(n ast.Node, values []*ast.MappingValueNode) (*leaf, error) {
	l := &leaf{line: line(n), kind: '{'}
	var merged []*leaf
	for _, v := range values {
		member, err := y.read(v.Value)
		if err != nil {
			return nil, err
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			merged = append(merged, member)
			continue
		}
		if _, plain := v.Key.(ast.ScalarNode); !plain {
			return nil, at(v.Key, "the name of a member must be plain text")
		}
		if err := l.add(v.Key.GetToken().Value, v.Key.GetToken().Position.Line, member); err != nil {
			return nil, err
		}
	}
	for _, m := range merged {
		if err := y.merge(l, n, m); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// merge takes the members of m, or of the objects that it lists, into l where it has none of that name.
func (y *yamlReader) merge(l *leaf, n ast.Node, m *leaf) error {
	for _, each := range m.items {
		if err := y.merge(l, n, each); err != nil {
			return err
		}
	}
	if m.kind == 's' {
		return at(n, "<< takes an object, as in <<: *name")
	}
	for _, p := range m.members {
		if *y.left -= mergeCost; *y.left < 0 {
			return errTooMuch
		}
		if l.of(p.name) != nil {
			continue
		}
		if err := l.add(p.name, l.line, p.leaf); err != nil {
			return err
		}
	}
	return nil
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
	jsonNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	octalOrNot  = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
)

// scalar is a text, a number, true, false or null. Numbers keep all their digits.
func scalar(n ast.Node) (*leaf, error) {
	t := n.GetToken()
	number := func(text string) (*leaf, error) {
		return &leaf{line: line(n), kind: 's', raw: json.RawMessage(text)}, nil
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return number("null")
	case *ast.BoolNode:
		return number(strconv.FormatBool(n.Value))
	case *ast.LiteralNode:
		return textLeaf(line(n), n.Value.Value), nil
	case *ast.IntegerNode:
		return integer(n, t.Value)
	case *ast.FloatNode:
		if jsonNumber.MatchString(t.Value) {
			return number(t.Value)
		}
		return number(strconv.FormatFloat(n.Value, 'g', -1, 64))
	case *ast.InfinityNode, *ast.NanNode:
		return nil, at(n, "%s is no number that JSON has", t.Value)
	case *ast.StringNode:
		switch plain := t.Type == token.StringType; {
		case plain && wholeNumber.MatchString(t.Value):
			return integer(n, t.Value)
		case plain && jsonNumber.MatchString(t.Value):
			return number(t.Value)
		}
		return textLeaf(line(n), n.Value), nil
	}
	return nil, at(n, "%.40q is nothing that JSON has", t.Value)
}

// integer is a whole number, however long.
func integer(n ast.Node, text string) (*leaf, error) {
	if octalOrNot.MatchString(text) {
		return nil, at(n, "%.40s is octal for some and decimal for others: write it without the 0 in front, as 0o17, or in quotes", text)
	}
	v, ok := new(big.Int).SetString(strings.TrimPrefix(text, "+"), 0)
	if !ok {
		return nil, at(n, "%.40s cannot be read as a number", text)
	}
	return &leaf{line: line(n), kind: 's', raw: json.RawMessage(v.String())}, nil
}

// textLeaf is a text.
func textLeaf(line int, s string) *leaf {
	return &leaf{line: line, kind: 's', raw: rawjson.AppendString(nil, s)}
}
