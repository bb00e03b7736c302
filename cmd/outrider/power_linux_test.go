package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestAnswersOutliveAPowerCut: ext4 is cut off in the midst of the load, and what it
// had not written is gone. What the server has answered is there when the disk is
// mounted again. OUTRIDER_POWER_CUTS says how many cuts, 1 by itself.
func TestAnswersOutliveAPowerCut(t *testing.T) {
	if os.Getenv(insideMounts) == "" {
		againInMounts(t)
		return
	}
	cuts := 1
	if s := os.Getenv("OUTRIDER_POWER_CUTS"); s != "" {
		var err error
		if cuts, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	image, at := filepath.Join(dir, "disk.img"), filepath.Join(dir, "disk")
	sh := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for _, err := range []error{os.Mkdir(at, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, 512<<20)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sh("mkfs.ext4", "-q", "-F", image)
	mount := func() { sh("mount", "-o", "loop", image, at) }
	d := &badDevice{T: t}
	mount()
	defer d.unmount(at)
	for range cuts {
		outlive(t, filepath.Join(at, "jobs.db"), 100+rand.IntN(600), func(p *process, l *ledger) {
			l.close()
			cutPower(t, at)
			_ = p.Process.Kill()
			_ = p.Wait() // it was killed
			d.unmount(at)
			mount()
		})
	}
}

// cutPower has ext4 write nothing more, neither what it still has in memory nor its
// journal: EXT4_IOC_SHUTDOWN with NOLOGFLUSH. The kernel goes on meanwhile, which a
// machine without power does not, and a flush that is on its way may succeed without
// its journal: of 640 cuts 64 lost a plain program the record that it had flushed during
// the call, and none an earlier one. So answers count that came before.
func cutPower(t *testing.T, at string) {
	t.Helper()
	fd, err := unix.Open(at, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	how := uint32(2)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0x8004587d, uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Skip("skipped: this file system cannot be cut off:", errno)
	}
}
