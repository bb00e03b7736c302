package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What contract §4.12 takes, and what it comes to.
func TestRateLimitIsRead(t *testing.T) {
	second := func(n int) Quota { return Quota{n, time.Second} }
	for body, want := range map[string]LimitAsk{
		`{"max_per_second":2}`:                   {Key: "@q", Pace: Pace{Throttle: second(2)}, OnLimit: WaitOnLimit},
		`{"max_per_second":2,"on_limit":"drop"}`: {Key: "@q", Pace: Pace{Throttle: second(2)}, OnLimit: DropOnLimit},
		`{"key":"k","max_per_second":2}`:         {Key: "k", Own: "k", Pace: Pace{Throttle: second(2)}, OnLimit: WaitOnLimit},
		`{"key":"k"}`:                            {Key: "k", Own: "k", OnLimit: WaitOnLimit},
		`{"key":"A:b-c_d.9","concurrency":5}`:    {Key: "A:b-c_d.9", Own: "A:b-c_d.9", Pace: Pace{Concurrency: 5}, OnLimit: WaitOnLimit},
		`{"key":"k","rate":1,"period":"second"}`: {Key: "k", Own: "k", Pace: Pace{Rate: second(1)}, OnLimit: WaitOnLimit},
		`{"key":"k","rate":{"limit":3,"period":"PT0.5S"},"throttle":{"limit":1,"period":60},"on_limit":"reschedule","x_note":1}`: {Key: "k", Own: "k", OnLimit: RescheduleOnLimit,
			Pace: Pace{Rate: Quota{3, 500 * time.Millisecond}, Throttle: Quota{1, time.Minute}}},
		`{"key":"k","rate":{"limit":3},"period":"day"}`: {Key: "k", Own: "k", Pace: Pace{Rate: Quota{3, 24 * time.Hour}}, OnLimit: WaitOnLimit},
	} {
		got, err := parseLimit(json.RawMessage(body), "q")
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", body, got, err, want)
		}
	}
}

// What it does not take names the member.
func TestBadRateLimitNamesItsMember(t *testing.T) {
	for body, field := range map[string]string{
		`[]`: "rate_limit", `5`: "rate_limit", `{}`: "rate_limit.key", `{"concurrency":5}`: "rate_limit.key", `{"rate":{"limit":1,"period":1}}`: "rate_limit.key",
		`{"throttle":{"limit":1,"period":"second"}}`: "rate_limit.key", `{"max_per_second":1,"concurrency":1}`: "rate_limit.key",
		`{"key":""}`: "rate_limit.key", `{"key":"-a"}`: "rate_limit.key", `{"key":"a b"}`: "rate_limit.key", `{"key":5}`: "rate_limit.key", `{"key":"@q"}`: "rate_limit.key",
		`{"key":"` + strings.Repeat("k", 256) + `"}`: "rate_limit.key",
		`{"key":"k","concurrency":0}`:                "rate_limit.concurrency", `{"key":"k","concurrency":1.5}`: "rate_limit.concurrency", `{"key":"k","concurrency":"5"}`: "rate_limit.concurrency",
		`{"key":"k","concurrency":-1}`: "rate_limit.concurrency", `{"key":"k","concurrency":99999999999}`: "rate_limit.concurrency",
		`{"key":"k","rate":1}`: "rate_limit.period", `{"key":"k","rate":{"limit":1}}`: "rate_limit.rate.period", `{"key":"k","rate":{"period":1}}`: "rate_limit.rate.limit",
		`{"key":"k","rate":{"limit":1,"period":0}}`: "rate_limit.rate.period", `{"key":"k","rate":{"limit":1,"period":"week"}}`: "rate_limit.rate.period",
		`{"key":"k","rate":{"limit":1,"period":-1}}`: "rate_limit.rate.period", `{"key":"k","throttle":{"limit":0,"period":1}}`: "rate_limit.throttle.limit",
		`{"key":"k","throttle":{"limit":1,"period":1,"burst":2}}`: "rate_limit.throttle.burst",
		`{"key":"k","concurrency":1,"period":1}`:                  "rate_limit.period", `{"key":"k","on_limit":"wat"}`: "rate_limit.on_limit", `{"key":"k","on_limit":1}`: "rate_limit.on_limit",
		`{"key":"k","max_per_second":0}`: "rate_limit.max_per_second", `{"key":"k","max_per_second":1,"throttle":{"limit":1,"period":1}}`: "rate_limit.max_per_second",
		`{"key":"k","concurency":1}`: "rate_limit.concurency", `{"key":"k","key":"l"}`: "rate_limit.key",
	} {
		_, err := ParseEnvelope([]byte(`{"type":"a","args":[],"options":{"rate_limit":` + body + `}}`))
		e, ok := err.(*Error)
		if !ok || e.Kind != Invalid || e.Details["field"] != field || !strings.Contains(e.Message, field) {
			t.Errorf("%s: %v; want Invalid for %s", body, err, field)
		}
		if _, err := (Envelope{Type: "a", Args: json.RawMessage("[]"), RateLimit: json.RawMessage(body)}).Check(); KindOf(err) != Invalid {
			t.Errorf("%s, checked: %v", body, err)
		}
	}
}

// An operator's body is held to the same rules; its members stand at the top.
func TestParsePace(t *testing.T) {
	if p, err := ParsePace([]byte(` {"concurrency":3,"rate":10,"period":"minute","max_per_second":2} `)); err != nil ||
		p != (Pace{3, Quota{10, time.Minute}, Quota{2, time.Second}}) || p.Validate() != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for body, field := range map[string]string{`{}`: "concurrency", `[]`: "concurrency", `{"concurrency":0}`: "concurrency", `{"concurency":1}`: "concurency", `{"rate":{"limit":1,"period":0}}`: "rate.period",
		`{"rate":1}`: "period", `{"max_per_second":0}`: "max_per_second", `{"max_per_second":1,"throttle":{"limit":1,"period":1}}`: "max_per_second", `{"key":"k","concurrency":1}`: "key"} {
		_, err := ParsePace([]byte(body))
		if e, ok := err.(*Error); !ok || e.Kind != Invalid || e.Details["field"] != field || !strings.HasPrefix(e.Message, field) {
			t.Errorf("%s: %v, %v", body, err, e.Details)
		}
	}
}

// naive is the law by its words: every start is remembered for ever.
type naive struct {
	pace   Pace
	active int
	starts []time.Time
}

func (n *naive) open(now time.Time) bool {
	if n.pace.Concurrency > 0 && n.active >= n.pace.Concurrency {
		return false
	}
	if q := n.pace.Rate; q.Limit > 0 {
		in := 0
		for _, s := range n.starts {
			if s.After(now.Add(-q.Period)) {
				in++
			}
		}
		if in >= q.Limit {
			return false
		}
	}
	if q := n.pace.Throttle; q.Limit > 0 && len(n.starts) > 0 {
		return !now.Before(n.starts[len(n.starts)-1].Add(q.Period / time.Duration(q.Limit)))
	}
	return true
}

// With small limits, and gaps of whole milliseconds, the law says at every instant what
// the words say, and names the very instant from which a job may start.
func TestLimitIsTheLawByItsWords(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := &naive{}
		if rapid.Bool().Draw(r, "concurrency") {
			n.pace.Concurrency = rapid.IntRange(1, 4).Draw(r, "at once")
		}
		if rapid.Bool().Draw(r, "rate") {
			n.pace.Rate = Quota{rapid.IntRange(1, 5).Draw(r, "limit"), time.Duration(rapid.IntRange(1, 50).Draw(r, "period")) * time.Millisecond}
		}
		if rapid.Bool().Draw(r, "throttle") {
			limit := rapid.IntRange(1, 3).Draw(r, "throttled")
			n.pace.Throttle = Quota{limit, time.Duration(limit*rapid.IntRange(1, 20).Draw(r, "gap")) * time.Millisecond}
		}
		now := noon
		l := NewLimit("k", now)
		l.Define(n.pace, now)
		for range rapid.IntRange(1, 80).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(r, "ms")) * time.Millisecond)
			open, from := l.Open(now)
			if want := n.open(now); open != want {
				r.Fatalf("%+v at %s: open %v, want %v\n%+v", n.pace, now, open, want, n.starts)
			}
			full := n.pace.Concurrency > 0 && n.active >= n.pace.Concurrency
			if !open && !full && (!n.open(from) || n.open(from.Add(-time.Millisecond))) {
				r.Fatalf("%+v at %s: opens at %s, which is not the first instant\n%+v", n.pace, now, from, n.starts)
			}
			if !open && full && !from.IsZero() {
				r.Fatalf("a job must end first, and from is %s", from)
			}
			if open && rapid.Bool().Draw(r, "start") {
				l.Started(now)
				n.starts, n.active = append(n.starts, now), n.active+1
			} else if n.active > 0 && rapid.Bool().Draw(r, "end") {
				l.Ended(now)
				n.active--
			}
			l = l.Clone()
		}
	})
}

// A large rate is remembered in a few numbers. No window ever has more starts than the
// limit, and a busy key comes close to it.
func TestLargeRates(t *testing.T) {
	for _, q := range []Quota{{129, time.Second}, {1000, time.Second}, {10_000, time.Second}, {500, time.Minute}, {128, time.Second}, {200, 50 * time.Millisecond}} {
		l, now := NewLimit("k", noon), noon
		l.Define(Pace{Rate: q}, now)
		var starts []time.Time
		end := now.Add(10 * q.Period)
		for now.Before(end) {
			open, from := l.Open(now)
			if !open {
				if !from.After(now) {
					t.Fatalf("%+v at %s: closed until %s", q, now, from)
				}
				now = from
				continue
			}
			for range max(1, 4*q.Limit/int(q.Period/time.Millisecond)) {
				if open, _ := l.Open(now); open {
					l.Started(now)
					starts = append(starts, now)
				}
			}
			now = now.Add(time.Duration(len(starts)%2) * time.Millisecond)
			if len(l.Starts) > exactly {
				t.Fatalf("%+v: %d numbers are kept", q, len(l.Starts))
			}
		}
		for i := range starts {
			if i >= q.Limit && starts[i].Sub(starts[i-q.Limit]) < q.Period {
				t.Fatalf("%+v: %d starts within %s", q, q.Limit+1, starts[i].Sub(starts[i-q.Limit]))
			}
		}
		if got, least := len(starts), 10*q.Limit*95/100; got < least {
			t.Errorf("%+v: %d starts in ten periods, want %d", q, got, least)
		}
	}
}

// A throttle of any number comes to its number, also where its gaps are no whole milliseconds.
func TestThrottlesKeepTheirNumber(t *testing.T) {
	for _, q := range []Quota{{3, time.Second}, {90, time.Second}, {700, time.Second}, {5000, time.Second}, {7, time.Minute}} {
		l, now, n := NewLimit("k", noon), noon, 0
		l.Define(Pace{Throttle: q}, now)
		for end := noon.Add(20 * q.Period); now.Before(end); {
			if open, from := l.Open(now); !open {
				now = from
				continue
			}
			l.Started(now)
			n++
		}
		if want := 20 * q.Limit; n < want-1 || n > want+1 {
			t.Errorf("%+v: %d starts in 20 periods, want %d", q, n, want)
		}
	}
}

// A clock that is set back by hours does not close a limit for hours.
func TestLimitAfterTheClockWasSetBack(t *testing.T) {
	for _, p := range []Pace{{Rate: Quota{2, time.Second}}, {Throttle: Quota{2, 2 * time.Second}}, {Rate: Quota{200, time.Second}}} {
		l := NewLimit("k", noon)
		l.Define(p, noon)
		for range 200 {
			l.Started(noon)
		}
		n := 0
		for now := noon.Add(-5 * time.Hour); now.Before(noon.Add(-5*time.Hour + 10*time.Second)); now = now.Add(5 * time.Millisecond) {
			if open, _ := l.Open(now); open {
				l.Started(now)
				n++
			}
		}
		if least := 9 * (p.Rate.Limit + p.Throttle.Limit/2); n < least || n > least+2*p.Rate.Limit+1 {
			t.Errorf("%+v: %d starts in ten seconds", p, n)
		}
	}
}

// The newest job that says something defines its key, unless an operator has.
func TestLimitIsDefined(t *testing.T) {
	l := NewLimit("k", noon)
	for _, step := range []struct {
		say  Pace
		news bool
		want int
	}{{Pace{Concurrency: 2}, true, 2}, {Pace{Concurrency: 2}, false, 2}, {Pace{}, false, 2}, {Pace{Concurrency: 7}, true, 7}} {
		if news := l.Define(step.say, noon); news != step.news || l.Holds().Concurrency != step.want {
			t.Errorf("%+v: news %v, holds %+v", step, news, l.Holds())
		}
	}
	l.SetOverride(&Pace{Concurrency: 1}, noon)
	if l.Define(Pace{Concurrency: 9}, noon); l.Holds().Concurrency != 1 {
		t.Errorf("an override holds %+v", l.Holds())
	}
	if l.SetOverride(nil, noon); l.Holds().Concurrency != 9 {
		t.Errorf("without it %+v", l.Holds())
	}
}

// Those that are put off together come back one after the other.
func TestPutOffOneAfterTheOther(t *testing.T) {
	l := NewLimit("k", noon)
	l.Define(Pace{Rate: Quota{2, time.Second}}, noon)
	l.Started(noon)
	l.Started(noon)
	for i, want := range []time.Duration{1000, 1500, 2000} {
		if got := l.Later(noon).Sub(noon); got != want*time.Millisecond {
			t.Errorf("number %d is put off by %s", i, got)
		}
	}
}
