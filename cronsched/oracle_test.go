package cronsched

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// oracleExpressions are judged by an oracle that shares no code with the package.
var oracleExpressions = []string{
	"* * * * *", "*/7 * * * *", "15 * * * *", "0 * * * *", "45 */1 * * *", "30 0-23 * * *",
	"30 2 * * *", "0 2 * * *", "30 1 * * *", "45 1 * * *", "15 2 * * *", "0 3 * * *", "0 0 * * *", "30 0 * * *", "30 23 * * *",
	"*/15 1-3 * * *", "*/20 0,1,2,3,23 * * *", "0 */2 * * *", "5 1/3 * * *", "0 0-22 * * *",
	"0 9 * * 1-5", "0 9 * * MON-FRI", "0 12 * * 7", "0 12 * * 5-7", "0 12 * * fri-sun", "30 2 * 3,10 SUN",
	"0 0 1 * *", "30 2 29 3 *", "0 0 31 * *", "0 0 29 2 *", "0 6 13 * 5", "0 6 */10 * 1", "0 6 ? * 2/2",
	"0 1 L * *", "30 2 * 3 7L", "0 1 LW * *", "30 1 15W * *", "0 1 1W,31W * *", "30 1 * * 0#2,3#5", "0 30 1 L,10 11 SUN#1",
}

// judge is the oracle's idea of an expression: tables that are filled by a
// matcher of its own.
type judge struct {
	minutes, hours, months [60]bool
	allHours               bool
	dom, dow               string
	today                  bool
}

func newJudge(expr string) *judge {
	f := strings.Fields(strings.ToUpper(expr))
	f = f[len(f)-5:]
	j := &judge{dom: f[2], dow: f[4], allHours: true}
	for v := range 60 {
		j.minutes[v] = inList(f[0], v, 0, 59)
		j.hours[v] = v < 24 && inList(f[1], v, 0, 23)
		j.months[v] = v >= 1 && v <= 12 && inList(f[3], v, 1, 12)
	}
	for h := range 24 {
		j.allHours = j.allHours && j.hours[h]
	}
	return j
}

// inList is the tiny matcher: is v in a list of plain items?
func inList(list string, v, lowest, highest int) bool {
	for _, one := range strings.Split(list, ",") {
		span, by, stepped := strings.Cut(one, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(by)
		}
		from, to := lowest, highest
		if span != "*" && span != "?" {
			a, b, ranged := strings.Cut(span, "-")
			from = word2number(a)
			if ranged {
				to = word2number(b)
			} else if !stepped {
				to = from
			}
		}
		for x := from; x <= to; x += step {
			if x == v {
				return true
			}
		}
	}
	return false
}

func word2number(s string) int {
	if i := strings.Index("SUNMONTUEWEDTHUFRISAT", s); i >= 0 && len(s) == 3 {
		return i / 3
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// onDay says whether the date's day matches, by the calendar of package time.
func (j *judge) onDay(y int, m time.Month, d int) bool {
	if !j.months[m] {
		return false
	}
	freeDom, freeDow := j.dom == "*" || j.dom == "?", j.dow == "*" || j.dow == "?"
	dom, dow := freeDom, freeDow
	for _, one := range strings.Split(j.dom, ",") {
		dom = dom || j.domItem(one, y, m, d)
	}
	for _, one := range strings.Split(j.dow, ",") {
		dow = dow || dowItem(one, y, m, d)
	}
	if freeDom || freeDow {
		return dom && dow
	}
	return dom || dow
}

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 12, 0, 0, 0, time.UTC) }

func (j *judge) domItem(one string, y int, m time.Month, d int) bool {
	length := date(y, m+1, 0).Day()
	target := 0
	switch {
	case one == "L":
		return d == length
	case one == "LW":
		target = length
	case strings.HasSuffix(one, "W"):
		if target = word2number(strings.TrimSuffix(one, "W")); target > length {
			return false
		}
	default:
		return inList(one, d, 1, 31)
	}
	best := 0
	for c := 1; c <= length; c++ { // the nearest workday, by trying all
		if wd := date(y, m, c).Weekday(); wd == time.Saturday || wd == time.Sunday {
			continue
		}
		if best == 0 || max(c-target, target-c) < max(best-target, target-best) {
			best = c
		}
	}
	return d == best
}

func dowItem(one string, y int, m time.Month, d int) bool {
	wd := int(date(y, m, d).Weekday())
	if day, nth, ok := strings.Cut(one, "#"); ok {
		n := 0
		for c := 1; c <= d; c++ {
			if int(date(y, m, c).Weekday()) == wd {
				n++
			}
		}
		return word2number(day)%7 == wd && strconv.Itoa(n) == nth
	}
	if day, ok := strings.CutSuffix(one, "L"); ok {
		return word2number(day)%7 == wd && date(y, m, d+7).Month() != m
	}
	one = strings.ReplaceAll(one, "-SUN", "-7")
	if inList(one, wd, 0, 6) {
		return true
	}
	return wd == 0 && !strings.ContainsAny(one, "*/?") && inList(one, 7, 0, 7)
}

// verdict walks one zone minute by minute and compares all expressions.
type verdict struct {
	zone     string
	from, to time.Time
	specs    []Spec
	judges   []*judge
	next     []Occurrence
	byMinute [60][]int
	random   *rand.Rand
	problems []string
}

func newVerdict(t *testing.T, zone string, from, to time.Time, seed uint64) *verdict {
	t.Helper()
	v := &verdict{zone: zone, from: from, to: to, random: rand.New(rand.NewPCG(seed, 1))}
	for i, x := range oracleExpressions {
		s, err := Parse(x, zone)
		if err != nil {
			t.Fatalf("%q in %s: %v", x, zone, err)
		}
		j := newJudge(x)
		v.specs, v.judges = append(v.specs, s), append(v.judges, j)
		o, _ := s.Next(from.Add(-time.Second))
		v.next = append(v.next, o)
		for m, is := range j.minutes {
			if is {
				v.byMinute[m] = append(v.byMinute[m], i)
			}
		}
	}
	return v
}

func (v *verdict) wrong(i int, format string, args ...any) {
	if len(v.problems) < 20 {
		v.problems = append(v.problems, fmt.Sprintf("%q in %s: ", oracleExpressions[i], v.zone)+fmt.Sprintf(format, args...))
	}
}

// walk is the oracle. What the clock has shown is kept minute by minute: a
// minute that it shows again is a repeat, and one that it never shows a gap.
func (v *verdict) walk() {
	const warmUp = 2 * 24 * time.Hour
	loc := v.specs[0].Location()
	origin := v.from.Add(-2*warmUp).Unix() / 60
	shown := make([]bool, v.to.Unix()/60-origin+4*24*60)
	last := [3]int{}
	for u := v.from.Add(-warmUp).Unix() / 60 * 60; u < v.to.Unix(); u += 60 {
		at := time.Unix(u, 0).In(loc)
		y, m, d := at.Date()
		h, mi, _ := at.Clock()
		if now := [3]int{y, int(m), d}; now != last {
			last = now
			for _, j := range v.judges {
				j.today = j.onDay(y, m, d)
			}
		}
		mark := time.Date(y, m, d, h, mi, 0, 0, time.UTC).Unix()/60 - origin
		repeated := shown[mark]
		shown[mark] = true
		if u < v.from.Unix() {
			continue
		}
		for _, i := range v.byMinute[mi] {
			if j := v.judges[i]; j.today && j.hours[h] && (j.allHours || !repeated) {
				v.fires(i, at)
			}
		}
	}
	for i := range v.specs {
		if o := v.next[i]; !o.At.IsZero() && o.At.Before(v.to) {
			v.wrong(i, "fires at %s, the oracle does not", o.Local())
		}
	}
	v.gaps(origin, shown)
}

// fires compares one firing of the oracle.
func (v *verdict) fires(i int, at time.Time) {
	o := v.next[i]
	if !o.At.Equal(at) || o.Skipped != "" {
		v.wrong(i, "the oracle fires at %s, Next says %s", at.Format(time.RFC3339), o.Local())
		for !o.At.IsZero() && o.At.Before(at) {
			o, _ = v.specs[i].Next(o.At)
		}
	}
	v.next[i], _ = v.specs[i].Next(at)
	if v.random.IntN(8) == 0 { // from anywhere before, it is the same
		if wait := v.next[i].At.Sub(at); wait > 0 {
			t := at.Add(time.Duration(v.random.Int64N(int64(wait))))
			if o, _ := v.specs[i].Next(t); !o.At.Equal(v.next[i].At) {
				v.wrong(i, "after %s comes %s, but after %s, in between, %s", at, v.next[i].Local(), t, o.Local())
			}
		}
	}
}

// gaps compares what is skipped with the minutes that were never shown.
func (v *verdict) gaps(origin int64, shown []bool) {
	begin, end := v.from.Unix()/60-origin, v.to.Unix()/60-origin
	first := slices.Index(shown[begin+24*60:], true) // inside, away from the edges, and in no gap
	want := make([][]string, len(v.specs))
	for mark := begin + 24*60 + int64(first); mark < end-24*60; mark++ {
		if shown[mark] {
			continue
		}
		wall := time.Unix((mark+origin)*60, 0).UTC()
		for _, i := range v.byMinute[wall.Minute()] {
			if j := v.judges[i]; !j.allHours && j.hours[wall.Hour()] && j.onDay(wall.Date()) {
				want[i] = append(want[i], wall.Format("2006-01-02T15:04:05"))
			}
		}
	}
	edge := func(mark int64) time.Time { return time.Unix((mark+origin)*60, 0).UTC() }
	for i, s := range v.specs {
		var got []string
		for o := range s.Skips(v.from, v.to) {
			if w := o.Wall(); !w.Before(edge(begin+24*60+int64(first))) && w.Before(edge(end-24*60)) {
				got = append(got, o.Local())
			}
		}
		if !slices.Equal(got, want[i]) {
			v.wrong(i, "skips %v, the oracle %v", got, want[i])
		}
	}
}

// clockOf is a fingerprint of what a zone's clock does from 2020 to 2036: many
// names are links to one zone, which is walked once.
func clockOf(t *testing.T, zone string) uint64 {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a()
	for u := time.Date(2019, 12, 1, 0, 0, 0, 0, time.UTC).Unix(); u < 2_090_000_000; u += 15 * 60 {
		_, offset := time.Unix(u, 0).In(loc).Zone()
		_, _ = h.Write([]byte{byte(offset >> 16), byte(offset >> 8), byte(offset)})
	}
	return h.Sum64()
}

// TestOracle compares Next and Skips with an oracle that walks minute by minute.
// Here it takes a sample; OUTRIDER_CRON_ALL=1 takes all zones from 2020 to 2035,
// and OUTRIDER_CRON_ALL=20 each twentieth zone. OUTRIDER_CRON_SEED plays a sample again.
func TestOracle(t *testing.T) {
	zones := strings.Fields(zoneNames)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("OUTRIDER_CRON_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("OUTRIDER_CRON_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	from, to := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	var work []*verdict
	if all := os.Getenv("OUTRIDER_CRON_ALL"); all != "" {
		each, err := strconv.Atoi(all)
		if err != nil || each < 1 {
			t.Fatalf("OUTRIDER_CRON_ALL must be 1 for all, or n for each n-th zone, got %q", all)
		}
		known := map[uint64]bool{}
		for _, zone := range zones {
			clock := clockOf(t, zone)
			if !known[clock] && len(known)%each == 0 {
				work = append(work, newVerdict(t, zone, from, to, seed))
			}
			known[clock] = true
		}
		t.Logf("%d names of zones are %d clocks from 2020 to 2035, of which %d are walked", len(zones), len(known), len(work))
	} else {
		for range 52 {
			start := from.Add(time.Duration(random.IntN(15*365)) * 24 * time.Hour)
			work = append(work, newVerdict(t, zones[random.IntN(len(zones))], start, start.AddDate(0, 0, 190), seed))
		}
	}
	began := time.Now()
	var index atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := index.Add(1) - 1; i < int64(len(work)); i = index.Add(1) - 1 {
				work[i].walk()
			}
		})
	}
	wait.Wait()
	for _, v := range work {
		for _, p := range v.problems {
			t.Error(p)
		}
	}
	t.Logf("%d pairs of zone and expression in %s", len(work)*len(oracleExpressions), time.Since(began).Round(time.Millisecond))
}
