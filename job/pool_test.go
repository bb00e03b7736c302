package job

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

func TestParsePool(t *testing.T) {
	t.Parallel()
	ab := []PoolQueue{{"a", 2}, {"b", 1}}
	for body, want := range map[string]Pool{
		``:                       {Name: "p", Strategy: "weighted"},
		`{}`:                     {Name: "p", Strategy: "weighted"},
		`{"queues":["a","b.c"]}`: {Name: "p", Strategy: "weighted", Queues: []PoolQueue{{"a", 1}, {"b.c", 1}}},
		`{"name":"p","strategy":"round_robin","queues":[{"name":"a","weight":2},{"queue":"b"}],"concurrency":3}`: {"p", "round_robin", ab, 3},
		`{"queues":{"a":2,"b":{"weight":1}}}`:                                  {"p", "weighted", ab, 0},
		`{"queues":{"a":2,"b":{}}}`:                                            {"p", "weighted", ab, 0},
		`{"weights":{"a":2,"b":1}}`:                                            {"p", "weighted", ab, 0},
		`{"queues":["a","b"],"weights":{"a":2}}`:                               {"p", "weighted", ab, 0},
		`{"weights":{"a":2},"queues":["a","b"],"strategy":"fair","other":[1]}`: {"p", "fair", ab, 0},
		`{"queues":[{"name":"a","weight":0.25}],"concurrency":null}`:           {"p", "weighted", []PoolQueue{{"a", 0.25}}, 0},
	} {
		got, err := ParsePool("p", json.RawMessage(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	}
	for body, field := range map[string]string{
		`[]`:                                                  "object",
		`{"name":"q"}`:                                        "name",
		`{"strategy":5}`:                                      "strategy",
		`{"strategy":""}`:                                     "strategy",
		`{"queues":5}`:                                        "queues",
		`{"queues":[5]}`:                                      "queues[0]",
		`{"queues":["a",{"weight":2}]}`:                       "queues[1].name",
		`{"queues":["a","A"]}`:                                "queues[1].name",
		`{"queues":["a","a"]}`:                                "queues[1].name",
		`{"queues":[{"name":"a","weight":0}]}`:                "queues[0].weight",
		`{"queues":[{"name":"a","weight":-1}]}`:               "queues[0].weight",
		`{"queues":[{"name":"a","weight":"3"}]}`:              "queues[0].weight",
		`{"queues":[{"name":"a","weight":1000001}]}`:          "queues[0].weight",
		`{"queues":{"a":"x"}}`:                                "queues.a",
		`{"queues":{"a":{"weight":"x"}}}`:                     "queues.a.weight",
		`{"queues":["a"],"weights":{"b":1}}`:                  "weights.b",
		`{"weights":[1]}`:                                     "weights",
		`{"concurrency":0}`:                                   "concurrency",
		`{"concurrency":1.5}`:                                 "concurrency",
		`{"queues":[` + strings.Repeat(`"a",`, 100) + `"b"]}`: "queues",
	} {
		if _, err := ParsePool("p", json.RawMessage(body)); err == nil || KindOf(err) != Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%.80s: %v, want it to name %s", body, err, field)
		}
	}
	for _, name := range []string{"", "-a", "a b", "ä", strings.Repeat("a", 129)} {
		if _, err := ParsePool(name, nil); KindOf(err) != Invalid || err == nil {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// What a store keeps of the pools is what was set, and what a server says of a pool can be
// sent again.
func TestPoolsAreKept(t *testing.T) {
	t.Parallel()
	var s *QueueSettings
	want := []Pool{{"a", "weighted", []PoolQueue{{"x", 3}, {"y", 0.125}}, 0}, {"b.2", "strict", nil, 7}}
	for i := len(want) - 1; i >= 0; i-- {
		var fresh bool
		var err error
		if s, fresh, err = s.WithPool(want[i]); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	back, err := ParseQueueSettings(PoolsQueue, s.Info())
	if err != nil || !reflect.DeepEqual(back.Pools(), want) {
		t.Errorf("%+v, %v", back.Pools(), err)
	}
	if got := back.Under(&QueueSettings{Config: QueueConfig{Concurrency: 3}}).Pools(); !reflect.DeepEqual(got, want) {
		t.Errorf("under a template: %+v", got)
	}
	o := rawjson.Object(nil)
	AppendPool(&o, want[0])
	if p, err := ParsePool("a", json.RawMessage(o.Close())); err != nil || !reflect.DeepEqual(p, want[0]) {
		t.Errorf("%+v, %v", p, err)
	}
	for i := range maxPools - 2 {
		if s, _, err = s.WithPool(Pool{Name: fmt.Sprint("p", i), Strategy: PoolWeighted}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.WithPool(Pool{Name: "more", Strategy: PoolWeighted}); KindOf(err) != TooLarge || err == nil {
		t.Errorf("one more than may be: %v", err)
	}
	if _, fresh, err := s.WithPool(want[0]); err != nil || fresh {
		t.Errorf("one of them again: %v", err)
	}
}
