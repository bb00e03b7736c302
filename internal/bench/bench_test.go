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
	c, err := dialConn(t.Context(), u, time.Now().Add(time.Minute))
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
	answer := `{"jobs":[{"id":"a","lease_token":"1"},{"id":"b","worker":"w","lease_token":"2"}],"job":{"id":"a","lease_token":"1"}}`
	got, err := appendClaims([]claim{{"z", "0"}}, []byte(answer))
	if want := []claim{{"z", "0"}, {"a", "1"}, {"b", "2"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := appendClaims(nil, []byte(`{"jobs":[]}`)); err != nil || got != nil {
		t.Errorf("empty: got %v, %v", got, err)
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
