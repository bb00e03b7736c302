//go:build unix

package outbox_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// BenchmarkCommitToEnqueued is the time from a commit of the app to its job's
// arrival, when nothing else happens.
func BenchmarkCommitToEnqueued(b *testing.B) {
	w := newWorld(b)
	w.server.came = make(chan int, 9)
	stop := run(b, w.relay(outbox.RelayOptions{}))
	defer stop()
	var took []time.Duration
	for b.Loop() {
		w.mail(1)
		at := time.Now()
		<-w.server.came
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "p99-ms")
}

// BenchmarkDrain is what a row costs after an outage.
func BenchmarkDrain(b *testing.B) {
	for _, batch := range []int{50, 200, 1000} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			w := newWorld(b)
			w.mail(b.N)
			w.server.came = make(chan int, b.N)
			b.ResetTimer()
			stop := run(b, w.relay(outbox.RelayOptions{Batch: batch}))
			for n := 0; n < b.N; {
				n += <-w.server.came
			}
			stop()
		})
	}
}

// BenchmarkIdle is the share of one core that a relay with nothing to do takes,
// at a pace of 5 ms and at its own.
func BenchmarkIdle(b *testing.B) {
	for _, idle := range []time.Duration{5 * time.Millisecond, 0} {
		b.Run(idle.String(), func(b *testing.B) {
			w := newWorld(b)
			stop := run(b, w.relay(outbox.RelayOptions{Idle: idle}))
			defer stop()
			<-time.After(17 * time.Second) // until it is cold
			began, used := time.Now(), cpu()
			for b.Loop() {
				<-time.After(time.Second)
			}
			b.ReportMetric(100*float64(cpu()-used)/float64(time.Since(began)), "%cpu")
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for oneself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
