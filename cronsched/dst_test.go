package cronsched

import (
	"strings"
	"testing"
)

// TestClocksThatAreSet has the settings of clocks that schedulers stumble over.
func TestClocksThatAreSet(t *testing.T) {
	for _, tt := range []struct{ name, expr, zone, from, want string }{
		{"an hour that is missing", "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			"2026-03-28T01:30:00Z, no 2026-03-29 02:30:00, 2026-03-30T00:30:00Z"},
		{"an hour that comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z",
			"2026-10-24T00:30:00Z, 2026-10-25T00:30:00Z first, 2026-10-26T01:30:00Z"},
		{"the second of the two is not the first", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", "2026-10-26T01:30:00Z"},
		{"minutes of an hour that comes twice", "*/30 2,3 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			"2026-10-25T00:30:00Z first, 2026-10-25T02:00:00Z, 2026-10-25T02:30:00Z"},
		{"minutes of an hour that is missing", "*/30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"no 2026-03-29 02:00:00, no 2026-03-29 02:30:00, 2026-03-29T01:00:00Z, 2026-03-29T01:30:00Z"},
		{"every hour follows real time, forward", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T00:30:00Z, 2026-03-29T01:30:00Z, 2026-03-29T02:30:00Z"},
		{"every hour follows real time, back", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			"2026-10-25T00:30:00Z first, 2026-10-25T01:30:00Z second, 2026-10-25T02:30:00Z"},
		{"every hour in words is every hour", "30 0-11,12-23 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			"2026-10-25T00:30:00Z first, 2026-10-25T01:30:00Z second, 2026-10-25T02:30:00Z"},
		{"every second hour has fixed hours", "0 */2 * * *", "Europe/Berlin", "2026-10-24T23:00:00Z",
			"2026-10-25T00:00:00Z first, 2026-10-25T03:00:00Z, 2026-10-25T05:00:00Z"},
		{"New York, where midnight of UTC is far", "30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z",
			"2026-11-01T05:30:00Z first, 2026-11-02T06:30:00Z"},
		{"Lord Howe's half hour, back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00:00Z",
			"2026-04-04T14:45:00Z first, 2026-04-05T15:15:00Z"},
		{"Lord Howe's half hour, back, each hour", "45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z",
			"2026-04-04T14:45:00Z first, 2026-04-04T15:15:00Z second, 2026-04-04T16:15:00Z"},
		{"Lord Howe's half hour, forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z",
			"no 2026-10-04 02:15:00, 2026-10-04T15:15:00Z"},
		{"Lord Howe's half hour leaves the next", "30 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z",
			"2026-10-03T15:30:00Z, 2026-10-04T15:30:00Z"},
		{"Lord Howe each hour, over the gap", "15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z",
			"2026-10-03T14:45:00Z, 2026-10-03T16:15:00Z"},
		{"Santiago has no midnight", "0 0 * * *", "America/Santiago", "2026-09-05T00:00:00Z",
			"2026-09-05T04:00:00Z, no 2026-09-06 00:00:00, 2026-09-07T03:00:00Z"},
		{"Santiago's day goes on", "30 1 * * SUN", "America/Santiago", "2026-09-05T00:00:00Z", "2026-09-06T04:30:00Z, 2026-09-13T04:30:00Z"},
		{"Santiago has 23:30 twice", "30 23 * * *", "America/Santiago", "2026-04-04T12:00:00Z",
			"2026-04-05T02:30:00Z first, 2026-04-06T03:30:00Z"},
		{"São Paulo had no midnight", "0 0 4 11 *", "America/Sao_Paulo", "2018-01-01T00:00:00Z", "no 2018-11-04 00:00:00, 2019-11-04T03:00:00Z"},
		{"Dublin's winter is the exception, forward", "30 1 * * *", "Europe/Dublin", "2026-03-28T00:00:00Z",
			"2026-03-28T01:30:00Z, no 2026-03-29 01:30:00, 2026-03-30T00:30:00Z"},
		{"Dublin's winter is the exception, back", "30 1 * * *", "Europe/Dublin", "2026-10-24T00:00:00Z",
			"2026-10-24T00:30:00Z, 2026-10-25T00:30:00Z first, 2026-10-26T01:30:00Z"},
		{"Casablanca, before Ramadan", "30 2 * * *", "Africa/Casablanca", "2026-02-14T00:00:00Z",
			"2026-02-14T01:30:00Z, 2026-02-15T01:30:00Z first, 2026-02-16T02:30:00Z"},
		{"Casablanca, after Ramadan", "30 2 * * *", "Africa/Casablanca", "2026-03-21T00:00:00Z",
			"2026-03-21T02:30:00Z, no 2026-03-22 02:30:00, 2026-03-23T01:30:00Z"},
		{"Apia had no 30 December 2011", "0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z",
			"2011-12-29T19:00:00Z, no 2011-12-30 09:00:00, 2011-12-30T19:00:00Z, 2011-12-31T19:00:00Z"},
		{"Apia had no such Friday", "0 9 * * FRI", "Pacific/Apia", "2011-12-29T00:00:00Z", "no 2011-12-30 09:00:00, 2012-01-05T19:00:00Z"},
		{"Apia each hour", "0 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z", "2011-12-30T09:00:00Z, 2011-12-30T10:00:00Z, 2011-12-30T11:00:00Z"},
		{"Kwajalein had no 21 August 1993", "0 12 * * *", "Pacific/Kwajalein", "1993-08-20T23:00:00Z",
			"1993-08-21T00:00:00Z, no 1993-08-21 12:00:00, 1993-08-22T00:00:00Z"},
		{"Manila had no 31 December 1844", "0 0 31 12 *", "Asia/Manila", "1843-01-01T00:00:00Z", "1843-12-31T15:56:08Z, no 1844-12-31 00:00:00, 1845-12-30T15:56:08Z"},
		{"Kwajalein had most of 30 September 1969 twice", "0 12 * * *", "Pacific/Kwajalein", "1969-09-29T12:00:00Z", "1969-09-30T01:00:00Z first, 1969-10-02T00:00:00Z"},
		{"Amsterdam, 19 minutes and 32 seconds ahead", "0 12 * * *", "Europe/Amsterdam", "1930-01-01T00:00:00Z", "1930-01-01T11:40:28Z, 1930-01-02T11:40:28Z"},
		{"Troll's two hours", "0 1,2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", "no 2026-03-29 01:00:00, no 2026-03-29 02:00:00, 2026-03-29T23:00:00Z"},
		{"Gaza", "30 1 * * *", "Asia/Gaza", "2026-10-23T12:00:00Z", "2026-10-23T22:30:00Z first, 2026-10-24T23:30:00Z"},
		{"Nuuk sets its clock the evening before", "30 23 * * *", "America/Nuuk", "2026-03-27T12:00:00Z", "2026-03-28T01:30:00Z, no 2026-03-28 23:30:00, 2026-03-30T00:30:00Z"},
		{"Danmarkshavn's law of 1996", "30 0 * * *", "America/Danmarkshavn", "1995-12-30T12:00:00Z", "1995-12-31T03:30:00Z, no 1996-01-01 00:30:00, 1996-01-02T00:30:00Z"},
		{"a law that is changed: Volgograd 2020", "30 1 * * *", "Europe/Volgograd", "2020-12-26T00:00:00Z", "2020-12-26T21:30:00Z first, 2020-12-27T22:30:00Z"},
	} {
		n := strings.Count(tt.want, ",") + 1
		if got := strings.Join(firstTicks(t, tt.expr, tt.zone, tt.from, max(n, 4)), ", "); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q in %s:\n got %s\nwant %s", tt.name, tt.expr, tt.zone, got, tt.want)
		}
	}
}
