package sidecar_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sidecar/webhooks"
)

// Each public client is played as it was recorded: its requests, and of each answer what
// the client reads (contract §6). The files in testdata/clients have exchanges like
//
//	=== what it does
//	POST /ojs/v1/jobs
//	OJS-Version: 1.0.0-rc.1
//
//	{"type":"mail.send","args":[1]}
//	-- reads --
//	201
//	Content-Type: application/openjobspec+json
//	job.id: uuid -> id
//	job.state = "available"
//
// Behind a colon stands what kind of a value it is, behind an equals sign the value, and
// an arrow keeps it for later: {id}. A member in front of ? may be missing. The line
// "OPEN name GET path" opens a stream, and "frame name event" reads it up to an event.
func TestPublicClients(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d clients, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := newPlayback(t)
			for _, e := range strings.Split(string(text), "=== ")[1:] {
				p.play(t, e)
			}
			if p.played < 10 {
				t.Errorf("%d exchanges", p.played)
			}
		})
	}
}

// playback plays the exchanges of one client against a server of its own.
type playback struct {
	url     string
	vars    map[string]string
	streams map[string]*bufio.Reader
	played  int
}

func newPlayback(t *testing.T) *playback {
	s := sidecar.New(openStore(t), sidecar.Options{})
	runDuties(t, s)
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler), Webhooks: webhooks.New(s, webhooks.Options{})}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first, or the streams would be waited for
	return &playback{server.URL, map[string]string{}, map[string]*bufio.Reader{}, 0}
}

func (p *playback) play(t *testing.T, exchange string) {
	t.Helper()
	title, rest, _ := strings.Cut(exchange, "\n")
	request, reads, ok := strings.Cut(rest, "-- reads --\n")
	if !ok {
		t.Fatalf("%s: nothing is read", title)
	}
	p.played++
	t.Run(title, func(t *testing.T) {
		request = p.fill(t, request)
		if name, what, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(request), "OPEN "), " "); ok && strings.HasPrefix(request, "OPEN ") {
			resp := p.send(t, what)
			p.streams[name] = bufio.NewReader(resp.Body)
			p.check(t, resp, nil, reads)
			return
		}
		if name, event, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(request), "frame "), " "); ok && strings.HasPrefix(request, "frame ") {
			p.check(t, nil, p.frame(t, name, event), reads)
			return
		}
		resp := p.send(t, request)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		p.check(t, resp, body, reads)
	})
}

// fill puts what was kept into a text.
func (p *playback) fill(t *testing.T, text string) string {
	return regexp.MustCompile(`\{([a-z]+[0-9]?)\}`).ReplaceAllStringFunc(text, func(name string) string {
		v, ok := p.vars[name[1:len(name)-1]]
		if !ok {
			t.Fatalf("nothing was kept as %s", name)
		}
		return v
	})
}

func (p *playback) send(t *testing.T, text string) *http.Response {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	var content io.Reader // none has no length, and no Content-Type
	if body = strings.TrimSpace(body); body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, p.url+path, content)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// frame reads a stream up to an event, and returns its data; "-" is one without a name.
func (p *playback) frame(t *testing.T, name, event string) []byte {
	t.Helper()
	var at, data string
	for {
		line, err := p.streams[name].ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended before %s: %v", event, err)
		}
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "event: "):
			at = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "":
			if data != "" && (at == event || at == "" && event == "-") {
				return []byte(data)
			}
			at, data = "", ""
		}
	}
}

var kinds = map[string]func(any) bool{
	"uuid": func(v any) bool {
		s, ok := v.(string)
		return ok && regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(s)
	},
	"time": func(v any) bool {
		s, ok := v.(string)
		_, err := time.Parse(time.RFC3339Nano, s)
		return ok && err == nil && strings.HasSuffix(s, "Z")
	},
	"string": func(v any) bool { s, ok := v.(string); return ok && s != "" },
	"text":   func(v any) bool { _, ok := v.(string); return ok },
	"int": func(v any) bool {
		n, ok := v.(json.Number)
		_, err := strconv.ParseInt(string(n), 10, 64)
		return ok && err == nil
	},
	"number": func(v any) bool { _, ok := v.(json.Number); return ok },
	"bool":   func(v any) bool { _, ok := v.(bool); return ok },
	"array":  func(v any) bool { _, ok := v.([]any); return ok },
	"some":   func(v any) bool { a, ok := v.([]any); return ok && len(a) > 0 },
	"object": func(v any) bool { _, ok := v.(map[string]any); return ok },
	"bools": func(v any) bool { // a Go client decodes it into a map of booleans
		m, ok := v.(map[string]any)
		for _, one := range m {
			_, is := one.(bool)
			ok = ok && is
		}
		return ok
	},
	"strings": func(v any) bool { // and this into a map of strings
		m, ok := v.(map[string]any)
		for _, one := range m {
			_, is := one.(string)
			ok = ok && is
		}
		return ok
	},
	"words": func(v any) bool {
		a, ok := v.([]any)
		return ok && !slices.ContainsFunc(a, func(e any) bool { _, is := e.(string); return !is })
	},
	"null":   func(v any) bool { return v == nil },
	"absent": func(v any) bool { return v == missing },
}

// missing stands for a member that is not there.
var missing any = new(struct{ bool })

var memberLine = regexp.MustCompile(`^([A-Za-z0-9_.\[\]=-]+?)(\?)?( =|:) (.*?)(?: -> ([a-z]+[0-9]?))?$`)

// check holds an answer against what the client reads of it.
func (p *playback) check(t *testing.T, resp *http.Response, body []byte, reads string) {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if len(body) > 0 && d.Decode(&v) != nil {
		v = string(body)
	}
	for _, line := range strings.Split(strings.TrimSpace(p.fill(t, reads)), "\n") {
		if line == "" {
			continue
		}
		if code, err := strconv.Atoi(line); err == nil {
			if resp.StatusCode != code {
				t.Fatalf("got %d %s, want %d", resp.StatusCode, body, code)
			}
			continue
		}
		if name, value, ok := strings.Cut(line, ": "); ok && resp != nil && name[0] < 'a' {
			if got := resp.Header.Get(name); got != value && (value != "*" || got == "") {
				t.Errorf("the header %s is %q, want %q", name, got, value)
			}
			continue
		}
		m := memberLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q says nothing", line)
		}
		got := member(v, m[1])
		if m[2] != "" && got == missing {
			continue
		}
		if m[3] == ":" {
			is := kinds[m[4]]
			if is == nil {
				t.Fatalf("%q is no kind", m[4])
			}
			if !is(got) {
				t.Errorf("%s is %s, and no %s\n%s", m[1], display(got), m[4], body)
			}
		} else if want := m[4]; display(got) != want {
			t.Errorf("%s is %s, want %s\n%s", m[1], display(got), want, body)
		}
		if m[5] != "" {
			p.vars[m[5]] = fmt.Sprint(got)
		}
	}
}

func display(v any) string {
	if v == missing {
		return "missing"
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// member follows a path such as jobs[0].id, or queues[name=mail].depth.
func member(v any, path string) any {
	for _, step := range regexp.MustCompile(`[^.\[\]]+`).FindAllString(path, -1) {
		switch at := v.(type) {
		case map[string]any:
			one, ok := at[step]
			if !ok {
				return missing
			}
			v = one
		case []any:
			name, value, named := strings.Cut(step, "=")
			i, err := strconv.Atoi(step)
			if named {
				i = slices.IndexFunc(at, func(e any) bool { return fmt.Sprint(member(e, name)) == value })
			} else if err != nil {
				return missing
			}
			if i < 0 || i >= len(at) {
				return missing
			}
			v = at[i]
		default:
			return missing
		}
	}
	return v
}
