package bench

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestALateRequestIsLate: the latency of an offered load counts from when a
// request was due, however late it is sent, and none is sent after the end.
func TestALateRequestIsLate(t *testing.T) {
	now := time.Now()
	tt := &timetable{end: now.Add(time.Hour), due: make(chan time.Time, 3)}
	tt.due <- now.Add(-time.Hour)
	tt.due <- now.Add(-time.Minute)
	close(tt.due)
	c := newCaller(nil)
	if err := c.keep(tt, func(*caller) (int, error) { return 2, nil }); err != nil {
		t.Fatal(err)
	}
	if len(c.samples) != 2 || c.samples[0] < time.Hour || c.samples[1] < time.Minute || c.jobs != 4 {
		t.Errorf("got %v, %d jobs", c.samples, c.jobs)
	}
	over := &timetable{end: now, due: make(chan time.Time, 1)}
	over.due <- now
	close(over.due)
	if err := c.keep(over, func(*caller) (int, error) { return 0, errors.New("sent") }); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestTimetable: a request every interval, from the beginning, until the end.
func TestTimetable(t *testing.T) {
	b := &bench{point: point{work: Workload{each: 10}, rate: 1000}}
	began := time.Now().Add(-time.Hour) // so that all of them are due
	tt := b.timetable(began, began.Add(95*time.Millisecond))
	var got []time.Duration
	for at := range tt.due {
		got = append(got, at.Sub(began))
	}
	tt.close()
	var want []time.Duration
	for i := range 10 {
		want = append(want, time.Duration(i)*10*time.Millisecond)
	}
	if !slices.Equal(got, want) || tt.missed(4) != 6 {
		t.Errorf("got %v, %d missed of 4", got, tt.missed(4))
	}
	b.cfg.Jobs = 25
	tt = b.timetable(began, began.Add(time.Minute))
	tt.close() // with requests that nobody takes
	if tt.requests != 3 {
		t.Errorf("25 jobs in tens: got %d requests", tt.requests)
	}
	b.point.rate = 0
	if tt := b.timetable(began, began.Add(time.Minute)); tt != nil || tt.missed(7) != 0 {
		t.Errorf("without a rate: got %v", tt)
	}
}

func TestPoints(t *testing.T) {
	b := &bench{cfg: Settings{Workloads: []string{"push", "pickup", "cron"}, Concurrency: []int{1, 4}, Rate: []float64{100}, Beside: []int{5, 9}}}
	var got []string
	for p := range b.points() {
		got = append(got, p.String())
	}
	want := []string{"push-1-at-100-beside-5", "push-4-at-100-beside-5", "pickup-1-beside-5", "cron-1",
		"push-1-at-100-beside-9", "push-4-at-100-beside-9", "pickup-1-beside-9"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTurns(t *testing.T) {
	first := map[int]int{}
	for r := range rounds {
		order := turns(3, r)
		first[order[0]]++
		slices.Sort(order)
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("round %d: got %v", r, order)
		}
	}
	if first[0] != 2 || first[1] != 2 || first[2] != 2 {
		t.Errorf("first were %v", first)
	}
}

// TestConclude: ratios are of rounds, not of medians, and of latencies where
// there are no rates.
func TestConclude(t *testing.T) {
	ours := []Result{{PerSecond: 100}, {PerSecond: 10}, {PerSecond: 40}}
	s := Side{Rounds: []Result{{PerSecond: 50, P50: 1}, {PerSecond: 10, P50: 9}, {PerSecond: 5, P50: 2}}}
	s.conclude(ours)
	if *s.Ratio != (Ratio{2, 1, 8}) || s.PerSecond != 10 || s.P50 != 2 {
		t.Errorf("got %+v, %+v", s, s.Ratio)
	}
	s = Side{Rounds: []Result{{P50: 3}, {P50: 4}}}
	s.conclude([]Result{{P50: 1}, {P50: 1}})
	if r := *s.Ratio; r.Median < 3.49 || r.Median > 3.51 || s.PerSecond != 0 {
		t.Errorf("got %+v, %+v", s, s.Ratio)
	}
}

func TestCharge(t *testing.T) {
	before := used{server: time.Second, client: time.Second, serverKnown: true, clientKnown: true}
	after := used{server: 2 * time.Second, client: 1500 * time.Millisecond, serverKnown: true, clientKnown: true}
	r := Result{Jobs: 1000}
	r.charge(before, after)
	if r.ServerCPU != 1000 || r.ClientCPU != 500 || r.CPU != 0 {
		t.Errorf("got %+v", r)
	}
	after.both, after.serverKnown = true, false
	r = Result{Jobs: 1000}
	r.charge(before, after)
	if r.ServerCPU != 0 || r.ClientCPU != 0 || r.CPU != 500 {
		t.Errorf("in one process: got %+v", r)
	}
}

const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /tmp rw - tmpfs tmpfs rw
31 22 0:26 / /tmp2 rw - xfs /dev/vdb rw
32 30 0:27 / /tmp/data rw shared:1 - btrfs /dev/vdc rw
33 30 0:28 / /tmp/data rw - overlay overlay rw
`

func TestMachineFacts(t *testing.T) {
	for dir, want := range map[string]string{"/": "ext4", "/home/x": "ext4", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmp2/x": "xfs",
		"/tmp/data/x": "overlay", "/tmp/database": "tmpfs"} {
		if got := fileSystem([]byte(mounts), dir); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	if got := cpuModel([]byte("processor\t: 0\nmodel name\t: AMD EPYC: 7B13\nmodel name\t: other\n")); got != "AMD EPYC: 7B13" {
		t.Errorf("got %q", got)
	}
	if got := kibField([]byte("MemFree: 1 kB\nMemTotal:  2048 kB\n"), "MemTotal:"); got != 2<<20 {
		t.Errorf("got %d", got)
	}
	if m := thisMachine(t.TempDir()); runtime.GOOS == "linux" && (m.Kernel == "" || m.Memory <= 0 || m.FileSystem == "") {
		t.Errorf("got %+v", m)
	}
}

// TestListener: the one process that listens is found, by port or path, unless it
// is this one, which is not apart from the client.
func TestListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows who listens")
	}
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range []struct{ network, where string }{{"tcp", "127.0.0.1:0"}, {"unix", path}} {
		ln, err := net.Listen(at.network, at.where)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		u := &url.URL{Scheme: "http", Host: ln.Addr().String()}
		inode := tcpListener(u.Port())
		if at.network == "unix" {
			u = &url.URL{Scheme: "unix", Path: path}
			inode = unixListener(path)
		}
		if ids := holders("socket:[" + inode + "]"); inode == "" || !slices.Equal(ids, []int{os.Getpid()}) {
			t.Errorf("%s: got inode %q of %v", at.network, inode, ids)
		}
		if p := listener(u); p != nil {
			t.Errorf("%s: got %+v", at.network, p)
		}
	}
	if p := listener(&url.URL{Scheme: "http", Host: "192.0.2.1:80"}); p != nil {
		t.Errorf("elsewhere: got %+v", p)
	}
}

func TestProcess(t *testing.T) {
	var nobody *process
	if _, known := nobody.cpu(); known || nobody.memory() != nil {
		t.Error("something is known of nobody")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows processes")
	}
	p := processOf(os.Getpid())
	used, known := p.cpu()
	own, _ := ownCPU()
	if !known || used < 0 || used > own+time.Second || !strings.Contains(os.Args[0], p.Name) {
		t.Errorf("got %+v, %v; %v by its own account", p, used, own)
	}
	if m := p.memory(); m == nil || m.RSS <= 0 || m.PeakRSS < m.RSS {
		t.Errorf("got %+v", m)
	}
}
