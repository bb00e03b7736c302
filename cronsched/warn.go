package cronsched

import (
	"fmt"
	"strings"
	"time"
)

// Warning is what a person may not have meant by an expression that is right.
type Warning struct {
	Code    string // the same for one sort of warning, such as "every_minute"
	Message string
}

// Warnings are what a person should be told when the schedule is registered.
// Only those about the clocks that are set depend on from, which is the present.
func (s Spec) Warnings(from time.Time) []Warning {
	r := &reader{text: s.text, quiet: true}
	e, f := r.read()
	if f != nil || s.loc == nil || s.every > 0 {
		return nil
	}
	w := &warnings{spec: &s, e: e}
	w.tooOften()
	w.marksOfOthers()
	w.steps()
	w.eitherDay()
	w.missingDays()
	w.clocks(from)
	return w.list
}

type warnings struct {
	spec *Spec
	e    *expression
	list []Warning
}

func (w *warnings) add(code, format string, args ...any) {
	w.list = append(w.list, Warning{code, fmt.Sprintf(format, args...)})
}

const allSixty = 1<<60 - 1

// tooOften is the classic mistake: * 3 * * * for once at 3.
func (w *warnings) tooOften() {
	s := w.spec
	restricted := s.fixed || !s.days.anyDay || !s.days.anyWeekday || s.months != 1<<13-2
	times := 60
	if s.seconds == allSixty {
		times = 3600
	}
	switch {
	case s.minutes == allSixty && s.fixed:
		w.add("every_minute", "fires in every minute of the hour, %d times an hour: for once an hour the minute must be a number, as in `%s`",
			times, w.with(second, "0", minute, "0"))
	case s.minutes == allSixty && restricted:
		w.add("every_minute", "fires in every minute of its days, %d times a day: for once a day minute and hour must be numbers, as in `%s`",
			24*times, w.with(second, "0", minute, "0", hour, "0"))
	case s.seconds == allSixty && s.minutes != allSixty:
		w.add("every_second", "fires in every second of the minute, 60 times a minute: for once a minute the second must be a number, as in `%s`", w.with(second, "0"))
	}
}

// with is the expression with other fields: a unit, its text, and so on.
func (w *warnings) with(changes ...any) string {
	var texts []string
	for u := unit(6 - w.e.count); u <= weekday; u++ {
		texts = append(texts, w.e.fields[u].text)
	}
	for i := 0; i < len(changes); i += 2 {
		if at := int(changes[i].(unit)) - 6 + w.e.count; at >= 0 {
			texts[at] = changes[i+1].(string)
		}
	}
	return strings.Join(texts, " ")
}

// marksOfOthers finds the ? of AWS where six fields begin with a second here.
func (w *warnings) marksOfOthers() {
	if w.e.count == 6 && w.e.fields[month].text == "?" {
		w.add("six_fields", "the first of six fields is the second; AWS, whose last field is the year, would read this otherwise")
	}
}

func (w *warnings) steps() {
	for u, f := range w.e.fields {
		u := unit(u)
		for _, it := range f.items {
			count := it.hi - it.lo + 1
			switch {
			case it.kind > star || it.step <= 1 || it.kind == value:
			case it.step == count:
				w.add("single_step", "%s %s is %d alone, as its step has the length of its range", u, it.text, it.lo)
			case it.kind == star || it.open:
				w.uneven(u, it)
			}
		}
	}
}

// uneven warns of a step that does not come out even where its field starts over.
func (w *warnings) uneven(u unit, it item) {
	size := u.top() - units[u].min + 1
	last := it.lo + (it.hi-it.lo)/it.step*it.step
	if gap := it.lo + size - last; gap != it.step && u != day {
		w.add("uneven_step", "%s %s does not divide %d: from %d to the next %d it is %d, not %d", u, it.text, size, last, it.lo, gap, it.step)
	} else if gap != it.step {
		w.add("uneven_step", "%s %s begins anew with each month: after its last day comes day %d, however near", u, it.text, it.lo)
	}
}

func (w *warnings) eitherDay() {
	if d := w.spec.days; !d.anyDay && !d.anyWeekday {
		w.add("either_day", "day-of-month and day-of-week are both restricted: a day that matches either is enough; for one alone write * in the other")
	}
}

// missingDays warns of days that some months do not have.
func (w *warnings) missingDays() {
	for _, it := range w.e.fields[day].items {
		if it.lo < 29 || it.kind != value && it.kind != workday {
			continue
		}
		if it.lo == 29 && w.spec.months == 1<<2 {
			w.add("skips_months", "29 February is in leap years only; `%s` is the last day of February", w.with(day, "L"))
			continue
		}
		var without []string
		for m, name := range units[month].names {
			if w.spec.months>>(m+1)&1 != 0 && daysIn(2001, m+1) < it.lo {
				without = append(without, name)
			}
		}
		if len(without) > 0 {
			leap := ""
			if it.lo == 29 {
				leap = " but for leap years"
			}
			w.add("skips_months", "there is no day %d in %s%s, so that it does not fire there; L is the last day of each month", it.lo, strings.Join(without, ", "), leap)
		}
	}
	for _, it := range w.e.fields[weekday].items {
		if it.kind == nthOf && it.n == 5 {
			w.add("skips_months", "%s is not in every month, and those without it are passed over; `%sL` is the last one of each month", it.text, strings.TrimSuffix(it.text, "#5"))
		}
	}
}

// clocks warns of the next time that the clock is set over a tick.
func (w *warnings) clocks(from time.Time) {
	if _, ok := w.spec.Next(from); !ok {
		w.add("never", "does not fire in the next 100 years: its time does not exist on any of its days in %s", w.spec.zone)
		return
	}
	for o := range w.spec.Skips(from, from.AddDate(1, 1, 0)) {
		wall := o.Wall()
		w.add("dst_skip", "skipped on %s: %s does not exist on that day in %s, as the clock is set forward",
			wall.Format(time.DateOnly), wall.Format(time.TimeOnly), w.spec.zone)
		return
	}
}
