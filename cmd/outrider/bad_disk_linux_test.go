package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideMounts marks a test binary that has a mount namespace of its own.
const insideMounts = "TEST_INSIDE_MOUNTS"

// TestADiskThatFailsForAMoment: ext4 on a disk that refuses what is new for about
// a second, under load, and is well again. Nothing that was acknowledged is lost,
// unless a plain program that stops at the first flush that fails has lost what it
// had flushed, too. OUTRIDER_DISKS says how many disks, 2 by itself.
func TestADiskThatFailsForAMoment(t *testing.T) {
	if os.Getenv(insideMounts) == "" {
		againInMounts(t)
		return
	}
	disks := 2
	if s := os.Getenv("OUTRIDER_DISKS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("OUTRIDER_DISKS: %q is no number", s)
		}
		disks = n
	}
	seed := chaosSeed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	sum := map[string]int{}
	for n := range disks {
		t.Run(fmt.Sprint(n), func(t *testing.T) { sum[badDisk(t, n, r)]++ })
	}
	t.Logf("seed %d (OUTRIDER_CHAOS_SEED): %v", seed, sum)
}

// againInMounts runs the test in a process with mounts of its own: they are gone
// with it, and so are the devices, however it ends.
func againInMounts(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: only root may mount")
	}
	for _, tool := range []string{"mount", "umount", "losetup", "mkfs.ext4", "e2fsck"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped:", err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("skipped: this system has no loop devices:", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), insideMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // servers, if it was killed
	err := cmd.Wait()
	t.Logf("%s", out.String())
	if err != nil {
		t.Error("inside its own mounts:", err)
	}
}

// badDevice is ext4 on a sparse file of another ext4, which can be full: then
// what was never written on the first cannot be. The loop device between them
// writes directly: else it takes a write of which there was room for one half for
// done (lo_complete_rq in drivers/block/loop.c), and no flush fails for what is lost.
type badDevice struct {
	*testing.T
	base, at string // where the two are mounted
	options  string
}

func newDisk(t *testing.T, options string) *badDevice {
	t.Helper()
	dir := t.TempDir()
	tmp := filepath.Join(dir, "tmp")
	d := &badDevice{T: t, base: filepath.Join(dir, "base"), at: filepath.Join(dir, "disk"), options: options}
	for _, name := range []string{tmp, d.base, d.at} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.sh("mount", "-t", "tmpfs", "-o", "size=4g", "none", tmp)
	t.Cleanup(func() { d.unmount(tmp) })
	sparse := func(path string, size int64, options ...string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		d.sh("mkfs.ext4", append(options, "-q", "-F", path)...)
	}
	sparse(filepath.Join(tmp, "base.img"), 3<<30, "-m", "0")
	d.sh("mount", "-o", "loop", filepath.Join(tmp, "base.img"), d.base)
	t.Cleanup(func() { d.unmount(d.base) })
	sparse(d.image(), 2<<30)
	d.settle()
	d.mount()
	t.Cleanup(func() { d.unmount(d.at) })
	return d
}

func (d *badDevice) image() string { return filepath.Join(d.base, "disk.img") }

func (d *badDevice) sh(name string, args ...string) string {
	d.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		d.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// settle gives the disk room for what ext4 keeps for itself: its tables at the
// front, its journal in the middle. Else it is they that meet the fault first, and
// the whole disk is read only then, which is the kinder fault.
func (d *badDevice) settle() {
	d.Helper()
	f, err := os.OpenFile(d.image(), os.O_RDWR, 0)
	if err != nil {
		d.Fatal(err)
	}
	defer f.Close()
	for _, part := range []struct{ at, size int64 }{{0, 64 << 20}, {1008 << 20, 144 << 20}} {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, part.at, part.size); err != nil {
			d.Fatal(err)
		}
	}
}

// mount mounts the disk. Its device is gone with the mount.
func (d *badDevice) mount() {
	d.Helper()
	var says []byte
	for range 20 { // the device before it may be on its way out
		device := d.sh("losetup", "--find", "--show", "--direct-io=on", d.image())
		var err error
		says, err = exec.Command("mount", "-o", d.options, device, d.at).CombinedOutput()
		d.sh("losetup", "--detach", device) // when it is no longer mounted
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	d.Fatalf("the disk cannot be mounted: %s", says)
}

// unmount unmounts what may be in use for a moment still.
func (d *badDevice) unmount(at string) {
	d.Helper()
	var says []byte
	for range 50 {
		var err error
		if says, err = exec.Command("umount", at).CombinedOutput(); err == nil || strings.Contains(string(says), "not mounted") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	d.Errorf("%s cannot be unmounted: %s", at, says)
}

// fill leaves no room for what was never written; heal gives it back.
func (d *badDevice) fill() {
	d.Helper()
	f, err := os.Create(filepath.Join(d.base, "ballast"))
	if err != nil {
		d.Fatal(err)
	}
	defer f.Close()
	at := int64(0)
	for step := int64(1 << 30); step >= 4096; {
		if unix.Fallocate(int(f.Fd()), 0, at, step) == nil {
			at += step
		} else {
			step /= 2
		}
	}
}

func (d *badDevice) heal() {
	d.Helper()
	if err := os.Remove(filepath.Join(d.base, "ballast")); err != nil {
		d.Fatal(err)
	}
}

// again is the disk after the machine was started anew: nothing is in memory.
func (d *badDevice) again() {
	d.Helper()
	d.unmount(d.at)
	check, _ := exec.Command("e2fsck", "-f", "-n", d.image()).CombinedOutput()
	d.Logf("e2fsck: %s", lastLines(string(check), 1))
	d.mount()
}

func lastLines(s string, n int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-n):], " | ")
}

// kernel reads what the kernel says from now on.
type kernel struct{ fd int }

func listenToKernel(t *testing.T) *kernel {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("skipped: the kernel's log cannot be read:", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		t.Fatal(err)
	}
	return &kernel{fd}
}

// faults are its lines about disks that fail, since the last question.
func (k *kernel) faults() (lines []string) {
	b := make([]byte, 8192)
	for {
		n, err := unix.Read(k.fd, b)
		if err == unix.EPIPE { // lines were overwritten before they were read
			continue
		}
		if err != nil || n <= 0 {
			return lines
		}
		_, text, _ := strings.Cut(string(b[:n]), ";")
		if strings.Contains(text, "loop") && (strings.Contains(text, "error") || strings.Contains(text, "Error") || strings.Contains(text, "abort")) {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
}

// control is a plain program that appends some records and flushes, and stops at
// the first flush that fails. Its records are as long as SQLite's in the log, so
// a block holds the end of what was flushed and the begin of what was not.
type control struct {
	path    string
	flushed int
	quit    chan struct{}
	done    chan struct{}
}

const controlRecord = 24 + 4096

func startControl(path string) *control {
	c := &control{path: path, quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		f, err := os.Create(path)
		if err != nil {
			return
		}
		defer f.Close()
		for {
			select {
			case <-c.quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
			n := 1 + rand.IntN(8)
			for i := range n {
				if _, err := f.Write(c.record(c.flushed + i)); err != nil {
					return
				}
			}
			if err := f.Sync(); err != nil {
				return
			}
			c.flushed += n
		}
	}()
	return c
}

func (c *control) record(n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%7d\n", n), controlRecord/8)
}

// stop ends it, if it has not ended by itself.
func (c *control) stop() {
	close(c.quit)
	<-c.done
}

// lost tells which of its flushed records are not there.
func (c *control) lost() string {
	b, _ := os.ReadFile(c.path)
	var lost []int
	for i := range c.flushed {
		if at := i * controlRecord; len(b) < at+controlRecord || !bytes.Equal(b[at:at+controlRecord], c.record(i)) {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d from %d to %d, of a file of %d", len(lost), lost[0], lost[len(lost)-1], len(b)/controlRecord)
}

// badDisk is one server on one disk. It answers how it went.
func badDisk(t *testing.T, n int, r *rand.Rand) string {
	options := []string{"dioread_nolock", "dioread_lock"}[n%2]
	size := []int{mediumJobs, largeJobs, mediumJobs, smallJobs}[n/2%4]
	if raced { // CI runs it without the detector, too
		size = smallJobs
	}
	d := newDisk(t, options)
	k := listenToKernel(t)
	f := newFaulty(t, filepath.Join(d.at, "jobs.db"))
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.watch(t)
	url := f.ready(t)
	if url == "" {
		t.Fatalf("the server does not start on a good disk:\n%s", f.words())
	}
	files := inodes(t, f.db, f.db+"-wal")
	c := startControl(filepath.Join(d.at, "control"))
	stop := f.load(t, url, size)
	defer stop()

	// A log that has begun anew is written over its own blocks: then it is the
	// database that meets the fault. Before it is the log.
	begins := func() (nth uint32) {
		b := make([]byte, 16) // of the log's header (sqlite.org/fileformat.html#walformat)
		if f, err := os.Open(f.db + "-wal"); err == nil {
			defer f.Close()
			if _, err := f.ReadAt(b, 0); err == nil {
				nth = binary.BigEndian.Uint32(b[12:])
			}
		}
		return nth
	}
	first := begins()
	for began := time.Now(); size != smallJobs && begins() < first+1 && time.Since(began) < patience; {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	k.faults()
	d.fill()
	before := f.acks.Load()
	var said []string
	for began := time.Now(); !named(said, files) && !f.gone() && time.Since(began) < patience; {
		time.Sleep(5 * time.Millisecond)
		said = append(said, k.faults()...)
	}
	f.from.Store(time.Now().Add(100 * time.Millisecond).UnixNano()) // what was under way may end
	if n%4 > 1 {                                                    // well again at once, or when the log has met the fault, too
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
	}
	d.heal()
	select { // it meets its flushes that failed when it next moves the log
	case <-f.over:
	case <-time.After(5 * time.Second):
	}
	said = append(said, k.faults()...)
	ended, code := f.gone(), "it ran on"
	if ended {
		code = fmt.Sprintf("it ended with %d", f.cmd.ProcessState.ExitCode())
	}
	stop()
	_ = f.cmd.Process.Kill() // it may have ended
	<-f.over
	c.stop()
	log := "gone"
	if st, err := os.Stat(f.db + "-wal"); err == nil {
		log = fmt.Sprint(st.Size())
	}
	hit := named(said, files)
	d.again()
	theirs, wrong := c.lost(), f.lost(t)
	t.Logf("%s, jobs up to %d bytes: %d acknowledgements before the disk was full, %d in all, %d of them sent after the kernel's first error; %d refused, %d without an answer; %s and left a log of %s bytes; the control had flushed %d records and lost %s\nwrong: %q\nthe kernel, of our files %v: %q\nthe server: %q",
		options, size, before, f.acks.Load(), f.late.Load(), f.refused.Load(), f.hung.Load(), code, log, c.flushed, theirs, wrong, files, said[max(0, len(said)-3):], f.complaints())
	if f.hung.Load() > 0 {
		t.Error("requests have no answer")
	}
	if len(said) == 0 {
		return "the disk met nothing new"
	}
	if ended && !f.told() {
		t.Error("it has ended, and nothing is told")
	}
	if ended && log == "gone" {
		t.Error("it has ended after a flush that failed, and its log is gone: it was moved into a database that cannot be trusted")
	}
	if hit && size != smallJobs && !ended {
		t.Error("the kernel has lost writes of its files, and it goes on")
	}
	switch {
	case len(wrong) > 0 && theirs != "nothing":
		return "lost, as the control did"
	case len(wrong) > 0:
		t.Errorf("lost, and the control has lost nothing:\n%s", strings.Join(wrong, "\n"))
		return "lost"
	}
	return "nothing lost, " + code
}

// inodes are files as the kernel names them.
func inodes(t *testing.T, files ...string) (names []string) {
	t.Helper()
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("inode %d ", st.Sys().(*syscall.Stat_t).Ino))
	}
	return names
}

// named reports whether the kernel has named one of them.
func named(said, inodes []string) bool {
	return slices.ContainsFunc(said, func(line string) bool {
		return slices.ContainsFunc(inodes, func(inode string) bool { return strings.Contains(line, inode) })
	})
}
