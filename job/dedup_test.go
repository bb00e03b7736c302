package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestParseDeduplication(t *testing.T) {
	long := strings.Repeat("é", 255)
	for body, want := range map[string]deduplication{
		`{"id":"a"}`: {ID: "a"},
		`{"id":"a","ttl":null,"ttl_ms":null,"extend":null,"replace":null,"x_note":1}`: {ID: "a"},
		`{"id":"` + long + `"}`:                             {ID: long},
		`{"id":"a","ttl":10}`:                               {ID: "a", TTL: 10 * time.Second},
		`{"id":"a","ttl":10.0,"extend":true}`:               {ID: "a", TTL: 10 * time.Second, Extend: true},
		`{"id":"a","ttl":0.07}`:                             {ID: "a", TTL: 70 * time.Millisecond}, // 0.07 × 1000 is more than 70
		`{"id":"a","ttl":1.0051}`:                           {ID: "a", TTL: 1006 * time.Millisecond},
		`{"id":"a","ttl":1.005}`:                            {ID: "a", TTL: 1005 * time.Millisecond},
		`{"id":"a","ttl":0.0001}`:                           {ID: "a", TTL: time.Millisecond},
		`{"id":"a","ttl":1e-300}`:                           {ID: "a", TTL: time.Millisecond},
		`{"id":"a","ttl":1.5e3}`:                            {ID: "a", TTL: 25 * time.Minute},
		`{"id":"a","ttl":3153600000}`:                       {ID: "a", TTL: MaxDuration},
		`{"id":"a","ttl":3153599999.9999995}`:               {ID: "a", TTL: MaxDuration},
		`{"id":"a","ttl_ms":1}`:                             {ID: "a", TTL: time.Millisecond},
		`{"id":"a","ttl_ms":3153600000000}`:                 {ID: "a", TTL: MaxDuration},
		`{"replace":true,"extend":false,"ttl":1,"id":"\n"}`: {ID: "\n", TTL: time.Second, Replace: true},
	} {
		if got, err := parseDeduplication(json.RawMessage(body), "deduplication"); err != nil || got != want {
			t.Errorf("%.80s:\n got %+v, %v\nwant %+v", body, got, err, want)
		}
	}
	if _, err := parseDeduplication(nil, "debounce"); KindOf(err) != Invalid {
		t.Errorf("nothing: got %v", err)
	}
}

// Every whole number of milliseconds is that number, however it is written.
func TestTTLKeepsWholeMilliseconds(t *testing.T) {
	for ms := time.Millisecond; ms < 20*time.Minute; ms += 7 * time.Millisecond {
		if got := Seconds(ms.Seconds()); got != ms {
			t.Fatalf("%v s: got %s, want %s", ms.Seconds(), got, ms)
		}
	}
}
