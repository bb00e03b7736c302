package wording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// BadJSON says what is wrong with the JSON of a file, and where: the line, and
// under it a mark. It is nil for JSON.
func BadJSON(name string, raw []byte) error {
	var v json.RawMessage
	var wrong *json.SyntaxError
	if !errors.As(json.Unmarshal(raw, &v), &wrong) {
		return nil
	}
	at := int(max(wrong.Offset-1, 0)) // Offset is behind the byte that is wrong
	if strings.HasPrefix(wrong.Error(), "unexpected end") {
		at = len(bytes.TrimRight(raw, " \t\r\n"))
	}
	line, column, text, mark := place(raw, at)
	return fmt.Errorf("%s is not valid JSON, line %d, column %d: %w\n  %s\n  %s^", name, line, column, wrong, text, strings.Repeat(" ", mark))
}

// around is how many characters are shown on either side of a mistake.
const around = 60

// place is the line and the column of byte at, counted from 1, the text around
// it in that line, and how far into the text it is.
func place(raw []byte, at int) (line, column int, text string, mark int) {
	line = 1 + bytes.Count(raw[:at], []byte("\n"))
	start := bytes.LastIndexByte(raw[:at], '\n') + 1
	rest, _, _ := bytes.Cut(raw[at:], []byte("\n"))
	before, after := []rune(string(raw[start:at])), []rune(string(rest))
	column = 1 + len(before)
	left := Printable(string(before[max(0, len(before)-around):]))
	right := Printable(string(after[:min(around, len(after))]))
	return line, column, left + right, len([]rune(left))
}
