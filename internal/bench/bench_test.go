package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConnReadsLengthsChunksAndErrors(t *testing.T) {
	long := strings.Repeat("long", 20_000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			_, _ = w.Write(b)
		case "/chunks":
			for range 3 {
				_, _ = io.WriteString(w, long)
				_ = http.NewResponseController(w).Flush()
			}
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	defer srv.Close()
	u, err := ParseTarget(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dialConn(t.Context(), u, "", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct{ path, body, want string }{
		{"/echo", "hello", "hello"},
		{"/chunks", "", long + long + long},
		{"/echo", long, long},
		{"/empty", "", ""},
		{"/echo", "", ""},
	} {
		got, err := c.post(step.path, []byte(step.body))
		if err != nil || string(got) != step.want {
			t.Errorf("%s: got %d bytes, %v; want %d", step.path, len(got), err, len(step.want))
		}
	}
	if _, err := c.post("/nowhere", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an error answer: got %v", err)
	}
	if c.sent != 6 {
		t.Errorf("sent: got %d, want 6", c.sent)
	}
}

func TestAppendClaims(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   []claim
	}{
		{`{"jobs":[{"id":"a","lease_token":"1"},{"id":"b","worker_id":"w","lease_token":"2"}],"job":{"id":"a","lease_token":"1"}}`,
			[]claim{{"z", "0"}, {"a", "1"}, {"b", "2"}}},
		{`{"jobs": [{"type": "t", "id": "a"}, {"id" : "b"}]}`, []claim{{"z", "0"}, {"a", ""}, {"b", ""}}},
		{`{"jobs":[{"id":"a"},{"id":"b","lease_token":"2"}]}`, []claim{{"z", "0"}, {"a", ""}, {"b", "2"}}},
		{`{"jobs":[]}`, []claim{{"z", "0"}}},
	} {
		if got := appendClaims([]claim{{"z", "0"}}, []byte(tt.answer)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.answer, got, tt.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var samples []time.Duration
	for i := range 100 {
		samples = append(samples, time.Duration(100-i)*time.Millisecond)
	}
	if p50, p99 := quantile(samples, 0.5), quantile(samples, 0.99); p50 != 51 || p99 != 100 {
		t.Errorf("got %v and %v", p50, p99)
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}
