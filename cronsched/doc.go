// Package cronsched answers when a cron expression fires: [Parse] reads the
// expression and the name of its time zone, and [Spec.Next] is a pure function
// from an instant to the next one.
//
// # Expressions
//
// Five fields (minute, hour, day of the month, month, day of the week), or six
// with the second first. A field is a list of
//
//   - ?        every value
//     7  9-17     a value, a range; months JAN-DEC and days SUN-SAT in any case; 0 and 7 are Sunday
//     */5  9-17/2 every fifth value of the field, every second one of the range
//     3/5         every fifth value from 3 to the field's end
//     L  LW       the month's last day, its last day from Monday to Friday (day of the month)
//     15W         the day from Monday to Friday nearest to the 15th, in the same month (day of the month)
//     5L  FRIL    the month's last Friday (day of the week)
//     1#2  MON#2  the month's second Monday (day of the week)
//
// A day must match both day fields, unless both are restricted: then either is
// enough. A day field is restricted when no item of it is * or ? (so */2 and
// 1-31 restrict). A month that has no 31st, or no fifth Monday, is passed over,
// and 31W fires only in months that have a 31st.
//
// The macros are @yearly, @annually, @monthly, @weekly, @daily, @midnight and
// @hourly, and @every with a Go duration of whole seconds, which knows no wall
// clock: see [Spec.EveryNext]. An expression may begin with CRON_TZ= or TZ= and
// the name of a zone.
//
// # Clocks that are set
//
// A schedule has fixed hours if its hour field does not match all 24 hours. Then
// a wall time that does not exist, because the clock was set forward over it,
// does not fire, and [Spec.Skips] yields it; a wall time that occurs twice,
// because the clock was set back, fires the first time only. A schedule that
// matches every hour follows real time: it fires at every instant whose wall
// time matches, in a repeated hour too, and misses nothing, so [Spec.Skips] yields
// nothing.
//
// The laws of zones come from the system's database, or from the one that is
// linked into the program where the system has none.
//
// # What stands below
//
// github.com/robfig/cron/v3 turns the plain fields into sets of bits. Its
// Schedule.Next is not used: where the clock is set by a whole day it searches
// for ever (Pacific/Apia, December 2011), where it is set by half an hour it
// misses ticks that exist, in a repeated hour it fires twice or misses the first,
// it gives up after five years (29 February 2096 is followed by 2104), and it
// cannot say L, W or #.
package cronsched
