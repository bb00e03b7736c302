package rawjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// TimeFormat is how every instant is written: RFC 3339 in UTC with milliseconds (contract §1.6).
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Writer is JSON text that grows at its end, without reflection: it ends within an
// object or an array, or behind the name of a member. Names that it is given must need
// no escapes, but for [Writer.Quoted]. A comma is written where the byte before does not
// open an object or an array.
//
// A Writer is a slice: what appends to a slice appends to it. Nothing is allocated but
// the room for the text. The methods that write return the Writer, for what belongs
// together.
type Writer []byte

// Object opens an object at the end of dst.
func Object(dst []byte) Writer { return append(dst, '{') }

// Close ends the object, and is the text with it.
func (w *Writer) Close() []byte {
	*w = append(*w, '}')
	return *w
}

// comma is written before each member and element but the first.
func (w *Writer) comma() {
	if b := *w; b[len(b)-1] != '{' && b[len(b)-1] != '[' {
		*w = append(b, ',')
	}
}

// Key writes a name; the value must be appended next.
func (w *Writer) Key(name string) {
	w.comma()
	*w = append(append(append(*w, '"'), name...), '"', ':')
}

// Str writes a string.
func (w *Writer) Str(name, v string) *Writer {
	w.Key(name)
	*w = AppendString(*w, v)
	return w
}

// Optional writes a string, but for an empty one.
func (w *Writer) Optional(name, v string) *Writer {
	if v != "" {
		w.Str(name, v)
	}
	return w
}

// Int writes a number.
func (w *Writer) Int(name string, v int64) *Writer {
	w.Key(name)
	*w = strconv.AppendInt(*w, v, 10)
	return w
}

// Bool writes true or false.
func (w *Writer) Bool(name string, v bool) *Writer {
	w.Key(name)
	*w = strconv.AppendBool(*w, v)
	return w
}

// Time writes an instant in TimeFormat, but for a zero one.
func (w *Writer) Time(name string, t time.Time) *Writer {
	if t.IsZero() {
		return w
	}
	w.Key(name)
	*w = append(AppendTime(append(*w, '"'), t), '"')
	return w
}

// Raw writes a value as it stands, but for a nil one. It may be a part of w.
func (w *Writer) Raw(name string, v []byte) *Writer {
	if v == nil {
		return w
	}
	w.Key(name)
	*w = append(*w, v...)
	return w
}

// Null writes null.
func (w *Writer) Null(name string) *Writer {
	w.Key(name)
	*w = append(*w, "null"...)
	return w
}

// Quoted writes a value as it stands, under a name that may need escapes.
func (w *Writer) Quoted(name string, v json.RawMessage) *Writer {
	w.comma()
	*w = append(append(AppendString(*w, name), ':'), v...)
	return w
}

// Splice writes the members of another object as they stand; what is no object has none.
func (w *Writer) Splice(obj []byte) *Writer {
	if obj = bytes.TrimSpace(obj); len(obj) < 2 || obj[0] != '{' {
		return w
	}
	if members := bytes.TrimSpace(obj[1 : len(obj)-1]); len(members) > 0 {
		w.comma()
		*w = append(*w, members...)
	}
	return w
}

// Object opens an object within this one; [Writer.End] ends it.
func (w *Writer) Object(name string) *Writer {
	w.Key(name)
	*w = append(*w, '{')
	return w
}

// Begin opens an object that is an element of an array; [Writer.End] ends it.
func (w *Writer) Begin() *Writer {
	w.comma()
	*w = append(*w, '{')
	return w
}

// End ends an object within another or in an array.
func (w *Writer) End() *Writer {
	*w = append(*w, '}')
	return w
}

// Reopen takes back the brace that ends an object, which may then get more members.
func (w *Writer) Reopen() *Writer {
	*w = (*w)[:len(*w)-1]
	return w
}

// Array opens an array; [Writer.EndArray] ends it.
func (w *Writer) Array(name string) *Writer {
	w.Key(name)
	*w = append(*w, '[')
	return w
}

// EndArray ends an array.
func (w *Writer) EndArray() *Writer {
	*w = append(*w, ']')
	return w
}

// Element must be called before each element of an array, which must be appended next.
func (w *Writer) Element() { w.comma() }

// Strings writes an array of strings.
func Strings[S ~string](w *Writer, name string, vs []S) {
	w.Array(name)
	for _, v := range vs {
		w.Element()
		*w = AppendString(*w, string(v))
	}
	w.EndArray()
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !plain[c] || c >= utf8.RuneSelf {
			q, _ := json.Marshal(s) // a string always marshals
			return append(dst, q...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// AppendTime is AppendFormat with TimeFormat, without reading the format each time.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, TimeFormat)
	}
	hour, minute, second := t.Clock()
	dst = two(two(dst, year/100), year%100)
	dst = two(append(dst, '-'), int(month))
	dst = two(append(dst, '-'), day)
	dst = two(append(dst, 'T'), hour)
	dst = two(append(dst, ':'), minute)
	dst = two(append(dst, ':'), second)
	ms := t.Nanosecond() / 1e6
	dst = append(dst, '.', byte('0'+ms/100))
	return append(two(dst, ms%100), 'Z')
}

// two appends two digits.
func two(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
