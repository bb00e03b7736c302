package sidecar_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// The examples of the documents stand in testdata/spec, one file a document, each
// below a line with its section. What a document says of an example is played
// over HTTP, at the documents' own time, and every member of its answer compared.

// written is when the examples happen: ojs-core.md §13.
var written = time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)

type object = map[string]any

// desk is a whole server in a synctest bubble, and who asks it.
type desk struct {
	t      *testing.T
	client *http.Client
	url    string
}

// atDesk runs a test in a bubble, where time passes only while everybody waits:
// a sidecar with its duties over a store in a file, behind an http.Server. The
// jitter is exactly 1.
func atDesk(t *testing.T, test func(d *desk)) {
	t.Helper()
	atDeskOf(t, sidecar.Options{}, func(d *desk, _ func(time.Duration)) { test(d) })
}

// atDeskOf is atDesk with options; the clock and the jitter are those of atDesk.
// leap lets weeks go by at once: only the clock sees them, no duty is done.
func atDeskOf(t *testing.T, o sidecar.Options, test func(d *desk, leap func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var leapt atomic.Int64
		o.Now = func() time.Time { return written.Add(time.Since(began) + time.Duration(leapt.Load())) }
		o.Rand = func() float64 { return 0.5 }
		s := sidecar.New(openStore(t), o)
		runDuties(t, s)
		pipes := &pipeListener{conns: make(chan net.Conn), shut: make(chan struct{})}
		server := &httptest.Server{Listener: pipes, Config: &http.Server{Handler: httpapi.New(s, httpapi.Options{Log: o.Log})}}
		server.Start()
		t.Cleanup(server.Close)
		transport := &http.Transport{DialContext: pipes.dial}
		t.Cleanup(transport.CloseIdleConnections)
		test(&desk{t, &http.Client{Transport: transport}, server.URL}, func(span time.Duration) { leapt.Add(int64(span)) })
	})
}

// pipeListener joins a client and a server in memory: a bubble does not wait for sockets.
type pipeListener struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.shut) }); return nil }

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask sends a request and returns the answer, which must have the status.
func (d *desk) ask(status int, method, path, body string) object {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	w, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	raw := readAll(d.t, w.Body)
	if err := saidOnce(json.RawMessage(raw)); err != nil {
		d.t.Errorf("%s %s %s: %v in %s", method, path, body, err, raw)
	}
	if w.StatusCode != status {
		d.t.Fatalf("%s %s %s\ngot %d %s; want %d", method, path, body, w.StatusCode, raw, status)
	}
	return decode(d.t, raw)
}

// saidOnce refuses JSON in which a member comes twice, as two readers would see
// two jobs; what a client sent inside args, meta and its like it may repeat.
func saidOnce(v json.RawMessage) error {
	switch {
	case len(v) > 0 && v[0] == '{':
		return job.Members(v, func(name string, v json.RawMessage) error {
			if slices.Contains([]string{"args", "meta", "result", "details"}, name) {
				return nil
			}
			return saidOnce(v)
		})
	case len(v) > 0 && v[0] == '[':
		return job.Elements(v, func(_ int, v json.RawMessage) error { return saidOnce(v) })
	}
	return nil
}

func readAll(t *testing.T, from io.ReadCloser) string {
	t.Helper()
	defer from.Close()
	raw, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func decode(t *testing.T, text string) (o object) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// example is the text of an example: document-section.
func example(t *testing.T, name string) string {
	t.Helper()
	doc, section, _ := strings.Cut(name, "-")
	text, found := examples(t, doc)[section]
	if !found {
		t.Fatalf("testdata/spec/%s.txt has no example %s", doc, section)
	}
	return text
}

// examples are the texts of a document's examples by their sections.
func examples(t *testing.T, doc string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/spec/" + doc + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(raw), "\n-- ") {
		if section, text, ok := strings.Cut(part, " --\n"); ok {
			if _, twice := all[section]; twice {
				t.Fatalf("testdata/spec/%s.txt has %s twice", doc, section)
			}
			all[section] = strings.TrimSuffix(text, "\n") + "\n"
		} else if part != "" {
			t.Fatalf("testdata/spec/%s.txt begins with %q", doc, part)
		}
	}
	return all
}

func (d *desk) push(body string) object {
	d.t.Helper()
	return d.ask(201, "POST", "/ojs/v1/jobs", body)["job"].(object)
}

func (d *desk) info(id any) object {
	d.t.Helper()
	return d.ask(200, "GET", "/ojs/v1/jobs/"+id.(string), "")["job"].(object)
}

// fetch takes the next job of the queue of j, nil if there is none now.
func (d *desk) fetch(j object) object {
	d.t.Helper()
	jobs := d.ask(200, "POST", "/ojs/v1/workers/fetch", write(d.t, object{"queues": []any{j["queue"]}}))["jobs"].([]any)
	if len(jobs) == 0 {
		return nil
	}
	return jobs[0].(object)
}

// take is fetch of exactly this job, which may have to be waited for.
func (d *desk) take(j object) object {
	d.t.Helper()
	for range 2000 {
		if got := d.fetch(j); got != nil {
			if got["id"] != j["id"] || got["state"] != "active" {
				d.t.Fatalf("fetched %v, want %v active", got, j["id"])
			}
			return got
		}
		d.pass(time.Second)
	}
	d.t.Fatalf("%v never came", j["id"])
	return nil
}

// nack fails a job with an error.
func (d *desk) nack(j object, failure any) object {
	d.t.Helper()
	return d.ask(200, "POST", "/ojs/v1/workers/nack", write(d.t, object{"job_id": j["id"], "error": failure}))
}

// pass lets time go by, and everything happen that is due then.
func (d *desk) pass(span time.Duration) {
	<-time.After(span)
	synctest.Wait()
}

func write(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	stamp  = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`)
	stamps = []string{"created_at", "enqueued_at", "started_at", "completed_at", "timestamp"}
)

// holds compares an object of a document with ours, member by member: the times
// that the server sets by their shape, everything else literally. more are the
// members that ours must have beside (contract §2.1), and no others.
func (d *desk) holds(got, want object, more ...string) {
	d.t.Helper()
	for name, w := range want {
		g, given := got[name]
		switch {
		case !given:
			d.t.Errorf("%s is missing in %v", name, got)
		case slices.Contains(stamps, name):
			if !stamp.MatchString(write(d.t, g)) {
				d.t.Errorf("%s is %v", name, g)
			}
		case name == "error":
			d.holds(g.(object), w.(object), "code", "attempt", "occurred_at")
		case !reflect.DeepEqual(g, w):
			d.t.Errorf("%s: got %v, want %v", name, g, w)
		}
	}
	for _, name := range more {
		if _, given := got[name]; !given {
			d.t.Errorf("%s is missing in %v", name, got)
		}
	}
	for name, v := range got {
		if _, given := want[name]; !given && !slices.Contains(more, name) {
			d.t.Errorf("%s: %v is none of the document's", name, v)
		}
	}
}

// dead compares whether a job is among the dead letters.
func (d *desk) dead(j object, want bool) {
	d.t.Helper()
	list := d.ask(200, "GET", "/ojs/v1/dead-letter", "")["jobs"].([]any)
	found := slices.ContainsFunc(list, func(o any) bool { return o.(object)["id"] == j["id"] })
	if found != want {
		d.t.Errorf("%v among the dead letters: %v, want %v", j["id"], found, want)
	}
}

// TestExamplesAreTheDocumentsOwn holds the files of testdata/spec to the documents:
// each has every example of its documents byte for byte, and nothing else. It needs
// the documents beside the checkout.
func TestExamplesAreTheDocumentsOwn(t *testing.T) {
	t.Parallel()
	printed := printedIn(t, "(?s)```json\n(.*?)```", "ojs-core", "ojs-retry", "ojs-delivery-guarantees")
	for _, text := range printedIn(t, "(?s)```\nFAIL (.*?)```", "ojs-core", "ojs-retry", "ojs-delivery-guarantees") {
		printed = append(printed, regexp.MustCompile(`(?m)^  (job_id|error): `).ReplaceAllString(text, `  "$1": `)) // §13.7 is no JSON yet
	}
	kept := slices.AppendSeq(slices.Collect(maps.Values(examples(t, "core"))), maps.Values(examples(t, "retry")))
	compareExamples(t, "core and retry", slices.Sorted(slices.Values(printed)), slices.Sorted(slices.Values(kept)))
}

// TestUniqueExamplesAreTheDocumentsOwn is the same for ojs-unique-jobs.md and the
// calls of asyncmq-deduplication.md, where no example stands twice.
func TestUniqueExamplesAreTheDocumentsOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, doc, block string }{
		{"unique", "ojs-unique-jobs", "(?s)```json\n(.*?)```"},
		{"dedup", "asyncmq-deduplication", `(?ms)(^job_id = await queue\.add\(\n.*?^\)\n)`},
	} {
		kept := slices.Sorted(maps.Values(examples(t, tt.file)))
		compareExamples(t, tt.file, slices.Sorted(slices.Values(printedIn(t, tt.block, tt.doc))), kept)
	}
}

// printedIn finds the examples that documents print.
func printedIn(t *testing.T, block string, docs ...string) (printed []string) {
	t.Helper()
	for _, doc := range docs {
		raw, err := os.ReadFile("../../shared/spec/" + doc + ".md")
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("skipped: the documents are not beside this checkout")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(block).FindAllSubmatch(raw, -1) {
			printed = append(printed, string(m[1]))
		}
	}
	return printed
}

// compareExamples compares two sorted lists of examples.
func compareExamples(t *testing.T, what string, printed, kept []string) {
	t.Helper()
	if len(printed) == 0 || !slices.Equal(printed, kept) {
		t.Errorf("%s: the documents have %d examples, testdata %d, and they are not the same", what, len(printed), len(kept))
	}
	for _, text := range kept {
		if !slices.Contains(printed, text) {
			t.Errorf("in no document:\n%s", text)
		}
	}
	for _, text := range printed {
		if !slices.Contains(kept, text) {
			t.Errorf("not in testdata:\n%s", text)
		}
	}
}
