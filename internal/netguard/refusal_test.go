package netguard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestRefusalIsAnError: a connection that is one too many is told so as contract
// §1.3 has it, with an id of its own, whatever the setting is called.
func TestRefusalIsAnError(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, setting := range []string{"--max-connections", `a "quoted" \ name`} {
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(refusal(setting))), nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" {
			t.Fatalf("%+v, %v", r, err)
		}
		var body struct {
			Error struct {
				Code, Message, Hint string
				Retryable           bool
				DocsURL             string `json:"docs_url"`
				DocURL              string `json:"doc_url"`
				RequestID           string `json:"request_id"`
			}
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		e := body.Error
		id, err := uuid.Parse(strings.TrimPrefix(e.RequestID, "req_"))
		if err != nil || id.Version() != 7 || !strings.HasPrefix(e.RequestID, "req_") || seen[e.RequestID] || r.Header.Get("X-Request-Id") != e.RequestID {
			t.Errorf("request_id %q, %v", e.RequestID, err)
		}
		seen[e.RequestID] = true
		if e.Code != "backend_error" || !e.Retryable || !strings.HasSuffix(e.Message, "raise "+setting) || e.Hint == "" || e.DocsURL == "" || e.DocURL != e.DocsURL {
			t.Errorf("got %s", raw)
		}
	}
}
