package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// The table is read in both directions, so every kind must be in it once, and
// no two kinds may look alike on the wire.
func TestAnswersAreOneToOne(t *testing.T) {
	type pair struct {
		status int
		code   string
	}
	kinds, pairs := map[job.Kind]bool{}, map[pair]job.Kind{}
	for _, a := range answers {
		p := pair{a.Status, a.Code}
		if other, twice := pairs[p]; twice {
			t.Errorf("kinds %d and %d are both %d %s", other, a.Kind, a.Status, a.Code)
		}
		if kinds[a.Kind] {
			t.Errorf("kind %d has two rows", a.Kind)
		}
		kinds[a.Kind], pairs[p] = true, a.Kind
		if a.Hint == "" || a.Code == "" || http.StatusText(a.Status) == "" {
			t.Errorf("row %+v is not complete", a)
		}
	}
	// Unavailable is the last kind; whoever adds one must move this.
	for k := job.Internal; k <= job.Unavailable; k++ {
		if !kinds[k] {
			t.Errorf("kind %d has no row", k)
		}
	}
	if len(kinds) != int(job.Unavailable)+1 {
		t.Errorf("%d rows for %d kinds", len(kinds), job.Unavailable+1)
	}
}

// What the server encodes the client decodes: the same kind, message and details.
func TestErrorsRoundTrip(t *testing.T) {
	for _, a := range answers {
		in := &job.Error{Kind: a.Kind, Message: "what <happened> & why", Details: map[string]any{"field": "x", "size": 1048577, "share": 0.5}}
		status, body := EncodeError(in, "req_1")
		if status != a.Status {
			t.Errorf("kind %d: status %d, want %d", a.Kind, status, a.Status)
		}
		var out *job.Error
		if err := DecodeError(status, body); !errors.As(err, &out) {
			t.Fatalf("kind %d: %v is no *job.Error", a.Kind, err)
		}
		if out.Kind != a.Kind {
			t.Errorf("kind %d came back as %d from %s", a.Kind, out.Kind, body)
		}
		if a.Kind == job.Internal {
			if strings.Contains(string(body), "happened") || out.Details != nil {
				t.Errorf("an internal error is told: %s", body)
			}
			continue
		}
		if out.Message != in.Message || out.Details["field"] != "x" || out.Details["size"] != 1048577 || out.Details["share"] != 0.5 {
			t.Errorf("kind %d: got %+v from %s", a.Kind, out, body)
		}
	}
}

func TestEncodeErrorBody(t *testing.T) {
	for _, tt := range []struct {
		err       error
		kind      string // "type" of the body
		retryable bool
	}{
		{job.Errorf(job.Invalid, "x"), "validation_error", false},
		{job.Errorf(job.BadRetry, "x"), "validation_error", false},
		{job.Errorf(job.Malformed, "x"), "", false},
		{job.Errorf(job.Unavailable, "x"), "", true},
		{errors.New("foreign"), "", true},
		{&job.Error{Kind: job.Conflict, Message: "x", Details: map[string]any{"f": func() {}}}, "", false},
	} {
		_, raw := EncodeError(tt.err, "req_1")
		var b struct{ Error map[string]any }
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		e := b.Error
		if e["retryable"] != tt.retryable || e["request_id"] != "req_1" || e["hint"] == "" || e["docs_url"] != Docs || e["doc_url"] != Docs {
			t.Errorf("%v: %s", tt.err, raw)
		}
		if got, _ := e["type"].(string); got != tt.kind {
			t.Errorf("%v: type %q, want %q", tt.err, got, tt.kind)
		}
	}
}

func TestKindOfUnknownPairs(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		want   job.Kind
	}{
		{400, "schema_validation", job.SchemaViolation}, {401, "unauthenticated", job.Unauthenticated}, {404, "", job.NotFound},
		{408, "timeout", job.Unavailable}, {409, "other", job.Conflict}, {418, "", job.Invalid},
		{422, "queue_paused", job.QueueClosed}, {422, "other", job.Unsupported}, {429, "QUEUE_FULL", job.QueueFull}, {429, "rate_limited", job.Unavailable}, {429, "", job.Unavailable},
		{500, "", job.Internal}, {502, "", job.Unavailable}, {503, "", job.Unavailable}, {504, "", job.Unavailable},
	} {
		if got := KindOf(tt.status, tt.code); got != tt.want {
			t.Errorf("KindOf(%d, %q) = %d, want %d", tt.status, tt.code, got, tt.want)
		}
	}
}

// An answer that no job server gives is no verdict about what was asked, whatever its status.
func TestDecodeErrorOfAnotherServer(t *testing.T) {
	kinds := map[int]job.Kind{401: job.Unauthenticated, 403: job.Forbidden, 413: job.TooLarge, 500: job.Internal}
	for _, body := range []string{"", "<html>", `{"error":"text"}`, `{"error":{"message":""}}`, `{"error":{"message":"no"}}`, `{"error":{"code":422,"message":"no"}}`, `[]`,
		`{"error":{"code":"BadRequest","message":"no"}}`, `{"error":{"code":"INVALID_REQUEST","message":"no","retryable":null}}`} {
		for _, status := range []int{204, 301, 302, 307, 400, 401, 403, 404, 405, 408, 409, 410, 413, 418, 422, 429, 500, 502, 503} {
			want, special := kinds[status]
			if !special {
				want = job.Unavailable
			}
			if err := DecodeError(status, []byte(body)); job.KindOf(err) != want || !errors.Is(err, job.ErrForeign) || err.Error() == "" {
				t.Errorf("%d %q: got %v of kind %d", status, body, err, job.KindOf(err))
			}
		}
	}
	for body, want := range map[string]job.Kind{`{"error":{"code":"queue_paused","message":"m","retryable":true}}`: job.QueueClosed,
		`{"error":{"code":"x_later","message":"m","retryable":true}}`:          job.Unavailable,
		`{"error":{"code":"INVALID_REQUEST","message":"m","retryable":false}}`: job.Unsupported,
		`{"error":{"code":"x_own","message":"m"}}`:                             job.Unsupported,
		`{"error":{"code":"queue_paused","message":"m"}}`:                      job.QueueClosed} {
		if err := DecodeError(422, []byte(body)); job.KindOf(err) != want || errors.Is(err, job.ErrForeign) {
			t.Errorf("%s: got kind %d", body, job.KindOf(err))
		}
	}
}

func TestAtIndexNamesTheElementOnce(t *testing.T) {
	in := job.Errorf(job.Invalid, "args is required")
	in.Details = map[string]any{"field": "args"}
	err := AtIndex(AtIndex(in, 3), 3)
	var e *job.Error
	if !errors.As(err, &e) || e.Message != "jobs[3]: args is required" || e.Details["index"] != 3 || e.Details["field"] != "args" || e.Kind != job.Invalid {
		t.Errorf("got %+v", e)
	}
	if in.Details["index"] != nil {
		t.Error("AtIndex changed its argument")
	}
}
