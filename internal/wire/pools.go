package wire

import (
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendPool appends the answer about one pool (contract §3.23).
func AppendPool(dst []byte, p job.Pool) []byte {
	b := rawjson.Object(dst)
	b.Object("pool")
	job.AppendPool(&b, p)
	return b.End().Close()
}

// PoolBody is the body that sets a pool.
func PoolBody(p job.Pool) []byte {
	b := begin()
	job.AppendPool(&b, p)
	return b.Close()
}

// ReadPool reads the answer about one pool.
func ReadPool(body []byte) (job.Pool, error) {
	var r struct {
		Pool poolObject `json:"pool"`
	}
	if err := read(body, &r); err != nil {
		return job.Pool{}, err
	}
	if r.Pool.Name == "" {
		return job.Pool{}, unread(job.Errorf(job.Malformed, "there is no pool in it"))
	}
	return r.Pool.pool(), nil
}

type poolObject struct {
	Name     string `json:"name"`
	Strategy string `json:"strategy"`
	Queues   []struct {
		Name   string  `json:"name"`
		Weight float64 `json:"weight"`
	} `json:"queues"`
	Concurrency int `json:"concurrency"`
}

func (o poolObject) pool() job.Pool {
	p := job.Pool{Name: o.Name, Strategy: o.Strategy, Concurrency: o.Concurrency}
	for _, q := range o.Queues {
		p.Queues = append(p.Queues, job.PoolQueue{Name: q.Name, Weight: q.Weight})
	}
	return p
}

// AppendPools appends a page of all pools (contract §3.23).
func AppendPools(dst []byte, pools []job.Pool, p Paging) []byte {
	pools, l := byName(pools, p, func(p job.Pool) string { return p.Name })
	b := rawjson.Object(dst)
	from := objects(&b, "pools", pools, job.AppendPool)
	b.Raw("items", b[from:])
	pages(&b, p, l)
	return b.Close()
}

// ReadPools reads them.
func ReadPools(body []byte) (pools []job.Pool, rest Rest, err error) {
	var r struct {
		Pools []poolObject `json:"pools"`
		Pages pagination   `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, rest, err
	}
	for _, o := range r.Pools {
		pools = append(pools, o.pool())
	}
	return pools, r.Pages.Rest, nil
}

// AppendPoolDeleted appends the answer to the removal of a pool.
func AppendPoolDeleted(dst []byte, name string) []byte {
	b := rawjson.Object(dst)
	return b.Bool("deleted", true).Str("name", name).Close()
}

// AppendDispatch appends how the starts were shared (contract §3.23).
func AppendDispatch(dst []byte, r job.DispatchReport) []byte {
	var starved, total int64
	for _, d := range r.Queues {
		total += d.Started
		starved += d.Starved()
	}
	b := rawjson.Object(dst)
	b.Object("stats").Int("dispatched", total).Int("starved", starved).Int("pools", int64(len(r.Pools))).Int("queues", int64(len(r.Queues))).End()
	b.Str("strategy", r.Strategy())
	objects(&b, "queues", r.Queues, func(b *rawjson.Writer, d job.Dispatched) {
		b.Str("name", d.Queue).Optional("pool", d.Pool)
		if d.Pool != "" {
			b.Raw("weight", strconv.AppendFloat(nil, d.Weight, 'f', -1, 64))
		}
		b.Int("dispatched", d.Started).Int("dispatch_count_1m", d.Minute).Int("available", d.Waiting).Int("starved", d.Starved())
	})
	objects(&b, "pools", r.Pools, job.AppendPool)
	return b.Str("window", job.Period(job.DispatchWindow)).Time("computed_at", r.At).Close()
}

// ReadDispatch reads it.
func ReadDispatch(body []byte) (job.DispatchReport, error) {
	var o struct {
		Queues []struct {
			Name      string  `json:"name"`
			Pool      string  `json:"pool"`
			Weight    float64 `json:"weight"`
			Started   int64   `json:"dispatched"`
			Minute    int64   `json:"dispatch_count_1m"`
			Available int64   `json:"available"`
		} `json:"queues"`
		Pools []poolObject `json:"pools"`
		At    time.Time    `json:"computed_at"`
	}
	if err := read(body, &o); err != nil {
		return job.DispatchReport{}, err
	}
	r := job.DispatchReport{At: o.At}
	for _, p := range o.Pools {
		r.Pools = append(r.Pools, p.pool())
	}
	for _, q := range o.Queues {
		r.Queues = append(r.Queues, job.Dispatched{Queue: q.Name, Pool: q.Pool, Weight: q.Weight, Started: q.Started, Minute: q.Minute, Waiting: q.Available})
	}
	return r, nil
}
