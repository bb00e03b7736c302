package cronfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
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

// readYAML takes the members of a file in YAML.
func (f *File) readYAML(raw []byte) error {
	body, err := parse(f.Name, raw)
	if err != nil {
		quoted := quoteExpressions(raw)
		again, failed := parse(f.Name, quoted)
		if bytes.Equal(raw, quoted) || failed != nil {
			return err
		}
		body = again
	}
	top, ok := body.(*ast.MappingNode)
	if !ok {
		return f.noCrons()
	}
	d := newDecoder()
	found := false
	for _, m := range top.Values {
		list, isList := m.Value.(*ast.SequenceNode)
		switch isCrons, err := f.member(m.Key.GetToken().Value, m.Key.GetToken().Position.Line, isList); {
		case err != nil:
			return err
		case !isCrons:
			_, _ = d.value(m.Value) // for its anchors; an entry that needs one that is wrong will miss it
			continue
		}
		found = true
		for _, n := range list.Values {
			f.takeYAML(d, n)
		}
	}
	if !found {
		return f.noCrons()
	}
	return nil
}

// takeYAML reads an entry from its node, and adds it to the file.
func (f *File) takeYAML(d *decoder, n ast.Node) {
	e := &Entry{Line: lineOf(n)}
	if s, ok := find(n, "name").(*ast.StringNode); ok {
		e.Name = s.Value
	}
	v, err := d.value(n)
	f.take(e, func(path ...string) int {
		if len(path) == 0 {
			return e.Line
		}
		if v := find(n, path...); v != nil {
			return lineOf(v)
		}
		return 0
	}, v, err)
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
	members := make(map[int]int) // of the objects that are open, by their columns; of those in braces, by -flow
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
			delete(members, -flow)
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			marks++
			close(t.Position.Column)
		case token.MappingValueType:
			object := -flow
			if flow == 0 && i > 0 {
				object = tokens[i-1].Position.Column
				close(object)
			}
			if members[object]++; members[object] > maxWide {
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
