package bench

import (
	"syscall"
	"time"
)

// sleep waits for d. The runtime's own timers wake an idle program at the next
// millisecond, which is more than a request takes.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil) // a signal may end it sooner: the caller looks at its clock
}
