package cronsched

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// Spec is an expression in its time zone. It is a value: it may be copied, and
// used by any number of goroutines. The zero Spec never fires; [Parse] makes
// one that does.
type Spec struct {
	text  string
	zone  string
	loc   *time.Location
	every time.Duration
	fixed bool // the hours are fixed; see the package's comment on clocks that are set

	seconds, minutes, hours, months uint64 // bit n: the value n
	days                            days
}

// Parse reads an expression. zone is the IANA name of its time zone; empty is
// UTC, or the zone that the expression begins with. An error is a *job.Error of
// kind Invalid whose cause is a [*Fault]. A schedule that can never fire, such as
// 31 February, is refused.
func Parse(expr, zone string) (Spec, error) {
	loc, f := loadZone(zone)
	if f != nil {
		return Spec{}, f.asError()
	}
	r := &reader{text: expr}
	s, f := r.compile()
	if f != nil {
		return Spec{}, f.asError()
	}
	if s.loc != nil && zone != "" && s.zone != zone {
		at := strings.Index(expr, "=") + 1
		f := r.fault(at, len(s.zone), "names the zone %s, and the timezone beside it is %s", s.zone, zone)
		f.Hint = "give the zone once"
		return Spec{}, f.asError()
	}
	if s.loc == nil {
		s.loc, s.zone = loc, loc.String()
	}
	return s, nil
}

// String is the expression as it was given.
func (s Spec) String() string { return s.text }

// Zone is the name of the time zone.
func (s Spec) Zone() string { return s.zone }

// Location is the time zone. It is nil for the zero Spec only.
func (s Spec) Location() *time.Location { return s.loc }

// Every is the period of an @every, and 0 for all that follows the wall clock.
func (s Spec) Every() time.Duration { return s.every }

// FixedHours reports whether the hour field leaves out some hour, so that a wall
// time that occurs twice fires the first time only, and one that does not exist
// is skipped. Otherwise the schedule follows real time, as an @every does.
func (s Spec) FixedHours() bool { return s.fixed }

// compile reads the text, and loads the zone if the text names one: otherwise
// the location is nil.
func (r *reader) compile() (Spec, *Fault) {
	e, f := r.read()
	if f != nil {
		return Spec{}, f
	}
	s := Spec{text: r.text}
	if e.zoneAt > 0 {
		if s.loc, f = loadZone(e.zone); f != nil || e.zone == "" {
			return Spec{}, r.zoneInside(e, f)
		}
		s.zone = e.zone
	}
	if s.every = e.every; s.every > 0 {
		return s, nil
	}
	if err := s.takeBits(e); err != nil {
		return Spec{}, r.fault(e.start, len(r.text)-e.start, "cannot be read: %s", err)
	}
	if _, ok := s.match(0); !ok {
		return Spec{}, r.never(e)
	}
	return s, nil
}

// zoneInside is the fault of a zone in the expression itself.
func (r *reader) zoneInside(e *expression, f *Fault) *Fault {
	if f == nil {
		return r.fault(e.zoneAt, 1, "names no time zone behind the =")
	}
	g := r.fault(e.zoneAt+f.Position, f.Length, "%s", f.Problem)
	g.Hint = f.Hint
	if f.Suggestion != "" {
		r.instead(g, e.zoneAt, len(e.zone), f.Suggestion, f.Hint)
	}
	return g
}

// never is the fault of a date that no year has.
func (r *reader) never(e *expression) *Fault {
	d := e.fields[day]
	f := r.wrong(d.word, "never fires: no month that %s stands for has such a day", wording.Printable(e.fields[month].text))
	return r.mend(f, "L", "last day of the month")
}

// parser reads the fields that hold nothing but numbers.
var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// starBit is set in a field of robfig's schedule that holds a * without a step.
const starBit = 1 << 63

// takeBits turns the items into sets of bits: the plain ones by way of the
// parser, in a form that holds none of its faults.
func (s *Spec) takeBits(e *expression) error {
	var texts [6]string
	var none [6]bool // the field holds no plain item
	for u := range e.fields {
		var items []string
		for _, it := range e.fields[u].items {
			if it.kind <= star {
				items = append(items, it.numbers(unit(u)))
			} else {
				s.days.take(it)
			}
		}
		if none[u] = len(items) == 0; none[u] {
			items = []string{"*"}
		}
		texts[u] = strings.Join(items, ",")
	}
	parsed, err := parser.Parse(strings.Join(texts[:], " "))
	if err != nil {
		return err
	}
	p, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fmt.Errorf("the parser gave a %T", parsed)
	}
	s.seconds, s.minutes, s.hours, s.months = p.Second&^starBit, p.Minute&^starBit, p.Hour&^starBit, p.Month&^starBit
	s.fixed = s.hours != 1<<24-1
	if !none[day] {
		s.days.month, s.days.anyDay = p.Dom&^starBit, p.Dom&starBit != 0
	}
	if !none[weekday] {
		s.days.week, s.days.anyWeekday = uint8(p.Dow), p.Dow&starBit != 0
	}
	return nil
}

// numbers is a plain item as the parser takes it: for it, days of the week end at 6,
// so a range that goes to Sunday must be a list.
func (it item) numbers(u unit) string {
	if it.kind == star && it.step == 1 {
		return "*"
	}
	var list []string
	for v := it.lo; v <= it.hi; v += it.step {
		n := v
		if u == weekday {
			n %= 7
		}
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ",")
}
