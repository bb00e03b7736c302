package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	aJobID = "01970000-0000-7000-8000-000000000001"
	aKey   = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f"
	aPush  = `{"type":"email.send","args":[{"user_id":42}],"unique":{"keys":["args"],"args_keys":["user_id"],"period":"PT1H"}}`
)

// canned is a server that answers each request with what stands under its first
// line, and writes down what it was asked.
type canned struct {
	answers map[string]string
	log     strings.Builder
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.log.WriteString(strings.TrimSpace(fmt.Sprintf("> %s %s %s", r.Method, strings.TrimPrefix(r.URL.RequestURI(), "/ojs/v1"), body)) + "\n")
	answer, ok := c.answers[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/ojs/v1")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error":{"code":"not_found","message":"there is no such thing"}}`
	}
	if strings.HasPrefix(answer, `{"error":{"code":"invalid_request"`) {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = io.WriteString(w, answer)
}

const (
	heldKey = `{"key":"` + aKey + `","job_id":"` + aJobID + `","type":"email.send","queue":"mail","state":"active","since":"2026-03-15T12:00:00.000Z","locked_until":"2026-03-15T13:00:00.000Z"}`
	heldToo = `{"key":"` + aKey + `","job_id":"01970000-0000-7000-8000-000000000000","type":"email.send","queue":"mail","state":"pending","since":"2026-03-15T12:00:00.000Z"}`
	heldJob = `{"job":{"id":"` + aJobID + `","type":"email.send","queue":"mail","args":[1],"state":"active","unique":{}}}`
	policy  = `"policy":{"keys":["args","type"],"states":["available"],"on_conflict":"reject"},"dimensions":["args","type"],` +
		`"canonical":"{\"args\":{\"user_id\":42,\"x\":\"\u009b\"},\"type\":\"email.send\"}","fingerprint":"` + aKey + `"`
)

// TestUnique holds what the commands about unique keys ask and print, word for word.
func TestUnique(t *testing.T) {
	explain := map[string]string{"POST /unique/explain": `{` + policy + `,"answer":"rejected","held_by":{"job_id":"` + aJobID +
		`","type":"email.send","queue":"mail","state":"active","since":"2026-03-15T12:00:00.000Z","frees_at":"2026-03-15T13:00:00.000Z","frees_when":"at 2026-03-15T13:00:00.000Z"}}`}
	free := map[string]string{"POST /unique/explain": `{` + policy + `,"answer":"created","held_by":null}`}
	beside := map[string]string{"POST /unique/explain": strings.Replace(explain["POST /unique/explain"], "rejected", "created", 1)}
	bad := map[string]string{"POST /unique/explain": `{"error":{"code":"invalid_request","message":"unique is not given"}}`}
	list := map[string]string{"GET /unique-jobs": `{"items":[` + heldKey + `,` + heldToo + `],"pagination":{"total":45},"total":45}`}
	none := map[string]string{"GET /unique-jobs": `{"items":[],"pagination":{"total":0},"total":0}`}
	gone := `{"released":%d,"key":"` + aKey + `"}`
	release := map[string]string{"DELETE /unique-jobs/" + aKey: fmt.Sprintf(gone, 1), "GET /jobs/" + aJobID: heldJob, "GET /unique-jobs": list["GET /unique-jobs"]}
	past := map[string]string{"GET /jobs/" + aJobID: strings.Replace(heldJob, "active", "available", 1), "GET /unique-jobs": none["GET /unique-jobs"],
		"POST /unique/explain": free["POST /unique/explain"]}
	plain := map[string]string{"GET /jobs/" + aJobID: strings.Replace(heldJob, `,"unique":{}`, "", 1)}
	var b strings.Builder
	for _, tt := range []struct {
		args    string
		stdin   string
		answers map[string]string
	}{
		{"explain -", aPush, explain}, {"explain -", aPush, free}, {"explain -", aPush, beside}, {"explain - -o json", aPush, free},
		{"explain -", `{}`, bad}, {"explain -", "", nil}, {"explain -", "{\n  \"type\": \"a.b\",\n  'args': []\n}", nil}, {"explain -", `{"type":`, nil},
		{"explain -", `{"a":"` + strings.Repeat("é", 100) + `", "b" 1, "c":"` + strings.Repeat("x", 100) + `"}`, nil},
		{"explain -", "{\"a\":\"\xff\"}", nil}, {"explain missing.json", "", nil}, {"explain", "", nil}, {"explain a.json b.json", "", nil},
		{"ls", "", list}, {"ls", "", none}, {"ls --queue mail --type email.* --state active,pending --limit 2 -o json", "", list},
		{"ls --dedup --queue mail", "", list}, {"ls --dedup -o ndjson", "", list}, {"ls --dedup", "", none},
		{"release --dedup-queue mail a/b", "", map[string]string{"DELETE /queues/mail/deduplication/a/b": `{"released":true}`}},
		{"release --dedup-queue mail a", "", map[string]string{"DELETE /queues/mail/deduplication/a": `{"released":false}`}},
		{"ls --limit 0", "", nil}, {"ls --state running", "", nil}, {"ls all", "", nil}, {"ls -o xml", "", nil}, {"ls --url 127.0.0.1:1", "", nil},
		{"release " + aKey, "", release}, {"release " + strings.ToUpper(aKey) + " -o json", "", release},
		{"release " + aKey, "", map[string]string{"DELETE /unique-jobs/" + aKey: fmt.Sprintf(gone, 0)}},
		{"release " + aKey, "", map[string]string{"DELETE /unique-jobs/" + aKey: fmt.Sprintf(gone, 3)}},
		{"release " + aJobID, "", release}, {"release " + aJobID, "", past}, {"release " + aJobID, "", plain}, {"release " + aJobID, "", nil},
		{"release 71f9", "", nil}, {"release", "", nil}, {"lst", "", nil},
	} {
		fmt.Fprintf(&b, "$ outrider unique %s\n", tt.args)
		c := &canned{answers: tt.answers}
		server := httptest.NewServer(c)
		o := tryAt(t, func() time.Time { return time.Date(2026, 3, 15, 12, 30, 0, 0, time.UTC) }, tt.stdin, []string{"OUTRIDER_URL=" + server.URL}, strings.Fields("unique "+tt.args)...)
		server.Close()
		fmt.Fprintf(&b, "%s%s%sexit %d\n\n", c.log.String(), o.stdout, o.stderr, o.code)
	}
	golden(t, "testdata/unique.golden", b.String())
}

func TestUniqueWithoutAServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	for _, args := range [][]string{{"explain", "-"}, {"ls"}, {"release", aKey}, {"release", aJobID}} {
		o := tryWith(t, aPush, nil, append(append([]string{"unique"}, args...), "--url", server.URL)...)
		if o.code != exitUnreachable || o.stdout != "" || !strings.Contains(o.stderr, "outrider serve") {
			t.Errorf("%v: got %+v", args, o)
		}
	}
}

// TestUniqueOfARunningServer goes the whole way: who holds the key, and freeing it.
func TestUniqueOfARunningServer(t *testing.T) {
	server, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	env := []string{"OUTRIDER_URL=" + server}
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, []byte(aPush), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(code int, want string, args ...string) string {
		t.Helper()
		o := try(t, env, append([]string{"unique"}, args...)...)
		if o.code != code || !strings.Contains(o.stdout+o.stderr, want) {
			t.Errorf("%v: got %+v, want exit %d with %q", args, o, code, want)
		}
		return o.stdout
	}
	says(exitOK, "no job is a duplicate of it", "explain", file)
	status, body := ask(t, http.DefaultClient, "POST", server+pathPush, aPush)
	if status != 201 {
		t.Fatalf("push: %d %s", status, body)
	}
	id := strings.Split(strings.SplitN(body, `"id":"`, 2)[1], `"`)[0]
	says(exitOK, id, "explain", file)
	says(exitOK, id, "ls", "--state", "available")
	says(exitOK, "no job holds", "ls", "--queue", "other")
	if status, body := ask(t, http.DefaultClient, "POST", server+pathPush, aPush); status != 409 {
		t.Errorf("push again: %d %s", status, body)
	}
	says(exitOK, "of 1 job", "release", id)
	says(exitNotFound, "holds no key any more", "release", id)
	says(exitOK, "no job is a duplicate of it", "explain", file)
	if status, body := ask(t, http.DefaultClient, "POST", server+pathPush, aPush); status != 201 {
		t.Errorf("push after the release: %d %s", status, body)
	}
}
