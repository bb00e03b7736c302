package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

const answerLine = "-- answer --\n"

// golden is a request and its whole answer: status, headers, body. The body is
// only indented.
type golden struct{ name, request, answer string }

// goldens reads a file of testdata, one for each resource. A line "=== name"
// begins a case, and a line "-- answer --" divides it.
func goldens(t *testing.T, file string) (cases []golden) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq("\n"+string(raw), "\n=== ") {
		if text == "" {
			continue // in front of the first
		}
		name, text, _ := strings.Cut(text, "\n")
		request, answer, _ := strings.Cut(text, answerLine)
		cases = append(cases, golden{name, request, answer})
	}
	return cases
}

func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	return files
}

// go test -update writes the answers anew.
func TestGolden(t *testing.T) {
	for _, file := range goldenFiles(t) {
		var anew []string
		cases := goldens(t, file)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got := answer(t, c.request)
				anew = append(anew, "=== "+c.name+"\n"+c.request+answerLine+got)
				if got != c.answer && !*update {
					t.Errorf("request:\n%s\ngot:\n%s\nwant:\n%s", c.request, got, c.answer)
				}
			})
		}
		if *update && len(anew) == len(cases) { // -run may have chosen some of them
			if err := os.WriteFile(file, []byte(strings.Join(anew, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// answer serves a request that is written as text and writes the answer as text.
func answer(t *testing.T, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	if body != "" {
		head += "\nContent-Length: " + strconv.Itoa(len(body))
	}
	sent := strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(sent)))
	if err != nil {
		t.Fatalf("request: %v\n%s", err, text)
	}
	w := &watching{ResponseRecorder: httptest.NewRecorder(), streams: NewStreams(0)}
	o := quiet()
	o.Streams = w.streams
	New(world(), o).ServeHTTP(w, r)
	return written(t, w.ResponseRecorder)
}

// watching is the answer to one request. A stream ends when the last event of the world has
// come.
type watching struct {
	*httptest.ResponseRecorder
	streams *Streams
}

func (w *watching) FlushError() error {
	if bytes.Contains(w.Body.Bytes(), []byte("data: ")) && bytes.Contains(w.Body.Bytes(), []byte("000000000003")) {
		w.streams.End(0)
	}
	return nil
}

func written(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(strconv.Itoa(w.Code) + " " + http.StatusText(w.Code) + "\n")
	for _, k := range slices.Sorted(maps.Keys(w.Header())) {
		b.WriteString(k + ": " + strings.Join(w.Header()[k], " | ") + "\n")
	}
	b.WriteString("\n")
	body, _ := io.ReadAll(w.Body)
	if len(body) == 0 {
		return b.String()
	}
	if w.Header().Get("Content-Type") == wire.EventStream {
		b.Write(body)
		return b.String()
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		b.Write(body)
	} else if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatalf("answer is not JSON: %v\n%s", err, body)
	}
	b.WriteString("\n")
	if w.Header().Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("Content-Length is %s, the body has %d bytes", w.Header().Get("Content-Length"), len(body))
	}
	return b.String()
}

// A list that has more says how to go on (contract §1.7).
func TestMoreHasACursor(t *testing.T) {
	lists := 0
	for _, file := range goldenFiles(t) {
		for _, c := range goldens(t, file) {
			pages := strings.Count(c.answer, "\"pagination\": {")
			lists += pages
			if pages > 0 && strings.Contains(c.answer, "\"has_more\": true") != strings.Contains(c.answer, "\"next_cursor\":") {
				t.Errorf("%s, %s: has_more and next_cursor do not agree", file, c.name)
			}
		}
	}
	if lists < 20 {
		t.Errorf("only %d golden answers are lists", lists)
	}
}

// Every route must have a golden answer that is 2xx.
func TestGoldenCoversRoutes(t *testing.T) {
	covered, does := map[string]bool{}, map[string]string{}
	for _, r := range Routes() {
		does[r.Method+" "+r.Path] = r.Does
	}
	for _, file := range goldenFiles(t) {
		for _, c := range goldens(t, file) {
			if strings.HasPrefix(c.answer, "2") {
				method, rest, _ := strings.Cut(c.request, " ")
				path, _, _ := strings.Cut(strings.Fields(rest)[0], "?")
				covered[method+" "+path] = true
			}
		}
	}
	for _, r := range routes(New(world(), quiet())) {
		if r.Method == http.MethodHead {
			continue // TestHead compares every one with its GET
		}
		if r.Path == "/ojs/v1/ws" {
			continue // which is no answer; TestSocket speaks with it
		}
		if !covered[r.Method+" "+concrete(r.Path)] && !strings.HasPrefix(does[r.Method+" "+r.Path], "refused: ") {
			t.Errorf("no golden answer to %s %s is a success", r.Method, r.Path)
		}
	}
}

// concrete is a path of a route with its parameters filled in.
func concrete(path string) string {
	id := string(idOne)
	switch {
	case strings.Contains(path, "/dead-letter/"):
		id = string(idDead)
	case strings.Contains(path, "/webhooks/"):
		id = "sub_a"
	}
	return strings.NewReplacer(":event_id", "evt_019cf15e-1200-7000-8000-000000000001", ":id", id, ":name", "mail", ":key", aKey, ":version", "2").Replace(path)
}
