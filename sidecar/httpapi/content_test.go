package httpapi

import (
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// A body says that it is JSON, or nothing (contract §1.2): anything else is a 400
// on every route that takes a body, and no matter on the others.
func TestContentTypes(t *testing.T) {
	h := New(world(), quiet())
	fill := strings.NewReplacer(":id", string(idOne), ":name", "n", ":queue", "q", ":key", strings.Repeat("a", 64))
	verbs := map[string]int{}
	for _, r := range routes(h) {
		if r.Method == echo.RouteNotFound {
			continue
		}
		for sent, fine := range map[string]bool{"": true, "application/json": true, "application/openjobspec+json": true, "Application/JSON; charset=latin1": true,
			"application/openjobspec+json;v=1": true, "text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false,
			"text/json": false, "application/jsonp": false, "application/json, text/plain": false, ";": false} {
			headers := []string{"Content-Type", sent}
			if sent == "" {
				headers = nil
			}
			w := serve(h, r.Method, fill.Replace(r.Path), `{"queues":["mail"]}`, headers...)
			refused := w.Code == 400 && strings.Contains(w.Body.String(), `"received":`)
			if fine && refused {
				t.Errorf("%s %s with Content-Type %q: %d %s", r.Method, r.Path, sent, w.Code, w.Body)
			}
			if refused {
				verbs[r.Method]++
				if e := failureOf(t, w.Body); e.Code != "invalid_request" || e.Details["received"] != sent || !strings.Contains(e.Message, "application/json") {
					t.Errorf("%s %s with Content-Type %q: %+v", r.Method, r.Path, sent, e)
				}
			}
		}
	}
	if verbs["POST"] < 15*7 || verbs["GET"]+verbs["DELETE"]+verbs["HEAD"] > 0 {
		t.Errorf("refused: %v", verbs)
	}
	for _, path := range []string{pushPath, batchPath, fetchPath, ackPath, nackPath, beatPath} {
		if w := serve(h, "POST", path, `{}`, "Content-Type", "text/plain"); w.Code != 400 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// 128 levels are taken and 129 refused, counted over the whole body (contract §1.5).
func TestDepthOfABody(t *testing.T) {
	h := New(world(), quiet())
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for path, text := range map[string]string{pushPath: `{"type":"a.b","args":%}`, pushPath + "?": `{"type":"a.b","args":[],"x_own":%}`,
		fetchPath: `{"queues":["mail"],"x":%}`, ackPath: withJob(`"result":%`), nackPath: withJob(`"error":{"type":"T","message":"m"},"x":%`), beatPath: `{"worker_id":"w","x":%}`} {
		for n, want := range map[int]bool{127: true, 128: false} {
			w := serve(h, "POST", path, strings.Replace(text, "%", nest(n), 1))
			if fine := w.Code < 300; fine != want {
				t.Errorf("%s at %d levels: %d %s", path, n+1, w.Code, w.Body)
			} else if !fine {
				if e := failureOf(t, w.Body); w.Code != 400 || e.Code != "invalid_request" || !strings.Contains(e.Message, "128") {
					t.Errorf("%s: %d %+v", path, w.Code, e)
				}
			}
		}
	}
}
