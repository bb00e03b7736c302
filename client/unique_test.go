package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

var someKey = strings.Repeat("0a", 32)

func TestEnqueueReadsVerdicts(t *testing.T) {
	t.Parallel()
	alone := func(more string) exchange {
		return exchange{status: 200, body: strings.TrimSuffix(wrapped(id2, ""), "}") + `,"deduplicated":true` + more + `}`}
	}
	against(t, func(c *client.Client) {
		for _, want := range []job.Verdict{job.Ignored, job.Rewritten, job.SameCustomID, job.Deduplicated} {
			rs, err := c.Enqueue(t.Context(), job.Envelope{Type: "mail.send", Args: json.RawMessage(`[1]`), CustomID: "c-1",
				Unique: json.RawMessage(`{"on_conflict":"ignore"}`), Deduplication: json.RawMessage(`{"id":"k"}`)})
			if err != nil || !rs[0].Existing || rs[0].Verdict != want || rs[0].ID != id2 {
				t.Errorf("got %+v, %v, want %s", rs, err, want)
			}
		}
		rs, err := c.Enqueue(t.Context(), mail(""), mail(""), mail(""))
		var got []string
		for _, r := range rs {
			got = append(got, fmt.Sprint(r.Existing, r.Verdict, r.Replaced))
		}
		if want := []string{"true" + string(job.Deduplicated), "false" + string(id2), "trueignored"}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}, alone(""), alone(`,"replaced":true`), alone(`,"duplicate_job_id":true`), alone(`,"deduplication":{"id":"k","mode":"simple","job_id":"`+string(id2)+`"}`),
		exchange{status: 201, body: `{"jobs":[` + object(id1, `,"deduplicated":true`) + "," + object(id1, `,"replaced_job_id":"`+string(id2)+`"`) + "," +
			object(id1, `,"deduplicated":true`) + `],"count":3,"deduplications":[{"index":0}]}`})
}

// A unique key that an earlier element of the same batch holds is not an id that
// is stored already, though the caller has named it.
func TestEnqueueOfTwinsInOneBatch(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		_, err := c.Enqueue(t.Context(), mail(id1), mail(id2))
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Duplicate || e.Details["index"] != 1 || e.Details["existing_job_id"] != string(id1) {
			t.Errorf("got %v, want the server's Duplicate", err)
		}
	}, exchange{status: 409, body: refusal("duplicate", `{"index":1,"existing_job_id":"`+string(id1)+`","unique_key":"`+someKey+`"}`)})
}

// What was met in a round after a Duplicate counts for the same id later in the batch.
func TestEnqueueOfOneIDTwiceThatIsIgnored(t *testing.T) {
	t.Parallel()
	missing := exchange{status: 404, body: refusal("not_found", `{}`)}
	against(t, func(c *client.Client) {
		rs, err := c.Enqueue(t.Context(), mail(id1), mail(id2), mail(id2))
		if err != nil || rs[0].Verdict != job.SameID || rs[1].Verdict != job.Ignored || rs[2].Verdict != job.Ignored || rs[2].ID != id1 {
			t.Errorf("got %+v, %v", rs, err)
		}
	}, exchange{status: 409, body: refusal("duplicate", `{"index":0,"existing_job_id":"`+string(id1)+`"}`)},
		exchange{status: 200, body: wrapped(id1, "")}, missing, missing,
		exchange{status: 200, body: strings.TrimSuffix(wrapped(id1, ""), "}") + `,"deduplicated":true}`})
}

func TestKeyService(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)
	claim := `{"key":"` + someKey + `","job_id":"` + string(id1) + `","type":"a.b","queue":"q","state":"active","since":"2026-02-12T10:30:00.000Z"}`
	against(t, func(c *client.Client) {
		e := mail("")
		e.Unique = json.RawMessage(`{"keys": ["args"]}`)
		checked, err := e.Check()
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.Explain(t.Context(), checked)
		if err != nil || x.Fingerprint != someKey || x.Existing.ID != id1 || x.Policy.OnConflict != job.UniqueIgnore || string(x.Canonical) != `{"type":"é"}` || !x.Frees.Equal(at) {
			t.Errorf("Explain: got %+v, %v", x, err)
		}
		cs, err := c.HeldKeys(t.Context(), job.Filter{Queue: "q", Type: "a.*", States: []job.State{job.Active, job.Pending}, Limit: 300, Dead: true, ErrorType: "x"})
		if err != nil || len(cs.Keys) != 2 || cs.Total != 2 || cs.Next != "" || !cs.Keys[1].Since.Equal(at) {
			t.Errorf("Claims: got %+v, %v", cs, err)
		}
		if n, err := c.ReleaseKey(t.Context(), someKey); err != nil || n != 2 {
			t.Errorf("ReleaseKey: got %d, %v", n, err)
		}
		if n, err := c.ReleaseKey(t.Context(), "../jobs"); err != nil || n != 0 {
			t.Errorf("ReleaseKey of no key: got %d, %v", n, err)
		}
		for _, id := range []string{"order:17/2 %", "..", "."} {
			if j, err := c.DedupOwner(t.Context(), "q", id); err != nil || j.ID != id1 || !j.DedupUntil.Equal(at) {
				t.Errorf("DedupOwner: got %+v, %v", j, err)
			}
		}
		if ok, err := c.ReleaseDedup(t.Context(), "q", "a/b"); err != nil || !ok {
			t.Errorf("ReleaseDedup: got %v, %v", ok, err)
		}
	}, exchange{status: 200, body: `{"policy":{"on_conflict":"ignore"},"canonical":"{\"type\":\"é\"}","fingerprint":"` + someKey + `","answer":"ignored",` +
		`"held_by":{"frees_at":"2026-02-12T10:30:00.000Z"},"job":` + object(id1, "") + `}`},
		exchange{status: 200, body: `{"items":[` + claim + `],"pagination":{"total":2,"has_more":true,"next_cursor":"7.x"}}`},
		exchange{status: 200, body: `{"items":[` + claim + `],"pagination":{"total":1}}`},
		exchange{status: 200, body: `{"released":2}`}, owned, owned, owned, exchange{status: 200, body: `{"released":true}`})
}

var owned = exchange{status: 200, body: `{"job":` + object(id1, "") + `,"expires_at":"2026-02-12T10:30:00.000Z"}`}

func TestKeyServiceAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	empty := exchange{status: 200, body: `{}`}
	against(t, func(c *client.Client) {
		e := mail("")
		e.Unique = json.RawMessage(`{}`)
		checked, err := e.Check()
		if err != nil {
			t.Fatal(err)
		}
		_, explain := c.Explain(t.Context(), checked)
		_, claims := c.HeldKeys(t.Context(), job.Filter{})
		_, key := c.ReleaseKey(t.Context(), someKey)
		_, owner := c.DedupOwner(t.Context(), "q", "k")
		_, dedup := c.ReleaseDedup(t.Context(), "q", "k")
		for i, err := range []error{explain, claims, key, owner, dedup} {
			if job.KindOf(err) != job.Internal || err == nil {
				t.Errorf("%d: got %v", i, err)
			}
		}
	}, empty, exchange{status: 200, body: `[]`}, empty, empty, empty)
}

func TestRaw(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		if body, err := c.Raw(t.Context(), "GET", "/queues?limit=1", nil); err != nil || string(body) != "{ }\n" {
			t.Errorf("got %q, %v", body, err)
		}
		if _, err := c.Raw(t.Context(), "POST", "/unique/explain", []byte(`{}`)); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	}, exchange{status: 200, body: "{ }\n"}, exchange{status: 404, body: refusal("not_found", `{}`)})
}
