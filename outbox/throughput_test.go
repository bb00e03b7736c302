package outbox_test

import (
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// BenchmarkBacklog relays rows that have waited into a job server with a store on disk.
func BenchmarkBacklog(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *world{
		"postgres": postgresWorld, "mysql": mysqlWorld, "sqlite": func(t testing.TB) *world { return newWorld(t) },
	} {
		b.Run(name, func(b *testing.B) {
			w := open(b)
			for n := 0; n < b.N; n += 1000 {
				w.commit(w.write(n, min(n+1000, b.N)))
			}
			p := w.pod(b, b.TempDir()+"/jobs.db", outbox.RelayOptions{})
			b.ResetTimer()
			stop := run(b, p.relay)
			for w.arrived(p) < b.N {
				time.Sleep(5 * time.Millisecond)
			}
			b.StopTimer()
			stop()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			if n := w.rows(); n != 0 {
				b.Errorf("%d rows are left", n)
			}
		})
	}
}
