package cronsched

import (
	"math/bits"
	"time"
)

// days says which days of a month match.
type days struct {
	month      uint64 // bit n: the day n
	week       uint8  // bit n: the day of the week n, 0 is Sunday
	anyDay     bool   // the day of the month is not restricted
	anyWeekday bool   // the day of the week is not restricted

	last        bool     // L
	lastWorkday bool     // LW
	workdays    uint64   // bit n: nW
	lastOf      uint8    // bit n: nL
	nth         [6]uint8 // bit n of nth[k]: n#k
}

// take adds an item that is not plain.
func (d *days) take(it item) {
	switch it.kind {
	case lastDay:
		d.last = true
	case lastWorkday:
		d.lastWorkday = true
	case workday:
		d.workdays |= 1 << it.lo
	case lastOf:
		d.lastOf |= 1 << it.lo
	case nthOf:
		d.nth[it.n] |= 1 << it.lo
	}
}

// weekly is one day of every week of a month, from bit 0.
const weekly = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28

// of is the set of the days that match in a month.
func (d *days) of(year, month int) uint64 {
	n := daysIn(year, month)
	all := uint64(1)<<(n+1) - 2
	if d.anyDay && d.anyWeekday {
		return all
	}
	first := int(midnight(year, month, 1).Weekday())
	byDay, byWeek := all, all
	if !d.anyDay {
		byDay = d.ofMonth(n, first) & all
	}
	if !d.anyWeekday {
		byWeek = d.ofWeek(first, all)
	}
	if d.anyDay || d.anyWeekday {
		return byDay & byWeek
	}
	return byDay | byWeek
}

// ofMonth is what the day-of-month field gives in a month of n days whose day 1
// is the weekday first.
func (d *days) ofMonth(n, first int) uint64 {
	set := d.month
	if d.last {
		set |= 1 << n
	}
	if d.lastWorkday {
		set |= 1 << nearestWorkday(n, n, first)
	}
	for rest := d.workdays; rest != 0; rest &= rest - 1 {
		if at := bits.TrailingZeros64(rest); at <= n {
			set |= 1 << nearestWorkday(at, n, first)
		}
	}
	return set
}

// nearestWorkday is the day from Monday to Friday nearest to day in the same month.
func nearestWorkday(day, n, first int) int {
	switch (first + day - 1) % 7 {
	case 6: // Saturday
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == n {
			return day - 2
		}
		return day + 1
	}
	return day
}

// ofWeek is what the day-of-week field gives.
func (d *days) ofWeek(first int, all uint64) uint64 {
	var set uint64
	for w := range 7 {
		start := (w-first+7)%7 + 1
		these := uint64(weekly) << start & all
		if d.week>>w&1 != 0 {
			set |= these
		}
		if d.lastOf>>w&1 != 0 {
			set |= 1 << (bits.Len64(these) - 1)
		}
		for k := 1; k <= 5; k++ {
			if d.nth[k]>>w&1 != 0 {
				set |= 1 << (start + 7*(k-1)) & all
			}
		}
	}
	return set
}

// midnight begins a day on a clock that is never set.
func midnight(year, month, day int) time.Time {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
}

func daysIn(year, month int) int { return midnight(year, month+1, 0).Day() }
