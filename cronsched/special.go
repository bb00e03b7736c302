package cronsched

import (
	"fmt"
	"slices"
	"strings"
)

// special reads what only days have: L, LW, 15W, 5L and 1#2. ok is false when
// the item is none of these.
func (r *reader) special(u unit, w word, words []word) (it item, ok bool, f *Fault) {
	it = item{word: w, step: 1}
	text := strings.ToUpper(w.text)
	if strings.Contains(text, "#") {
		return r.nth(u, it, words)
	}
	head, tail := text[:len(text)-1], text[len(text)-1]
	switch {
	case text == "L" && u == day:
		it.kind = lastDay
	case text == "LW" && u == day:
		it.kind = lastWorkday
	case text == "L" && u == weekday:
		f = r.mend(r.fault(w.offset, 1, "day-of-week L names no day"), "SAT", "each Saturday; the month's last one is 6L")
	case strings.HasPrefix(text, "L-") && u == day:
		f = r.wrong(w, "day-of-month %s counts back from the month's end, which is not supported", w.text)
		f.Hint = "L is the last day, LW the last from Monday to Friday"
	case tail == 'W' && u == day && digits(head):
		it.kind = workday
		it.lo, f = r.number(day, word{w.offset, w.text[:len(head)]}, words)
	case tail == 'L' && u == weekday && (digits(head) || slices.Contains(units[weekday].names, head)):
		it.kind = lastOf
		it.lo, f = r.number(weekday, word{w.offset, w.text[:len(head)]}, words)
		it.lo %= 7
	case text == "L" || text == "LW" || (tail == 'L' || tail == 'W') && (digits(head) || slices.Contains(units[weekday].names, head)):
		f = r.misplaced(u, w, words)
	default:
		return it, false, nil
	}
	return it, f == nil, f
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// nth reads lo#n.
func (r *reader) nth(u unit, it item, words []word) (item, bool, *Fault) {
	if u != weekday {
		return it, false, r.misplaced(u, it.word, words)
	}
	name, n, _ := strings.Cut(it.text, "#")
	it.kind = nthOf
	var f *Fault
	if name == "" {
		return it, false, r.fault(it.offset, 1, "day-of-week %s names no day before the #", it.text)
	}
	if it.lo, f = r.number(weekday, word{it.offset, name}, words); f != nil {
		return it, false, f
	}
	it.lo %= 7
	if len(n) == 1 && n[0] >= '1' && n[0] <= '5' {
		it.n = int(n[0] - '0')
		return it, true, nil
	}
	at := it.offset + len(name) + 1
	if n == "" {
		return it, false, r.fault(at-1, 1, "day-of-week %s does not say which one of the month", it.text)
	}
	f = r.fault(at, len(n), "day-of-week %s: a month has the 1st to the 5th of a day, not %s", it.text, n)
	if strings.EqualFold(n, "L") || n == "6" {
		r.instead(f, at-1, len(n)+1, "L", "the last one of the month")
	}
	return it, false, f
}

// misplaced is the fault of L, W or # in a field that has no such thing.
func (r *reader) misplaced(u unit, w word, words []word) *Fault {
	text := strings.ToUpper(w.text)
	belongs := weekday
	if strings.HasSuffix(text, "W") || text == "L" {
		belongs = day
	}
	f := r.wrong(w, "%s %s: it belongs in %s", u, w.text, belongs)
	if u == day && strings.HasSuffix(text, "L") {
		f.Problem = fmt.Sprintf("day-of-month %s: the last such day of a month belongs in day-of-week", w.text)
	}
	return r.move(f, u, belongs, w, words)
}

// move suggests to put a field's only item where it belongs, and what stands
// there, which is no more than *, in its place.
func (r *reader) move(f *Fault, from, to unit, w word, words []word) *Fault {
	shift := 6 - len(words)
	i, j := int(from)-shift, int(to)-shift
	if len(words) < 5 || len(words) > 6 || i < 0 || j < 0 || words[i].text != w.text {
		return f
	}
	swapped := make([]string, len(words))
	for k, w := range words {
		swapped[k] = w.text
	}
	hint := "with the two exchanged"
	if from < day && (swapped[j] == "*" || swapped[j] == "?") {
		return f // what the time of day should be is anybody's guess
	}
	swapped[i], swapped[j] = swapped[j], swapped[i]
	if t := swapped[i]; t == "*" || t == "?" {
		hint = "in " + to.String()
	}
	return r.suggest(f, r.text[:words[0].offset]+strings.Join(swapped, " "), hint)
}
