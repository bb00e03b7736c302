package cronsched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unit is a field by its place among six.
type unit int

const (
	second unit = iota
	minute
	hour
	day
	month
	weekday
)

// units are what fields count. A weekday goes to 7, which is Sunday as 0 is.
var units = [6]struct {
	name     string
	of       string // what begins anew when the field does
	min, max int
	names    []string // of min, min+1, …
}{
	{"second", "minute", 0, 59, nil},
	{"minute", "hour", 0, 59, nil},
	{"hour", "day", 0, 23, nil},
	{"day-of-month", "month", 1, 31, nil},
	{"month", "year", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"day-of-week", "week", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

func (u unit) String() string { return units[u].name }

// top is the last value that * reaches.
func (u unit) top() int {
	if u == weekday {
		return 6
	}
	return units[u].max
}

// kind is what an item stands for.
type kind int

const (
	value       kind = iota // lo
	span                    // lo to hi, in steps
	star                    // *, with a step or without: lo and hi are the field's
	lastDay                 // L
	lastWorkday             // LW
	workday                 // loW: the day from Monday to Friday nearest to lo
	lastOf                  // loL: the month's last such day of the week
	nthOf                   // lo#n
)

// item is one member of a list. step is 1 where none is given.
type item struct {
	word
	kind   kind
	lo, hi int
	step   int
	open   bool // a/n: from a to the field's end
	n      int  // of lo#n
}

// field is one list.
type field struct {
	word
	items []item
}

// field reads one list. words are all fields, for suggestions.
func (r *reader) field(into *field, u unit, w word, words []word) *Fault {
	into.word = w
	at := w.offset
	for text := range strings.SplitSeq(w.text, ",") {
		it, f := r.item(u, word{at, text}, words)
		if f != nil {
			return f
		}
		into.items = append(into.items, it)
		at += len(text) + 1
	}
	return nil
}

func (r *reader) item(u unit, w word, words []word) (item, *Fault) {
	it := item{word: w, step: 1}
	if w.text == "" {
		return it, r.emptyItem(u, w, words)
	}
	if it, ok, f := r.special(u, w, words); ok || f != nil {
		return it, f
	}
	base, step, stepped := strings.Cut(w.text, "/")
	if f := r.base(&it, u, word{w.offset, base}, words); f != nil {
		return it, f
	}
	if !stepped {
		return it, nil
	}
	if it.kind == value {
		if it.kind, it.hi, it.open = span, u.top(), true; it.lo > it.hi {
			f := r.fault(w.offset, len(base), "%s %s with a step would go past the end of the week", u, base)
			return it, r.mend(f, "0", "0 is SUN too")
		}
	}
	return it, r.step(&it, u, word{w.offset + len(base) + 1, step})
}

// emptyItem is the fault of two commas in a row, or of one at an end.
func (r *reader) emptyItem(u unit, w word, words []word) *Fault {
	at := min(w.offset, len(r.text)-1)
	if w.offset > words[0].offset && r.text[w.offset-1] == ',' {
		at = w.offset - 1 // at the comma
	}
	f := r.fault(at, 1, "%s has an empty item in its list", u)
	rest := r.text[at+1:]
	if joined := strings.TrimLeft(rest, " \t"); joined != rest {
		r.suggest(f, r.text[:at+1]+joined, "without the blank in the list")
	}
	return r.mend(f, "", "without the comma")
}

// base reads what stands before a step.
func (r *reader) base(it *item, u unit, w word, words []word) *Fault {
	if w.text == "*" || w.text == "?" {
		it.kind, it.lo, it.hi = star, units[u].min, u.top()
		return nil
	}
	if strings.HasPrefix(w.text, "-") {
		return r.mend(r.fault(w.offset, 1, "%s %s has a sign", u, w.text), "", "")
	}
	if w.text == "" {
		return r.instead(r.fault(w.offset, 1, "%s has a step without a range", u), w.offset, 0, "*", "")
	}
	from, to, ranged := strings.Cut(w.text, "-")
	var f *Fault
	if it.lo, f = r.number(u, word{w.offset, from}, words); f != nil {
		return r.wholeRange(f, u, w, from, to, ranged)
	}
	if !ranged {
		it.hi = it.lo
		return nil
	}
	it.kind = span
	if it.hi, f = r.number(u, word{w.offset + len(from) + 1, to}, words); f != nil {
		return f
	}
	if u == weekday && it.hi == 0 && it.lo > 0 && isName(to) {
		it.hi = 7 // FRI-SUN
	}
	if it.lo > it.hi {
		return r.reversed(it, u, w, from, to)
	}
	return nil
}

// wholeRange suggests a whole range in place of one whose beginning is wrong.
func (r *reader) wholeRange(f *Fault, u unit, w word, from, to string, ranged bool) *Fault {
	n, err := strconv.Atoi(from)
	if ranged && err == nil && n < units[u].min {
		r.instead(f, w.offset, len(w.text), fmt.Sprintf("%d-%s", units[u].min, to), "")
	}
	return f
}

func (r *reader) reversed(it *item, u unit, w word, from, to string) *Fault {
	f := r.wrong(w, "%s range %s runs backwards", u, w.text)
	if u == weekday && it.hi == 0 {
		return r.mend(f, from+"-7", "7 is SUN too")
	}
	if w.end() < len(r.text) && r.text[w.end()] == '/' {
		return f
	}
	first, last := strconv.Itoa(units[u].min), strconv.Itoa(u.top())
	if isName(from) {
		first, last = units[u].names[0], units[u].names[len(units[u].names)-1]
	}
	left, right := from+"-"+last, first+"-"+to
	if from == last {
		left = from
	}
	if to == first {
		right = to
	}
	return r.mend(f, left+","+right, "through the end of the "+units[u].of)
}

// step reads what stands after the slash.
func (r *reader) step(it *item, u unit, w word) *Fault {
	n, ok := number(w.text)
	count := it.hi - it.lo + 1
	switch {
	case w.text == "":
		return r.fault(w.offset-1, 1, "%s has a slash without a step", u)
	case strings.HasPrefix(w.text, "+") || strings.HasPrefix(w.text, "-"):
		return r.mend(r.fault(w.offset, 1, "%s step %s has a sign", u, w.text), "", "")
	case !ok:
		return r.wrong(w, "%s step %s is no whole number", u, w.text)
	case n == 0:
		return r.instead(r.wrong(w, "%s step 0 goes nowhere", u), w.offset-1, len(w.text)+1, "", "without a step")
	case n > count:
		f := r.wrong(w, "%s step %s is larger than its range %d-%d", u, w.text, it.lo, it.hi)
		if it.kind == star {
			if u <= hour && n <= 10_000 {
				f.Hint = fmt.Sprintf("a step begins anew with each %s; for a period of its own: @every %d%.1s", units[u].of, n, u)
			}
			return f
		}
		return r.instead(f, it.offset, it.end()-it.offset, strconv.Itoa(it.lo), "that value alone")
	}
	it.step = n
	return nil
}

// number reads a whole number without a sign.
func number(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && digits(s)
}

// number reads a value of a field: a number or a name.
func (r *reader) number(u unit, w word, words []word) (int, *Fault) {
	if w.text == "" {
		return 0, r.fault(w.offset-1, 1, "%s has a range with one end", u)
	}
	if i := slices.Index(units[u].names, strings.ToUpper(w.text)); i >= 0 {
		return units[u].min + i, nil
	}
	if w.text[0] == '+' || w.text[0] == '-' {
		return 0, r.mend(r.fault(w.offset, 1, "%s %s has a sign", u, w.text), "", "")
	}
	if !digits(w.text) {
		return 0, r.noNumber(u, w, words)
	}
	if n, ok := number(w.text); ok && n >= units[u].min && n <= units[u].max {
		return n, nil
	}
	f := r.wrong(w, "%s %s is out of range %d-%d", u, w.text, units[u].min, units[u].max)
	return 0, r.inRange(f, u, w)
}

func isName(s string) bool { return s != "" && (s[0] < '0' || s[0] > '9') }
