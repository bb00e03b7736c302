package cronsched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// macros are the names that stand for five fields, and the two that do not.
var macros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every"}

// plain are the five fields of a macro.
var plain = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// macro reads what begins with @.
func (r *reader) macro(e *expression, words []word) *Fault {
	name := words[0]
	if fields, ok := plain[name.text]; ok {
		if len(words) > 1 {
			at, end := words[1].offset, words[len(words)-1].end()
			f := r.fault(at, end-at, "%s stands alone", name.text)
			return r.suggest(f, r.text[:name.end()], "")
		}
		meant, f := (&reader{text: fields, quiet: true}).read()
		if f != nil {
			panic("cronsched: the macro " + name.text + " cannot be read")
		}
		e.count, e.fields = meant.count, meant.fields
		return nil
	}
	switch name.text {
	case "@every":
		return r.takePeriod(e, words)
	case "@reboot":
		return r.wrong(name, "@reboot is not supported: a schedule belongs to the database, not to a process")
	}
	f := r.wrong(name, "%s is no macro; there are %s", name.text, strings.Join(macros, ", "))
	best, limit := "", 3
	for _, m := range macros {
		if d := wording.Distance(strings.ToLower(name.text), m); d < limit {
			best, limit = m, d
		}
	}
	if best != "" {
		r.mend(f, best, "")
	}
	return f
}

// takePeriod reads the duration of @every.
func (r *reader) takePeriod(e *expression, words []word) *Fault {
	name := words[0]
	if len(words) == 1 {
		f := r.fault(name.end(), 1, "@every needs a duration")
		return r.suggest(f, r.text[:name.end()]+" 1h", "for example")
	}
	at, end := words[1].offset, words[len(words)-1].end()
	text := r.text[at:end]
	d, err := time.ParseDuration(text)
	if err != nil || len(words) > 2 || text[0] == '+' {
		return r.noPeriod(at, end, text)
	}
	switch {
	case d < 0:
		return r.instead(r.fault(at, len(text), "@every %s goes back in time", text), at, 1, "", "")
	case d < time.Second:
		return r.mend(r.fault(at, len(text), "@every %s is shorter than 1s", text), "1s", "the shortest")
	case d%time.Second != 0:
		return r.mend(r.fault(at, len(text), "@every %s is not in whole seconds", text), short(d.Round(time.Second)), "")
	}
	e.every = d
	return nil
}

func (r *reader) noPeriod(at, end int, text string) *Fault {
	text = strings.Join(strings.Fields(text), " ") // it is shown as it is
	f := r.fault(at, end-at, "@every %s is no duration such as 90s, 5m or 1h30m", text)
	if m := tooLong.FindStringSubmatch(strings.ToLower(strings.Join(strings.Fields(strings.TrimPrefix(text, "+")), ""))); m != nil {
		return r.mend(f, period(m[1], m[2]), "")
	}
	if digits(text) {
		f.Problem = fmt.Sprintf("@every %s has no unit", text)
		return r.mend(f, text+"s", "seconds")
	}
	if slices.Contains([]string{"minute", "hour", "second", "day", "week"}, strings.ToLower(text)) {
		return r.mend(f, period("1", strings.ToLower(text)), "")
	}
	return f
}

// short is a duration without its zeros at the end: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
