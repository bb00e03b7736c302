package webhooks

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The cases EXT-WHK-001..005 against the defaults, under which nothing is sent.
func TestSuiteOfWebhooks(t *testing.T) {
	_, _, url, _ := served(t)
	ask := func(method, path, body string, status int) (got map[string]any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/ojs/v1/webhooks/subscriptions"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		raw, _ := io.ReadAll(a.Body)
		if err := json.Unmarshal(raw, &got); err != nil || a.StatusCode != status {
			t.Fatalf("%s %s: %d %s", method, path, a.StatusCode, raw)
		}
		return got
	}
	made := ask("POST", "", `{"url":"https://example.com/webhook","events":["job.completed","job.failed"],"secret":"test-secret"}`, 201)
	s := made["subscription"].(map[string]any)
	id := s["id"].(string)
	if s["active"] != true || len(s["events"].([]any)) != 2 || made["id"] != id || made["secret"] != "test-secret" || s["warnings"] == nil {
		t.Errorf("%v", made)
	}
	if list := ask("GET", "", "", 200); len(list["subscriptions"].([]any)) < 1 || list["total"] != 1.0 {
		t.Errorf("%v", list)
	}
	changed := ask("PATCH", "/"+id, `{"events":["job.*"],"active":false}`, 200)["subscription"].(map[string]any)
	if changed["active"] != false || len(changed["events"].([]any)) != 1 || changed["secret"] != nil {
		t.Errorf("%v", changed)
	}
	if one := ask("GET", "/"+id, "", 200); one["subscription"].(map[string]any)["id"] != id || one["url"] != "https://example.com/webhook" {
		t.Errorf("%v", one)
	}
	if gone := ask("DELETE", "/"+id, "", 200); gone["deleted"] != true || gone["id"] != id {
		t.Errorf("%v", gone)
	}
	ask("GET", "/"+id, "", 404)
	ask("POST", "", `{"url":"not a url","events":["job.completed"]}`, 400)
	ask("POST", "", `{"url":"https://example.com/","events":[]}`, 400)
}
