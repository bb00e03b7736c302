package handwork

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/job"
)

// How much is kept of what a command prints, or a server answers.
const (
	maxResult = 64 << 10 // bytes of standard output, or of the body of a good answer
	maxTail   = 4 << 10  // bytes of the end of standard error, or of the start of a bad answer
	maxReason = 300      // bytes of it in the message of an error
)

// head keeps the first bytes that are written to it, and counts the rest.
type head struct {
	limit int
	kept  []byte
	size  int64
}

// Write never fails.
func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	h.size += int64(len(p))
	return len(p), nil
}

// result is what is stored as the result of a job: nothing, the JSON that was printed, or
// a JSON string of what was.
func (h *head) result() json.RawMessage {
	if h.size > int64(len(h.kept)) {
		return quote(fmt.Sprintf("%s… (cut by the worker: %d bytes)", legible(h.kept), h.size))
	}
	trimmed := bytes.TrimSpace(h.kept)
	if len(trimmed) == 0 {
		return nil
	}
	if job.CheckJSON(trimmed) == nil {
		return bytes.Clone(trimmed)
	}
	return quote(legible(bytes.TrimRight(h.kept, "\r\n")))
}

// tail keeps the last bytes that are written to it.
type tail struct {
	kept []byte
	size int64
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.size += int64(len(p))
	t.kept = append(t.kept, p[max(0, len(p)-maxTail):]...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// text is what was kept. The beginning of a character that was cut is left out.
func (t *tail) text() string {
	kept := t.kept
	for n := 0; t.size > int64(len(t.kept)) && n < utf8.UTFMax && len(kept) > 0 && !utf8.RuneStart(kept[0]); n++ {
		kept = kept[1:]
	}
	return strings.TrimRight(legible(kept), "\r\n")
}

// lastLine is the last line of a text that says something, for a message.
func lastLine(text string) string {
	text = strings.TrimRightFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return Plain(text[strings.LastIndexByte(text, '\n')+1:], maxReason)
}

// firstLine is the first line of a text that says something, for a message.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimLeftFunc(text, unicode.IsSpace), "\n")
	return Plain(line, maxReason)
}

// legible is text in UTF-8, with U+FFFD for every byte that is none.
func legible(b []byte) string {
	return string([]rune(string(b)))
}

// Plain is a text on one line, without what a terminal would obey, and of at most so many
// bytes.
func Plain(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if s = strings.TrimSpace(s); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}

// quote is a JSON string.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always JSON
	return bytes.TrimSpace(b.Bytes())
}
