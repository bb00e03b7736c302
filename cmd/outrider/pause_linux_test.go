package main

import (
	"testing"
	"time"
)

// TestASlowDiskRobsNobody: each flush takes 2.5 s, and a reservation lasts 4 s. A
// beat that waited for the disk was not late, nor is the next one, which its
// worker sends when it has heard of the first.
func TestASlowDiskRobsNobody(t *testing.T) {
	t.Parallel()
	s := watchedAt(t, tempDB(t))
	f := beatingOn(t, s.url, 6, 4*time.Second, time.Second)
	heal := slowed(t, s.Process.Pid, 2500*time.Millisecond)
	time.Sleep(10 * time.Second)
	heal()
	f.judge(t, 20*time.Second)
}
