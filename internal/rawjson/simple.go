package rawjson

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/gowebpki/jcs"
	"golang.org/x/text/unicode/norm"
)

// sorter writes the canonical form of JSON in which nothing is odd, which is nearly
// all there is, in one pass: names are ASCII, come once and have no escapes, strings
// have none either and are in NFC, and float64 keeps the digits of the numbers. It
// gives up on the rest.
type sorter struct {
	raw, out []byte
	members  []placed // of the objects that are being written
	scratch  []byte
}

// placed is a member of an object: where it is in out, and its name.
type placed struct {
	name string
	span
}

// simple is the canonical form of valid JSON, or false where the tidier must see it.
func simple(raw []byte) ([]byte, bool) {
	s := sorter{raw: raw, out: make([]byte, 0, len(raw))}
	i := s.value(skipSpace(raw, 0))
	return s.out, i >= 0
}

// value writes the value that starts at i and returns the index behind it, -1 to give up.
func (s *sorter) value(i int) int {
	switch s.raw[i] {
	case '{':
		return s.object(i)
	case '[':
		return s.array(i)
	}
	end := skipValue(s.raw, i)
	v := s.raw[i:end]
	switch c := v[0]; {
	case c == '"':
		if bytes.IndexByte(v, '\\') >= 0 || !norm.NFC.IsNormal(v) {
			return -1
		}
	case c != '-' && (c < '0' || c > '9'): // true, false, null
	case len(v) < 16 && v[0] != '-' && bytes.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' }) < 0: // as it is
	default:
		return s.number(v, end)
	}
	s.out = append(s.out, v...)
	return end
}

func (s *sorter) number(v []byte, end int) int {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || exact(v) != nil {
		return -1
	}
	text, err := jcs.NumberToJSON(f)
	if err != nil {
		return -1
	}
	s.out = append(s.out, text...)
	return end
}

func (s *sorter) array(i int) int {
	s.out = append(s.out, '[')
	for i = skipSpace(s.raw, i+1); s.raw[i] != ']'; {
		if i = s.value(i); i < 0 {
			return -1
		}
		if i = skipSpace(s.raw, i); s.raw[i] == ',' {
			s.out = append(s.out, ',')
			i = skipSpace(s.raw, i+1)
		}
	}
	s.out = append(s.out, ']')
	return i + 1
}

func (s *sorter) object(i int) int {
	s.out = append(s.out, '{')
	first, body := len(s.members), len(s.out)
	for i = skipSpace(s.raw, i+1); s.raw[i] != '}'; {
		end := skipValue(s.raw, i)
		name := s.raw[i:end]
		if bytes.IndexFunc(name, func(r rune) bool { return r == '\\' || r > 0x7f }) >= 0 {
			return -1
		}
		start := len(s.out)
		s.out = append(append(s.out, name...), ':')
		if i = s.value(skipSpace(s.raw, skipSpace(s.raw, end)+1)); i < 0 {
			return -1
		}
		// Without its quotation marks: some characters come before them.
		s.members = append(s.members, placed{string(name[1 : len(name)-1]), span{start, len(s.out)}})
		if i = skipSpace(s.raw, i); s.raw[i] == ',' {
			s.out = append(s.out, ',')
			i = skipSpace(s.raw, i+1)
		}
	}
	mine := s.members[first:]
	if !slices.IsSortedFunc(mine, byName) {
		s.sort(mine, body)
	}
	for k := 1; k < len(mine); k++ {
		if mine[k].name == mine[k-1].name {
			return -1 // the last one counts
		}
	}
	s.members = s.members[:first]
	s.out = append(s.out, '}')
	return i + 1
}

// sort brings the members that stand in out from body on into their order.
func (s *sorter) sort(mine []placed, body int) {
	slices.SortFunc(mine, byName)
	s.scratch = append(s.scratch[:0], s.out[body:]...)
	s.out = s.out[:body]
	for k, m := range mine {
		if k > 0 {
			s.out = append(s.out, ',')
		}
		s.out = append(s.out, s.scratch[m.start-body:m.end-body]...)
	}
}

func byName(a, b placed) int { return cmp.Compare(a.name, b.name) }
