package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// aJob is a job with something in every member that travels.
func aJob(s job.State) *job.Job {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	j := &job.Job{
		Envelope: job.Envelope{ID: testID, Type: "a.b", Queue: "q", Args: json.RawMessage(`[ 1e2 ]`), Meta: json.RawMessage(`{"k": 1}`), Priority: 3,
			ScheduledAt: at, Timeout: time.Second, MaxAttempts: 5, Retry: json.RawMessage(`{"max_attempts": 5}`), Extra: json.RawMessage(`{"x":1,"total_attempts":2}`)},
		Status: job.Status{State: s, Attempt: 2, CreatedAt: at, EnqueuedAt: at, StartedAt: at, RetryDelay: time.Second,
			Result: json.RawMessage(`{"total_attempts":2}`), Error: json.RawMessage(`{"type":"E"}`), Errors: json.RawMessage(`[{"type":"E"}]`)},
	}
	if s.Terminal() {
		j.FinishedAt = at
	}
	if s == job.Active {
		j.Lease = job.Lease{Token: "t", Worker: "w", Until: at}
	}
	return j
}

func shownToHolder(j *job.Job) string { return string(j.AppendJSON(nil, job.View{ToHolder: true})) }

func wantJob(t *testing.T, got, want *job.Job, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if g, w := string(got.AppendJSON(nil, job.View{})), string(want.AppendJSON(nil, job.View{})); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
	if got.Dead != want.Dead {
		t.Errorf("got dead %t, want %t", got.Dead, want.Dead)
	}
}

func TestReadJobOfEveryAnswer(t *testing.T) {
	t.Parallel()
	dead := aJob(job.Discarded)
	dead.Dead = true
	for _, s := range job.States {
		j := aJob(s)
		got, err := ReadJob(AppendJob(nil, j, Extras{Error: true}))
		wantJob(t, got, j, err)
		got, err = ReadJob(AppendAck(nil, j))
		wantJob(t, got, j, err)
		got, err = ReadJob(AppendNack(nil, j))
		wantJob(t, got, j, err)
		ch, err := ReadChange(AppendJob(nil, j, Extras{Previous: job.Pending, Revived: true}))
		wantJob(t, ch.Job, j, err)
		if ch.Previous != job.Pending {
			t.Errorf("got previous state %q", ch.Previous)
		}
		ch, err = ReadChange(AppendRetried(nil, job.Change{Job: j, Previous: job.Discarded}))
		if wantJob(t, ch.Job, j, err); ch.Previous != job.Discarded {
			t.Errorf("got previous state %q", ch.Previous)
		}
	}
	got, err := ReadJob(AppendNack(nil, dead))
	wantJob(t, got, dead, err)
	r, err := ReadReceipt([]byte(`{"deduplicated":true,` + string(AppendJob(nil, dead, Extras{}))[1:]))
	if err != nil || !r.Existing {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestReadJobs(t *testing.T) {
	t.Parallel()
	j, k := aJob(job.Active), aJob(job.Active)
	for _, jobs := range [][]*job.Job{{}, {j}, {j, k}} {
		got, err := ReadJobs(AppendFetched(nil, jobs, Bare))
		if err != nil || len(got) != len(jobs) {
			t.Fatalf("got %d jobs, %v, want %d", len(got), err, len(jobs))
		}
		for i := range jobs {
			if g, w := shownToHolder(got[i]), shownToHolder(jobs[i]); g != w {
				t.Errorf("got  %s\nwant %s", g, w)
			}
		}
	}
	got, err := ReadJobs(AppendBatch(nil, []job.Receipt{{Job: aJob(job.Available)}}))
	if err != nil {
		t.Fatal(err)
	}
	wantJob(t, got[0], aJob(job.Available), nil)
}

func TestReadPage(t *testing.T) {
	t.Parallel()
	mine, none := aJob(job.Discarded), aJob(job.Discarded)
	none.Extra, none.Result, none.Dead = nil, nil, true
	mine.Dead = true
	for _, dead := range []bool{true, false} {
		page := job.Page{Jobs: []*job.Job{mine, none}, Total: 9, AtLeast: dead, Next: "n"}
		got, err := ReadPage(AppendJobs(nil, page, Paging{Limit: 2}, dead), dead)
		if err != nil || got.Total != 9 || got.AtLeast != dead || got.Next != "n" || len(got.Jobs) != 2 {
			t.Fatalf("got %+v, %v", got, err)
		}
		for i, want := range page.Jobs {
			wantJob(t, got.Jobs[i], want, nil)
		}
	}
}

func TestReadBeat(t *testing.T) {
	t.Parallel()
	want := job.BeatReply{Directive: "quiet", Extended: []job.ID{"a"}, Cancelled: []job.ID{"b"}, Lost: []job.ID{"c", "d"}, Time: time.UnixMilli(1e12).UTC()}
	if got, err := ReadBeat(AppendBeat(nil, want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadQueues(t *testing.T) {
	t.Parallel()
	want := job.Queue{Name: "q", Paused: true, CreatedAt: time.UnixMilli(1e12).UTC(), Counts: map[job.State]int64{}, Dead: 3}
	for i, s := range job.States {
		want.Counts[s] = int64(i + 4)
	}
	if got, err := ReadQueue(AppendQueue(nil, want, job.QueueConfig{})); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	qs, rest, err := ReadQueues(AppendQueues(nil, []job.Queue{want, want}, Paging{Limit: 1}))
	if err != nil || rest != (Rest{More: true, Next: "q"}) || len(qs) != 1 || qs[0].Name != "q" || !reflect.DeepEqual(qs[0].Counts, want.Counts) {
		t.Errorf("got %+v %+v, %v", qs, rest, err)
	}
}

// Whoever goes on at the cursor reads each name once that stays, in order, whatever
// comes and goes meanwhile: by number some would be read twice, or not at all.
func TestPagesByName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c\x{e9}]{1,4}`), 0, 12, rapid.ID).Draw(t, "names")
		stays := rapid.SliceOfN(rapid.Bool(), len(names), len(names)).Draw(t, "stays")
		p := Paging{Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
		var read []string
		for more := true; more; {
			var now []job.Queue // those that stay, and some of the others
			for i, name := range names {
				if stays[i] || rapid.Bool().Draw(t, "is there") {
					now = append(now, job.Queue{Name: name})
				}
			}
			slices.SortFunc(now, func(a, b job.Queue) int { return strings.Compare(a.Name, b.Name) })
			qs, rest, err := ReadQueues(AppendQueues(nil, now, p))
			if err != nil || rest.More != (rest.Next != "") || len(qs) > p.Limit {
				t.Fatalf("%v, %+v, %v", qs, rest, err)
			}
			for _, q := range qs {
				read = append(read, q.Name)
			}
			p.Cursor, more = rest.Next, rest.More
		}
		if !slices.IsSorted(read) || len(slices.Compact(slices.Clone(read))) != len(read) {
			t.Errorf("read %q", read)
		}
		for i, name := range names {
			if stays[i] && !slices.Contains(read, name) {
				t.Errorf("read %q, without %q", read, name)
			}
		}
	})
}

func TestReadDeadStats(t *testing.T) {
	t.Parallel()
	want := job.DeadStats{Total: 3, ByQueue: map[string]int64{"q": 3}, ByType: map[string]int64{"a.b": 3}, ByErrorType: map[string]int64{`E"x`: 2, "F": 1},
		Oldest: time.UnixMilli(1e12).UTC(), Newest: time.UnixMilli(2e12).UTC()}
	if got, err := ReadDeadStats(AppendDeadStats(nil, want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1e12).UTC()
	want := []job.Event{
		{Seq: 1, Type: "job.started", Time: at, JobID: testID, JobType: "a.b", Queue: "q", Data: json.RawMessage(`{"worker_id":"w\"","attempt":1}`)},
		{Seq: 1<<62 + 5, Type: "job.activated", Time: at, JobID: testID, JobType: "a.b", Queue: "q"},
		{Seq: 3, Type: "worker.stale", Time: at, Data: json.RawMessage(`{"worker_id":"w"}`)},
	}
	if got, err := ReadEvents(AppendEvents(nil, want, 3, Paging{Limit: 10})); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadHealth(t *testing.T) {
	t.Parallel()
	want := job.Health{OK: true, Backend: "sqlite", Latency: 3 * time.Millisecond, Uptime: time.Hour, Time: time.UnixMilli(1e12).UTC(), Queues: 4, Paused: 1, Workers: 5, StaleNow: 2, Check: "running"}
	if got, err := ReadHealth(AppendHealth(nil, want)); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	slow := want
	slow.Degraded, slow.Problem = true, "the server says that it is degraded"
	if got, err := ReadHealth(AppendHealth(nil, slow)); err != nil || got != slow {
		t.Errorf("got %+v, %v, want %+v", got, err, slow)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "<html>", "[]", `{"job":1,"jobs":1,"events":1,"status":1,"state":1,"queue":1,"queues":1,"total":"x"}`} {
		for name, read := range map[string]func([]byte) error{
			"ReadJob":       func(b []byte) error { _, err := ReadJob(b); return err },
			"ReadReceipt":   func(b []byte) error { _, err := ReadReceipt(b); return err },
			"ReadChange":    func(b []byte) error { _, err := ReadChange(b); return err },
			"ReadJobs":      func(b []byte) error { _, err := ReadJobs(b); return err },
			"ReadPage":      func(b []byte) error { _, err := ReadPage(b, true); return err },
			"ReadBeat":      func(b []byte) error { _, err := ReadBeat(b); return err },
			"ReadQueue":     func(b []byte) error { _, err := ReadQueue(b); return err },
			"ReadQueues":    func(b []byte) error { _, _, err := ReadQueues(b); return err },
			"ReadDeadStats": func(b []byte) error { _, err := ReadDeadStats(b); return err },
			"ReadEvents":    func(b []byte) error { _, err := ReadEvents(b); return err },
			"ReadHealth":    func(b []byte) error { _, err := ReadHealth(b); return err },
		} {
			if err := read([]byte(body)); err == nil || job.KindOf(err) != job.Internal {
				t.Errorf("%s(%s): got %v, want Internal", name, body, err)
			}
		}
	}
}
