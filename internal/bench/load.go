package bench

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// slack is how long a workload may overrun before its connections are cut.
const slack = 30 * time.Second

// caller is one goroutine of the generator with its connection.
type caller struct {
	*conn
	jobs    int
	samples []time.Duration
	claims  []claim // fetched, not yet acknowledged
	buf     []byte  // for request bodies
	plain   bool    // the server does not take ACKs and FETCH in one
}

func newCaller(c *conn) *caller {
	return &caller{conn: c, samples: make([]time.Duration, 0, 1<<12)}
}

// claim is what a worker must name to acknowledge a job.
type claim struct{ id, token string }

// errDry ends a caller's part: there is nothing left to work on.
var errDry = errors.New("no job is left")

// result is what a workload came to. Its JSON names are stable.
type Result struct {
	Workload  string  `json:"workload"`
	Jobs      int     `json:"jobs"`
	Requests  int     `json:"requests,omitempty"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"jobs_per_second,omitempty"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Samples   int     `json:"samples"`
	What      string  `json:"what"` // what a latency is the time of

	Concurrency int     `json:"concurrency,omitempty"`
	Offered     float64 `json:"offered_per_second,omitempty"` // jobs; latencies are then from the time at which a request was due
	Unsent      int     `json:"unsent,omitempty"`             // requests that were due and not sent before the end
	Beside      int     `json:"beside_jobs,omitempty"`
	BesideState string  `json:"beside_state,omitempty"`
	ServerCPU   float64 `json:"server_cpu_us_per_job,omitempty"`
	ClientCPU   float64 `json:"client_cpu_us_per_job,omitempty"`
	CPU         float64 `json:"cpu_us_per_job,omitempty"` // where both are one process
	*Memory             // of the server, when the workload had ended
	FileBytes   int64   `json:"file_bytes,omitempty"` // database and log after a clean stop
	FileJobs    int64   `json:"file_jobs,omitempty"`  // in it
	BytesPerJob float64 `json:"file_bytes_per_job,omitempty"`
}

// dial opens n connections to u. They close when ctx ends, or when the returned function is called.
func (b *bench) dial(ctx context.Context, n int) ([]*caller, func(), error) {
	var cs []*caller
	hangUp := func() {
		for _, c := range cs {
			c.Close()
		}
	}
	for range n {
		c, err := dialConn(ctx, b.target, b.cfg.Token, time.Now().Add(b.cfg.Duration+slack))
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		cs = append(cs, newCaller(c))
	}
	unhook := context.AfterFunc(ctx, hangUp)
	return cs, func() { unhook(); hangUp() }, nil
}

// load has every caller repeat step, which answers how many jobs it has dealt
// with, until the time or the number of jobs is reached. what is what a latency is
// the time of. Without a name it is not measured.
func (b *bench) load(name, what string, cs []*caller, step func(*caller) (int, error)) (r Result, err error) {
	share := 0
	if b.cfg.Jobs > 0 {
		share = (b.cfg.Jobs + len(cs) - 1) / len(cs)
	}
	s, err := b.span(name)
	if err != nil {
		return r, err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(cs))
	began := time.Now()
	end := began.Add(b.cfg.Duration)
	t := b.timetable(began, end)
	for i, c := range cs {
		wg.Go(func() {
			if t != nil {
				errs[i] = c.keep(t, step)
			} else {
				errs[i] = c.repeat(end, share, step)
			}
		})
	}
	wg.Wait()
	t.close()
	r = sum(name, what, cs, time.Since(began))
	r.Unsent = t.missed(r.Samples)
	return r, cmp.Or(append(errs, s.end(&r))...)
}

// repeat does step until end, or until share jobs are done if that is not 0.
func (c *caller) repeat(end time.Time, share int, step func(*caller) (int, error)) error {
	for now := time.Now(); now.Before(end) && (share == 0 || c.jobs < share); {
		n, err := step(c)
		if errors.Is(err, errDry) {
			return nil
		}
		if err != nil {
			return err
		}
		then := time.Now()
		c.samples = append(c.samples, then.Sub(now))
		c.jobs += n
		now = then
	}
	return nil
}

// sum adds up what the callers have done in the time that it took.
func sum(name, what string, cs []*caller, took time.Duration) Result {
	r := Result{Workload: name, What: what, Seconds: took.Seconds()}
	var samples []time.Duration
	for _, c := range cs {
		r.Jobs += c.jobs
		if c.conn != nil {
			r.Requests += c.sent
		}
		samples = append(samples, c.samples...)
	}
	r.PerSecond = float64(r.Jobs) / r.Seconds
	r.P50, r.P99 = quantile(samples, 0.50), quantile(samples, 0.99)
	r.Samples = len(samples)
	return r
}

// quantile is the q-quantile of samples in milliseconds; it sorts them.
func quantile(samples []time.Duration, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	i := min(int(q*float64(len(samples))), len(samples)-1)
	return float64(samples[i].Microseconds()) / 1000
}
