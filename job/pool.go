package job

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// PoolsQueue is the name under which the pools are kept among the settings of queues.
// No job can name it.
const PoolsQueue = "_pools"

// The strategies of a pool that say something; see [Pool.Strategy].
const (
	PoolStrict     = "strict"      // the queues in the order in which the FETCH names them
	PoolWeighted   = "weighted"    // each queue gets its part, by its weight
	PoolRoundRobin = "round_robin" // each gets the same part
)

// A Pool shares the FETCHes that name all of its queues among them (contract §4.22).
type Pool struct {
	Name string
	// Strategy is how. PoolStrict and PoolRoundRobin do what their names say; every other
	// one shares by the weights, as PoolWeighted does, and is kept as it was given.
	Strategy    string
	Queues      []PoolQueue
	Concurrency int // how many jobs of its queues are active at most, all together; 0: any number
}

// PoolQueue is a queue of a pool.
type PoolQueue struct {
	Name   string
	Weight float64 // above 0; one of 3 starts three jobs where one of 1 starts one, while both wait
}

var poolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Limits of pools: a FETCH looks at each of them.
const (
	maxPools      = 100
	maxPoolQueues = 100
	maxWeight     = 1e6
)

// Shares reports whether the pool has a say in the order of its queues.
func (p *Pool) Shares() bool { return p.Strategy != PoolStrict && len(p.Queues) > 1 }

// Weight is the part of the queue with an index.
func (p *Pool) Weight(i int) float64 {
	if p.Strategy == PoolRoundRobin {
		return 1
	}
	return p.Queues[i].Weight
}

// In reports whether a queue is in the pool.
func (p *Pool) In(queue string) bool {
	return slices.ContainsFunc(p.Queues, func(q PoolQueue) bool { return q.Name == queue })
}

// Within reports whether all queues of the pool are among some.
func (p *Pool) Within(queues []string) bool {
	for _, q := range p.Queues {
		if !slices.Contains(queues, q.Name) {
			return false
		}
	}
	return true
}

// Validate is Invalid, with the path of the fault, for what can be no pool.
func (p Pool) Validate() error {
	if err := checkPoolName(p.Name); err != nil {
		return err
	}
	if !poolName.MatchString(p.Strategy) {
		return invalid(Invalid, "strategy", "must be the name of a strategy, such as weighted, round_robin or strict, got %.60q", p.Strategy)
	}
	if len(p.Queues) > maxPoolQueues {
		return invalid(Invalid, "queues", "must be at most %d, got %d", maxPoolQueues, len(p.Queues))
	}
	if p.Concurrency < 0 {
		return invalid(Invalid, "concurrency", "must be an integer of 1 or more, got %d", p.Concurrency)
	}
	for i, q := range p.Queues {
		field := fmt.Sprintf("queues[%d]", i)
		if err := CheckQueueName(q.Name); err != nil {
			return invalid(Invalid, field+".name", "can be no queue: %s", err)
		}
		if !(q.Weight > 0 && q.Weight <= maxWeight) {
			return invalid(Invalid, field+".weight", "must be a number above 0, of at most %d, got %v", int(maxWeight), q.Weight)
		}
		if slices.ContainsFunc(p.Queues[:i], func(o PoolQueue) bool { return o.Name == q.Name }) {
			return invalid(Invalid, field+".name", "is %q, which is in the list twice", q.Name)
		}
	}
	return nil
}

func checkPoolName(name string) error {
	if !poolName.MatchString(name) {
		return invalid(Invalid, "name", "must match %s, got %.60q", poolName, name)
	}
	return nil
}

// ParsePool reads the pool of a name (contract §3.23): an object with strategy, queues and
// concurrency. queues is an array of names or of objects with name and weight, or an
// object of weights by name; weights beside it adds to the first. Without a strategy it is
// PoolWeighted, without a weight 1. What Validate says.
func ParsePool(name string, raw json.RawMessage) (Pool, error) {
	p := Pool{Name: name, Strategy: PoolWeighted}
	if err := checkPoolName(name); err != nil {
		return p, err
	}
	if len(raw) == 0 {
		return p, nil
	}
	if err := CheckJSON(raw); err != nil {
		return p, err
	}
	if raw[0] != '{' {
		return p, invalid(Invalid, "", "a pool is an object, got %s", rawjson.Kind(raw))
	}
	var weights json.RawMessage
	err := Members(raw, func(member string, v json.RawMessage) (err error) {
		if string(v) == "null" {
			return nil
		}
		switch member {
		case "name":
			var said string
			if said, err = text(v, member); err == nil && said != name {
				err = invalid(Invalid, member, "is %.60q, and the path says %q: leave one of them out", said, name)
			}
		case "strategy":
			p.Strategy, err = text(v, member)
		case "concurrency":
			p.Concurrency, err = positive[int](v, member)
		case "queues":
			err = p.readQueues(v)
		case "weights":
			weights = v
		}
		return err
	})
	if err == nil && weights != nil {
		err = p.readWeights(weights, "weights", len(p.Queues) == 0)
	}
	if err != nil {
		return p, err
	}
	return p, p.Validate()
}

func (p *Pool) readQueues(v json.RawMessage) error {
	switch v[0] {
	case '{':
		return p.readWeights(v, "queues", true)
	case '[':
	default:
		return invalid(Invalid, "queues", "must be an array of queues or an object of weights, got %s", rawjson.Kind(v))
	}
	return Elements(v, func(i int, e json.RawMessage) (err error) {
		field, q := fmt.Sprintf("queues[%d]", i), PoolQueue{Weight: 1}
		if e[0] == '{' {
			err = membersOf(e, field, func(member string, v json.RawMessage) (err error) {
				switch member {
				case "name", "queue":
					q.Name, err = text(v, field+"."+member)
				case "weight":
					q.Weight, err = weight(v, field+"."+member)
				}
				return err
			})
		} else {
			q.Name, err = text(e, field)
		}
		p.Queues = append(p.Queues, q)
		return err
	})
}

// readWeights reads an object of weights by name: of new queues, or of those that are there.
func (p *Pool) readWeights(v json.RawMessage, field string, fresh bool) error {
	if v[0] != '{' {
		return invalid(Invalid, field, "must be an object of weights by the names of queues, got %s", rawjson.Kind(v))
	}
	return membersOf(v, field, func(name string, v json.RawMessage) error {
		w, err := weight(v, field+"."+name)
		i := slices.IndexFunc(p.Queues, func(q PoolQueue) bool { return q.Name == name })
		switch {
		case err != nil:
		case i >= 0:
			p.Queues[i].Weight = w
		case fresh:
			p.Queues = append(p.Queues, PoolQueue{name, w})
		default:
			err = invalid(Invalid, field+"."+name, "is no queue of the pool: name it in queues")
		}
		return err
	})
}

// weight reads a number, or an object that has one as weight.
func weight(v json.RawMessage, field string) (float64, error) {
	if v[0] == '{' {
		if v = rawjson.Member(v, "weight"); v == nil {
			return 1, nil
		}
		field += ".weight"
	}
	f, ok := number(v)
	if !ok {
		return 0, invalid(Invalid, field, "must be a number above 0, got %s", shown(v))
	}
	return f, nil
}

// AppendPool appends the pool as ParsePool reads it.
func AppendPool(b *rawjson.Writer, p Pool) {
	b.Str("name", p.Name).Str("strategy", p.Strategy)
	b.Array("queues")
	for _, q := range p.Queues {
		b.Begin().Str("name", q.Name).Raw("weight", strconv.AppendFloat(nil, q.Weight, 'f', -1, 64)).End()
	}
	b.EndArray()
	if p.Concurrency > 0 {
		b.Int("concurrency", int64(p.Concurrency))
	}
}

// Pools are the pools of settings, by name. Nobody changes them.
func (s *QueueSettings) Pools() []Pool {
	if s == nil {
		return nil
	}
	return s.Config.pools
}

// WithPool is the settings of all pools with p in place of the one of its name, or beside
// the others; fresh reports that there was none. A nil has no pool. Conflict where a
// queue of it is in another pool, TooLarge for too many.
func (s *QueueSettings) WithPool(p Pool) (_ *QueueSettings, fresh bool, err error) {
	if err := p.Validate(); err != nil {
		return s, false, err
	}
	all := slices.DeleteFunc(slices.Clone(s.Pools()), func(o Pool) bool { return o.Name == p.Name })
	fresh = len(all) == len(s.Pools())
	for _, o := range all {
		for _, q := range p.Queues {
			if o.In(q.Name) {
				return s, false, Errorf(Conflict, "the queue %s is in the pool %s already: take it out there first", q.Name, o.Name).
					With(map[string]any{"queue": q.Name, "pool": o.Name})
			}
		}
	}
	if len(all) >= maxPools {
		return s, false, Errorf(TooLarge, "there are %d pools, and no more can be: a FETCH looks at each of them", len(all))
	}
	return poolSettings(append(all, p)), fresh, nil
}

// WithoutPool is the settings without the pool of a name, or NotFound.
func (s *QueueSettings) WithoutPool(name string) (*QueueSettings, error) {
	all := slices.DeleteFunc(slices.Clone(s.Pools()), func(o Pool) bool { return o.Name == name })
	if len(all) == len(s.Pools()) {
		return s, noPool(name)
	}
	return poolSettings(all), nil
}

func noPool(name string) error {
	return Errorf(NotFound, "there is no pool %.60q", name).With(map[string]any{"resource_type": "pool", "resource_id": name})
}

// PoolOf finds the pool of a name, or NotFound.
func PoolOf(pools []Pool, name string) (Pool, error) {
	i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return Pool{}, noPool(name)
	}
	return pools[i], nil
}

func poolSettings(pools []Pool) *QueueSettings {
	slices.SortFunc(pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	o := rawjson.Object(nil)
	o.Object("pools")
	for _, p := range pools {
		o.Object(p.Name)
		AppendPool(&o, p)
		o.End()
	}
	return &QueueSettings{Name: PoolsQueue, Config: QueueConfig{Raw: o.End().Close(), pools: pools}}
}

// parsePools reads what poolSettings wrote.
func parsePools(raw json.RawMessage) (pools []Pool, err error) {
	err = Members(rawjson.Member(raw, "pools"), func(name string, v json.RawMessage) error {
		p, err := ParsePool(name, v)
		pools = append(pools, p)
		return err
	})
	return pools, err
}

// PoolService is what people ask of pools (contract §3.23, §4.22).
type PoolService interface {
	// Pools reads all pools by name.
	Pools(ctx context.Context) ([]Pool, error)
	// PutPool stores a pool, in place of the one of its name if there is one; fresh
	// reports that there was none. It holds from the next FETCH on. Invalid; Conflict
	// where one of its queues is in another pool; TooLarge for too many pools.
	PutPool(ctx context.Context, p Pool) (fresh bool, err error)
	// DeletePool removes a pool; its queues and their jobs stay. NotFound.
	DeletePool(ctx context.Context, name string) error
	// Dispatch reads how many jobs of each queue were started of late.
	Dispatch(ctx context.Context) (DispatchReport, error)
}

// DispatchWindow is the time of which a DispatchReport is.
const DispatchWindow = time.Hour

// DispatchReport is how the starts of the last DispatchWindow were shared.
type DispatchReport struct {
	Pools  []Pool
	Queues []Dispatched // of all queues, by name
	At     time.Time
}

// Strategy is that of the pools: PoolStrict without any, as FETCHes take the queues in
// their order then, and "mixed" where they differ.
func (r DispatchReport) Strategy() string {
	if len(r.Pools) == 0 {
		return PoolStrict
	}
	for _, p := range r.Pools {
		if p.Strategy != r.Pools[0].Strategy {
			return "mixed"
		}
	}
	return r.Pools[0].Strategy
}

// Dispatched is what was started of a queue.
type Dispatched struct {
	Queue   string
	Pool    string  // that it is in; empty for none
	Weight  float64 // there; 0 for none
	Started int64   // in the last DispatchWindow
	Minute  int64   // of them in the slot of now and the one before: the last one to two minutes
	Waiting int64   // jobs that are available
}

// Count adds up the slots of the last DispatchWindow: that of now, as far as it has come,
// and the 59 before it. Minute is of the first two of those.
func (d *Dispatched) Count(slots []Slot, now time.Time) {
	from, recent := HourBefore(now), SlotOf(now).Add(-SlotLength)
	for _, s := range slots {
		if s.Start.Before(from) || s.Start.After(now) {
			continue
		}
		d.Started += s.Started
		if !s.Start.Before(recent) {
			d.Minute += s.Started
		}
	}
}

// Starved is how many jobs wait in a queue of which none was started for a minute.
func (d Dispatched) Starved() int64 {
	if d.Minute > 0 {
		return 0
	}
	return d.Waiting
}
