package main

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// Bounds of a file that cost the parser more than its length says.
const (
	maxDeep  = 100  // lists and objects in one line, within each other
	maxWide  = 1000 // members of one object
	maxSpent = 4 * maxCronFile

	mergeCost = 64 // bytes that a member taken by << counts for, as it is compared with others
)

// level is an object around a token. One in braces counts as further right than
// any without, and the deeper the further.
type level struct{ column, members int }

const inBraces = 1 << 20

// shape is what is open around a token.
type shape struct {
	open   []level
	flow   int // brackets and braces
	nested int // marks in the same line that open a list or an object, or stand before a value
	line   int
}

// checkShape refuses a text on which the parser would spend too much: it calls
// itself for every level, and looks at all members of an object for each of them.
func checkShape(name string, tokens token.Tokens) error {
	var s shape
	for i, t := range tokens {
		if t.Position.Line != s.line {
			s.line, s.nested = t.Position.Line, 0
		}
		switch column := t.Position.Column; t.Type {
		case token.SequenceStartType, token.MappingStartType:
			s.flow++
			s.within(inBraces + s.flow - 1)
		case token.SequenceEndType, token.MappingEndType:
			s.flow = max(0, s.flow-1)
		case token.SequenceEntryType:
			s.nested++
			if s.flow == 0 {
				s.within(column)
			}
		case token.MappingKeyType, token.AnchorType, token.TagType:
			s.nested++
		case token.MappingValueType:
			if i > 0 {
				column = tokens[i-1].Position.Column
			}
			if s.flow > 0 {
				column = inBraces + s.flow
			}
			if s.member(column) > maxWide {
				return fmt.Errorf("%s:%d: an object has more than %d members", name, s.line, maxWide)
			}
		}
		if s.flow > maxDeep || s.nested > maxDeep {
			return fmt.Errorf("%s:%d: lists and objects are more than %d deep", name, s.line, maxDeep)
		}
	}
	return nil
}

// within closes the objects that are further right than a column.
func (s *shape) within(column int) {
	for len(s.open) > 0 && s.open[len(s.open)-1].column > column {
		s.open = s.open[:len(s.open)-1]
	}
}

// member counts a member of the object at a column.
func (s *shape) member(column int) int {
	s.within(column)
	if len(s.open) == 0 || s.open[len(s.open)-1].column < column {
		s.open = append(s.open, level{column: column})
	}
	last := &s.open[len(s.open)-1]
	last.members++
	return last.members
}
