package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// process is one on this machine, as Linux shows it in /proc. Elsewhere, and for
// nil, nothing is known.
type process struct {
	ID   int    `json:"pid"`
	Name string `json:"name"`
}

func processOf(id int) *process {
	if runtime.GOOS != "linux" {
		return nil
	}
	p := &process{ID: id}
	p.Name = strings.TrimSpace(string(p.read("comm")))
	return p
}

// read is a file of the process; nil where it cannot be read.
func (p *process) read(name string) []byte {
	if p == nil {
		return nil
	}
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.ID, name)) // what cannot be read is not known
	return raw
}

// tick is the unit of times in /proc on every Linux that Go runs on.
const tick = time.Second / 100

// cpu is the processor time that the process has used, of user and system.
func (p *process) cpu() (time.Duration, bool) {
	stat := p.read("stat")
	_, rest, ok := bytes.Cut(stat, []byte(") ")) // its name stands in brackets
	f := bytes.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(string(f[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	return time.Duration(user+system) * tick, err == nil && err2 == nil
}

// Memory is what a process holds, in bytes.
type Memory struct {
	RSS     int64 `json:"rss_bytes"`
	PeakRSS int64 `json:"peak_rss_bytes"`
}

// memory is what the process holds; nil if nobody knows.
func (p *process) memory() *Memory {
	status := p.read("status")
	if status == nil {
		return nil
	}
	return &Memory{kibField(status, "VmRSS:"), kibField(status, "VmHWM:")}
}

// kibField is a size from /proc, which counts in KiB.
func kibField(text []byte, name string) int64 {
	_, rest, _ := bytes.Cut(text, []byte(name))
	if f := bytes.Fields(rest); len(f) > 0 {
		kib, _ := strconv.ParseInt(string(f[0]), 10, 64) // what is no number is unknown, 0
		return kib << 10
	}
	return 0
}

// listener is the process on this machine that listens where u says: nil where it
// cannot be known, also where several share the socket or it is this very process.
func listener(u *url.URL) *process {
	if runtime.GOOS != "linux" {
		return nil
	}
	inode := ""
	if u.Scheme == "unix" {
		inode = unixListener(u.Path)
	} else if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		inode = tcpListener(u.Port())
	}
	if inode == "" {
		return nil
	}
	owners := holders("socket:[" + inode + "]")
	if len(owners) != 1 || owners[0] == os.Getpid() {
		return nil
	}
	return processOf(owners[0])
}

// tcpListener is the inode of the one socket that listens on a port (proc_net_tcp).
func tcpListener(port string) string {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	suffix, found := fmt.Sprintf(":%04X", n), ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, _ := os.ReadFile(table) // without it the server is not found
		for line := range bytes.Lines(raw) {
			f := strings.Fields(string(line))
			if len(f) < 10 || f[3] != "0A" || !strings.HasSuffix(f[1], suffix) {
				continue
			}
			if found != "" {
				return "" // two servers, of which one cannot tell which answers
			}
			found = f[9]
		}
	}
	return found
}

// unixListener is the inode of the one socket that listens at a path.
func unixListener(path string) string {
	const accepts = "00010000"
	raw, _ := os.ReadFile("/proc/net/unix") // without it the server is not found
	found := ""
	for line := range bytes.Lines(raw) {
		f := strings.Fields(string(line))
		if len(f) == 8 && f[3] == accepts && f[7] == path {
			if found != "" {
				return ""
			}
			found = f[6]
		}
	}
	return found
}

// holders are the processes that have a file open, as far as one may look.
func holders(what string) (ids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is a good one
	for _, name := range files {
		if to, err := os.Readlink(name); err == nil && to == what {
			id, err := strconv.Atoi(strings.Split(name, "/")[2])
			if err == nil && (len(ids) == 0 || ids[len(ids)-1] != id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// used is the processor time that server and client have used so far.
type used struct {
	server, client time.Duration
	both           bool // they are one process
	serverKnown    bool
	clientKnown    bool
}

func (b *bench) used() (u used) {
	u.server, u.serverKnown = b.server.cpu()
	u.client, u.clientKnown = ownCPU()
	u.both = b.point.work.inProcess
	return u
}

// charge writes into r what was used for each of its jobs since before.
func (r *Result) charge(before, after used) {
	if r.Jobs == 0 {
		return
	}
	each := func(d time.Duration, known bool) float64 {
		if !known {
			return 0
		}
		return float64(d.Nanoseconds()) / 1000 / float64(r.Jobs)
	}
	r.ServerCPU = each(after.server-before.server, after.serverKnown && before.serverKnown)
	r.ClientCPU = each(after.client-before.client, after.clientKnown)
	if after.both {
		r.CPU, r.ClientCPU = r.ClientCPU, 0
	}
}

// weigh writes into r what a database is on the disk, with n jobs, once its
// server has stopped.
func (r *Result) weigh(db string, n int64) {
	for _, name := range []string{db, db + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			r.FileBytes += info.Size()
		}
	}
	if r.FileJobs = n; n > 0 {
		r.BytesPerJob = float64(r.FileBytes) / float64(n)
	}
}

// removeDatabase removes a database and what lies beside it.
func removeDatabase(db string) error {
	files, err := filepath.Glob(db + "*")
	for _, name := range files {
		if e := os.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// stored is how many jobs a server has.
func stored(ctx context.Context, c *child) (n int64, err error) {
	svc, err := c.client()
	if err != nil {
		return 0, err
	}
	return countJobs(ctx, svc)
}
