package cronsched

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// maxText is how long an expression may be, in bytes.
const maxText = 256

// expression is what stands in a text, checked item by item.
type expression struct {
	zone   string // behind CRON_TZ= or TZ=
	zoneAt int
	start  int           // where the expression begins, behind the zone
	every  time.Duration // of @every
	count  int           // how many fields were given: 5 or 6
	fields [6]field
}

// reader reads one text. When it is quiet it makes no suggestions: it is then
// trying out one.
type reader struct {
	text  string
	quiet bool
}

// word is a part of the text without blanks.
type word struct {
	offset int
	text   string
}

func (w word) end() int { return w.offset + len(w.text) }

// fault is about the n bytes from at.
func (r *reader) fault(at, n int, format string, args ...any) *Fault {
	return &Fault{Field: ofExpression, Text: r.text, Position: at, Length: max(1, n), Problem: fmt.Sprintf(format, args...)}
}

// wrong is a fault about a whole word.
func (r *reader) wrong(w word, format string, args ...any) *Fault {
	return r.fault(w.offset, len(w.text), format, args...)
}

// suggest gives f a text that is right, if it is; hint says what it means.
func (r *reader) suggest(f *Fault, text, hint string) *Fault {
	if r.quiet || f.Suggestion != "" {
		return f
	}
	text = strings.Join(strings.Fields(text), " ") // it is shown as it is
	try := &reader{text: text, quiet: true}
	if _, wrong := try.compile(); wrong == nil {
		f.Suggestion, f.Hint = text, hint
	}
	return f
}

// instead suggests the text with something else in place of the n bytes from at.
func (r *reader) instead(f *Fault, at, n int, by, hint string) *Fault {
	return r.suggest(f, r.text[:at]+by+r.text[at+n:], hint)
}

// mend suggests something else in place of what is wrong.
func (r *reader) mend(f *Fault, by, hint string) *Fault {
	return r.instead(f, f.Position, f.Length, by, hint)
}

// read checks the whole text.
func (r *reader) read() (*expression, *Fault) {
	if len(r.text) > maxText {
		return nil, r.fault(maxText, len(r.text)-maxText, "is %d bytes long, more than the %d that it may have", len(r.text), maxText)
	}
	if f := r.characters(); f != nil {
		return nil, f
	}
	e := &expression{}
	words := split(r.text)
	if len(words) > 0 {
		words = r.takeZone(e, words)
	}
	switch {
	case len(words) == 0 && e.zoneAt > 0:
		f := r.fault(len(r.text), 1, "names a time zone and nothing to do in it")
		f.Hint = "an expression such as 0 3 * * * comes after the zone"
		return nil, f
	case len(words) == 0:
		f := r.fault(0, 1, "is empty")
		f.Hint = "0 3 * * * is every day at 03:00, */5 * * * * every five minutes"
		return nil, f
	case words[0].text[0] == '@':
		return e, r.macro(e, words)
	}
	if f := r.foreign(words); f != nil {
		return nil, f
	}
	if len(words) != 5 && len(words) != 6 {
		return nil, r.miscounted(words)
	}
	e.count = len(words)
	if e.count == 5 {
		e.fields[second] = field{items: []item{{kind: value, step: 1}}} // at the full minute
	}
	for i, w := range words {
		u := unit(i + 6 - e.count)
		if f := r.field(&e.fields[u], u, w, words); f != nil {
			return nil, r.withoutCommand(f, words)
		}
	}
	return e, nil
}

// lookalikes are what word processors put in place of what was typed.
var lookalikes = map[rune]string{
	'\u00a0': " ", '\u2003': " ", '\u2009': " ", '\u200b': "", '\ufeff': "",
	'–': "-", '—': "-", '−': "-", '‐': "-", '∗': "*", '＊': "*", '×': "*", '⁄': "/", '，': ",",
	'“': "", '”': "", '‘': "", '’': "", '\n': " ", '\r': " ",
}

// characters refuses all that is not printable ASCII or a tab.
func (r *reader) characters() *Fault {
	body := strings.TrimRight(r.text, " \t\r\n")
	for i, c := range body {
		if c >= ' ' && c <= '~' || c == '\t' {
			continue
		}
		n := 1
		for n < len(body)-i && body[i+n]&0xc0 == 0x80 && c != 0xfffd {
			n++
		}
		f := r.fault(i, n, "has a character that no expression has: %s (%U)", wording.Printable(body[i:i+n]), c)
		if c == '\n' || c == '\r' {
			f.Hint = "an expression is one line"
		}
		if c == 0xfffd && n == 1 {
			f.Problem = fmt.Sprintf("is not UTF-8: byte %#02x", body[i])
		}
		clean := strings.Map(func(c rune) rune {
			if by, ok := lookalikes[c]; ok && by == "" {
				return -1
			} else if ok {
				return rune(by[0])
			}
			return c
		}, body)
		return r.suggest(f, clean, "with plain characters")
	}
	return nil
}

// wordPattern finds what stands between blanks.
var wordPattern = regexp.MustCompile(`[^ \t\r\n]+`)

func split(text string) (words []word) {
	for _, at := range wordPattern.FindAllStringIndex(text, -1) {
		words = append(words, word{at[0], text[at[0]:at[1]]})
	}
	return words
}

// takeZone takes the zone off the front.
func (r *reader) takeZone(e *expression, words []word) []word {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if zone, ok := strings.CutPrefix(words[0].text, prefix); ok {
			e.zone, e.zoneAt = zone, words[0].offset+len(prefix)
			e.start = words[0].end()
			return words[1:]
		}
	}
	e.start = words[0].offset
	return words
}

// miscounted is the fault of a number of fields that is neither 5 nor 6.
func (r *reader) miscounted(words []word) *Fault {
	const must = "must have 5 (minute hour day-of-month month day-of-week), or 6 with the second first"
	last := words[len(words)-1]
	if len(words) < 5 {
		f := r.fault(last.end(), 1, "has %s; it %s", fields(len(words)), must)
		if len(words) == 4 {
			r.suggest(f, r.text[:last.end()]+" *", "with a day of the week")
		}
		return f
	}
	extra := words[6]
	f := r.fault(extra.offset, last.end()-extra.offset, "has %s; it %s", fields(len(words)), must)
	if len(words) == 7 {
		days := strings.ContainsAny(words[5].text, "0123456789")
		switch {
		case extra.text != "*" && extra.text != "?" && len(extra.text) >= 4 && extra.text[0] >= '1':
			f.Hint = "a year, as Quartz has it in the seventh field, is not supported"
		case days:
			f.Hint = "Quartz counts the days of the week from 1 = SUN, here 0 and 7 are SUN and 1 is MON; and there is no year"
		default:
			r.suggest(f, r.text[:words[5].end()], "without the year of Quartz")
		}
	}
	return r.withoutCommand(f, words)
}

func fields(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

// withoutCommand suggests the five fields in front of what is the command of a
// line of a crontab.
func (r *reader) withoutCommand(f *Fault, words []word) *Fault {
	if len(words) > 5 && strings.ContainsAny(words[5].text, "/.abcdefghijklmnopqrstuvwxyz_") && words[5].text[0] != '*' {
		return r.suggest(f, r.text[:words[4].end()], "without the command of a crontab's line")
	}
	return f
}
