package main

import (
	"os"
	"syscall"
	"testing"
)

// TestDemoIsKilled: what it started ends with it. Its folder is left, as nobody is there
// who could remove it.
func TestDemoIsKilled(t *testing.T) {
	t.Parallel()
	d := keepDemo(t)
	if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // it was killed
	d.gone(t)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Error(err)
	}
}
