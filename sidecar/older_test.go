package sidecar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// older is a server that now and then is replaced by one of an older version, which knows
// nothing of many ACKs, and back. The connections break then, but for the
// first time.
type older struct {
	http.Handler
	old atomic.Bool

	mu    sync.Mutex
	asked map[string]int
}

func (o *older) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	what := strings.TrimPrefix(r.URL.Path, "/ojs/v1/workers/")
	if bytes.Contains(body, []byte(`"acks":[`)) {
		what += " many"
	}
	o.mu.Lock()
	o.asked[what]++
	o.mu.Unlock()
	if !o.old.Load() {
		o.Handler.ServeHTTP(w, r)
		return
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"no","retryable":false}}`, code)
	}
	switch what {
	case "next", "next many":
		refuse(http.StatusMethodNotAllowed, "invalid_request") // the path is that of a worker, for GET
	case "ack many":
		refuse(http.StatusBadRequest, "invalid_request") // there is no job_id
	case "/ojs/manifest":
		fmt.Fprint(w, `{"ojs_version":"1.0.0-rc.1","extensions":["events"]}`)
	default:
		o.Handler.ServeHTTP(w, r)
	}
}

// take is how often each request came since.
func (o *older) take() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = map[string]int{}
	return asked
}

// A worker whose server is replaced by an older one, and that by a newer one, goes on:
// every job runs once, and ends.
func TestAWorkerOfAServerThatIsReplaced(t *testing.T) {
	t.Parallel()
	const each = 60
	s := sidecar.New(openStore(t), sidecar.Options{})
	runDuties(t, s)
	o := &older{Handler: httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}), asked: map[string]int{}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var ran atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	w := client.NewWorker(c, client.WorkerOptions{Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	w.HandleFunc("a.b", func(context.Context, *job.Job) error { ran.Add(1); return nil })
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for round, old := range []bool{false, true, false} {
		o.old.Store(old)
		if round == 2 { // what an older server can is not asked again before a connection is lost
			server.CloseClientConnections()
		}
		o.take()
		if _, err := s.Enqueue(ctx, slices.Repeat([]job.Envelope{{Type: "a.b", Args: json.RawMessage(`[]`)}}, each)...); err != nil {
			t.Fatal(err)
		}
		done := func() int64 {
			q, err := s.Queue(ctx, job.DefaultQueue)
			if err != nil {
				t.Fatal(err)
			}
			return q.Counts[job.Completed]
		}
		for end := time.Now().Add(20 * time.Second); done() < int64(each*(round+1)) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if n := done(); n != int64(each*(round+1)) || ran.Load() != n {
			t.Fatalf("round %d: %d jobs are completed, and %d ran", round, n, ran.Load())
		}
		asked := o.take()
		if old && (asked["ack"] != each || asked["next many"]+asked["ack many"] > 2) || !old && (asked["ack"] > 0 || asked["next many"] == 0) {
			t.Errorf("round %d: asked %v", round, asked)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
