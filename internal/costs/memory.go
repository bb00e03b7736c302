package costs

import (
	"runtime"
	"runtime/debug"
)

// MemoryColumns are the figures of Memory. They hardly differ from run to run; the
// slack is for maps, which grow by chance. One allocation more in each run always
// shows. Bytes have more of it, as a release of Go may lay things out otherwise.
var MemoryColumns = []Column{{Name: "allocs", Slack: 0.5, Digits: 1}, {Name: "bytes", Slack: 32, Share: 0.05}}

// Memory is how often do allocates, and how many bytes, in the mean of n runs behind
// some more. All goroutines of the process are counted. There is one processor and no
// collection of garbage meanwhile: a pool of package sync forgets nothing.
// The race detector allocates, too: tests that use it are built without.
func Memory(warm, n int, do func(i int)) (figures []float64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for i := range warm {
		do(i)
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var was, now runtime.MemStats
	runtime.ReadMemStats(&was)
	for i := range n {
		do(warm + i)
	}
	runtime.ReadMemStats(&now)
	per := float64(n)
	return []float64{float64(now.Mallocs-was.Mallocs) / per, float64(now.TotalAlloc-was.TotalAlloc) / per}
}
