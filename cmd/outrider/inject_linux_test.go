package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Faults of single system calls. A process of the program asks its parent, by a
// seccomp filter (seccomp_unotify(2)), before each call that can fail as a disk
// does, and the parent lets it through or answers with an error in its place. The
// count is of the whole process: "when" of strace counts each thread by itself,
// and a goroutine wanders among threads, so the Nth call cannot be named there.

// diskCalls are the calls that are asked for.
var diskCalls = map[int32]string{
	unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FTRUNCATE: "ftruncate",
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
}

// faultsSocket names the descriptor over which a process sends its listener.
const faultsSocket = "TEST_FAULTS_SOCKET"

// The filter must be there before the program is.
func init() {
	if s := os.Getenv(faultsSocket); s != "" {
		if err := surrender(s); err != nil {
			fmt.Fprintln(os.Stderr, "the filter of system calls:", err)
			os.Exit(99)
		}
	}
}

// surrender puts all threads of this process under the filter, and sends the
// parent the descriptor over which it is asked.
func surrender(socket string) error {
	fd, err := strconv.Atoi(socket)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	prog := []unix.SockFilter{load(0)} // the number of the call
	for nr := range diskCalls {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(listener))
	return unix.Sendmsg(fd, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
}

// diskFault is one call that fails.
type diskFault struct {
	call  string        // of diskCalls
	of    string        // how the file is named after the database: "", "-wal", ".half-made"; "*" is any
	nth   int           // of these calls in the process, from 1
	errno syscall.Errno // what it fails with
}

func (f diskFault) String() string {
	return fmt.Sprintf("%s %d of %s fails with %s", f.call, f.nth, cmp.Or(map[string]string{"*": "all", "": "the database"}[f.of], f.of), unix.ErrnoName(f.errno))
}

// gatekeeper is what a parent sees of the calls of one process.
type gatekeeper struct {
	db    string
	fault diskFault

	mu     sync.Mutex
	counts map[[2]string]int // by call and file; "*" is all files
	fired  chan struct{}     // closed when the fault has happened
	hit    string            // the file it hit
	at     time.Time         // when
	moved  int               // pages that were written into the database since
}

// notification and reply are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

const (
	notifRecv = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	letPass   = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// startGuarded starts cmd so that one of its system calls fails.
func startGuarded(t *testing.T, cmd *exec.Cmd, db string, fault diskFault) *gatekeeper {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append(cmd.Env, faultsSocket+"=3")
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		_ = cmd.Wait() // it says why on standard error
		t.Skip("skipped: this system lets no process answer for another's calls (seccomp_unotify(2))")
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		t.Fatal(err)
	}
	g := &gatekeeper{db: db, fault: fault, counts: map[[2]string]int{}, fired: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.serve(fds[0])
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the gatekeeper is served until then
		<-done
	})
	return g
}

// serve answers until the process is gone.
func (g *gatekeeper) serve(fd int) {
	defer unix.Close(fd)
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifRecv, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // a signal came first, and the call is asked for again
		}
		r, file := reply{id: n.id, flags: letPass}, g.file(n)
		fires := g.count(diskCalls[n.nr], file)
		if fires {
			r.flags, r.error = 0, -int32(g.fault.errno)
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifSend, uintptr(unsafe.Pointer(&r))); errno == 0 && fires {
			g.mu.Lock()
			g.hit, g.at = file, time.Now()
			g.mu.Unlock()
			close(g.fired)
		}
	}
}

// file is how the file of a call is named after the database.
func (g *gatekeeper) file(n notification) string {
	if diskCalls[n.nr] == "rename" {
		return ".half-made" // no other file is renamed
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, n.args[0]))
	if err != nil {
		return "?"
	}
	if after, ok := strings.CutPrefix(name, g.db); ok {
		return after
	}
	if name == filepath.Dir(g.db) {
		return "/"
	}
	return filepath.Base(name)
}

// count counts a call, and says whether it is the one that fails.
func (g *gatekeeper) count(call, file string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[[2]string{call, file}]++
	g.counts[[2]string{call, "*"}]++
	if call == "pwrite64" && file == "" && !g.at.IsZero() {
		g.moved++
	}
	if g.fault.call != call || g.fault.of != "*" && g.fault.of != file {
		return false
	}
	return g.counts[[2]string{call, g.fault.of}] == g.fault.nth
}

// happened is the file that the fault hit, and when it did.
func (g *gatekeeper) happened() (file string, at time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hit, g.at, !g.at.IsZero()
}

// movedAfter is how many pages were written into the database after the fault.
func (g *gatekeeper) movedAfter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moved
}
