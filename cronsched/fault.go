package cronsched

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// The two things that [Parse] is given, by the names that the wire has for them.
const (
	ofExpression = "expression"
	ofZone       = "timezone"
)

// Fault says what is wrong with an expression or a time zone, and where. It is
// the cause of every error of [Parse], which is a *job.Error of kind Invalid.
type Fault struct {
	Field      string // "expression" or "timezone"
	Text       string // what was given
	Position   int    // where the fault begins, in bytes from 0
	Length     int    // how many bytes it has; at least 1, also behind the end
	Problem    string
	Suggestion string // what to give in place of Text, if that is obvious
	Hint       string // what else a person should know
}

// Error is the fault in one line.
func (f *Fault) Error() string { return "cron " + f.Field + ": " + f.Problem }

// shown is how many characters of a long text are shown on either side of a fault.
const shown = 60

// Excerpt is the text in one line, and in the next a mark under the fault.
func (f *Fault) Excerpt() string {
	at := min(f.Position, len(f.Text))
	end := min(at+f.Length, len(f.Text))
	before, fault, after := []rune(wording.Printable(f.Text[:at])), []rune(wording.Printable(f.Text[at:end])), []rune(wording.Printable(f.Text[end:]))
	if len(before) > shown {
		before = append([]rune("…"), before[len(before)-shown:]...)
	}
	if len(fault) > shown {
		fault = append(fault[:shown:shown], '…')
	}
	if len(after) > shown {
		after = append(after[:shown:shown], '…')
	}
	line := string(before) + string(fault) + string(after)
	return line + "\n" + strings.Repeat(" ", len(before)) + strings.Repeat("^", max(1, len(fault))) + " here"
}

// Help is what to do about it, or empty.
func (f *Fault) Help() string {
	switch {
	case f.Suggestion == "":
		return f.Hint
	case f.Hint == "":
		return "did you mean `" + f.Suggestion + "`?"
	}
	return "did you mean `" + f.Suggestion + "` (" + f.Hint + ")?"
}

// Report is the fault in several lines, for a terminal: the error, the excerpt
// and the help.
func (f *Fault) Report() string {
	s := f.Error()
	if f.Text != "" {
		s += "\n  " + strings.ReplaceAll(f.Excerpt(), "\n", "\n  ")
	}
	if help := f.Help(); help != "" {
		s += "\n  help: " + help
	}
	return s
}

// asError is f as callers of the package see it.
func (f *Fault) asError() error {
	e := &job.Error{Kind: job.Invalid, Message: f.Error(), Err: f,
		Details: map[string]any{"field": f.Field, "position": f.Position, "length": f.Length}}
	if f.Suggestion != "" {
		e.Details["suggestion"] = f.Suggestion
	}
	if f.Hint != "" {
		e.Details["hint"] = f.Hint
	}
	return e
}

// inRange suggests what is most often meant by a value that is out of range.
func (r *reader) inRange(f *Fault, u unit, w word) *Fault {
	n, ok := number(w.text)
	if !ok {
		return f
	}
	top := units[u].max
	ranged := w.offset > 0 && r.text[w.offset-1] == '-' // it ends a range
	alone := !ranged && (w.offset+len(w.text) == len(r.text) || r.text[w.offset+len(w.text)] != '-')
	switch {
	case ranged && (u <= hour && n == top+1 || u > hour && n > top):
		return r.mend(f, strconv.Itoa(top), "to the field's end")
	case alone && u <= hour && n == top+1:
		return r.mend(f, "0", map[unit]string{second: "at the full minute", minute: "at the full hour", hour: "midnight"}[u])
	case alone && u == day && n > 31 && strings.HasPrefix(strings.ToUpper(r.text[w.end():]), "W"):
		return r.mend(f, "L", "last day of the month from Monday to Friday")
	case alone && u == day && n > 31:
		return r.mend(f, "L", "last day of the month")
	case alone && (u == day || u == month) && n == 0:
		return r.mend(f, "1", map[unit]string{day: "first day of the month", month: "January"}[u])
	}
	return f
}

// noNumber is the fault of a word that is no value of its field.
func (r *reader) noNumber(u unit, w word, words []word) *Fault {
	what := "number"
	if units[u].names != nil {
		what = fmt.Sprintf("number or name (%s-%s)", units[u].names[0], units[u].names[len(units[u].names)-1])
	}
	f := r.wrong(w, "%s %s is no %s", u, w.text, what)
	upper := strings.ToUpper(w.text)
	if name := longName(u, upper); name != "" {
		whole := words[int(u)-6+len(words)]
		short := letters.ReplaceAllStringFunc(whole.text, func(s string) string {
			if name := longName(u, strings.ToUpper(s)); name != "" && len(s) > 3 {
				return name
			}
			return s
		})
		return r.instead(f, whole.offset, len(whole.text), short, "names have three letters")
	}
	if digits, ok := strings.CutPrefix(w.text, "*"); ok && len(digits) > 0 {
		r.instead(f, w.offset, 1, "*/", "with a step")
	}
	for _, other := range []unit{month, weekday} {
		if other != u && longName(other, upper) != "" {
			f.Problem = fmt.Sprintf("%s %s: it belongs in %s", u, w.text, other)
			whole := words[int(u)-6+len(words)]
			return r.move(f, u, other, whole, words)
		}
	}
	if upper == "H" {
		f.Hint = "H, a minute chosen from the name as Jenkins does, is not supported; write a number"
		return f
	}
	for _, name := range units[u].names {
		if len(upper) == 3 && (wording.Distance(upper, name) == 1 || anagram(upper, name)) {
			return r.mend(f, name, "")
		}
	}
	return f
}

// fullNames are the names of months and days in full.
var fullNames = map[unit]string{
	month:   "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
	weekday: "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY",
}

// longName is the name of three letters for a beginning of the name in full, or
// for its plural, or empty.
func longName(u unit, word string) string {
	word = strings.TrimSuffix(word, ".")
	if len(word) < 3 {
		return ""
	}
	for _, full := range strings.Fields(fullNames[u]) {
		if strings.HasPrefix(full, word) || word == full+"S" {
			return full[:3]
		}
	}
	return ""
}

func anagram(a, b string) bool {
	sorted := func(s string) []string { return slices.Sorted(strings.SplitSeq(s, "")) }
	return slices.Equal(sorted(a), sorted(b))
}

var (
	letters = regexp.MustCompile(`[A-Za-z]+\.?`)
	awsCron = regexp.MustCompile(`(?i)^cron\((.*)\)$`)
	awsRate = regexp.MustCompile(`(?i)^rate\( *([0-9]{1,6}) *(minute|hour|day)s? *\)$`)
	tooLong = regexp.MustCompile(`^([0-9]{1,4})(m|min|mins|minute|minutes|h|hr|hour|hours|s|sec|secs|second|seconds|d|day|days|w|week|weeks)$`)
)

// foreign is the fault of an expression that is quoted, or written as AWS does.
func (r *reader) foreign(words []word) *Fault {
	text := strings.TrimSpace(r.text)
	at, last := words[0].offset, words[len(words)-1].end()
	if m := awsCron.FindStringSubmatch(text); m != nil {
		f := r.fault(at, last-at, "is the form of AWS; here stand the five fields alone")
		inner := strings.Fields(m[1])
		if len(inner) != 6 {
			return f
		}
		if inner[5] != "*" || strings.ContainsAny(inner[4], "0123456789") {
			f.Hint = "there is no year here, and days of the week count from 0 = SUN, not from 1"
			return f
		}
		return r.suggest(f, strings.Join(inner[:5], " "), "without the year")
	}
	if m := awsRate.FindStringSubmatch(text); m != nil {
		f := r.fault(at, last-at, "is the form of AWS for a period")
		return r.suggest(f, "@every "+period(m[1], strings.ToLower(m[2])), "as Go writes it")
	}
	if q := text[0]; (q == '"' || q == '\'' || q == '`') && text[len(text)-1] == q && len(text) > 1 {
		return r.suggest(r.fault(at, 1, "begins with a quote"), text[1:len(text)-1], "without the quotes")
	}
	if slices.Contains(macros, "@"+strings.ToLower(text)) {
		return r.suggest(r.fault(at, last-at, "is a macro without its @"), "@"+strings.ToLower(text), "")
	}
	return nil
}

// period is n of a unit as Go writes it.
func period(n, unit string) string {
	hours, _ := strconv.Atoi(n)
	switch unit[0] {
	case 'd':
		return strconv.Itoa(24*hours) + "h"
	case 'w':
		return strconv.Itoa(7*24*hours) + "h"
	}
	return n + unit[:1]
}
