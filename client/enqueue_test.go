package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func TestEnqueueOne(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		e := job.Envelope{Type: "mail.send", Args: json.RawMessage(`[ "<é>", 1e2 ]`), Queue: "mail", Delay: time.Second, Meta: json.RawMessage(`{"k": 1}`)}
		rs, err := c.Enqueue(t.Context(), e)
		if err != nil || len(rs) != 1 || rs[0].Existing || rs[0].ID != id1 || rs[0].State != job.Available {
			t.Errorf("got %+v, %v", rs, err)
		}
	}, exchange{status: 201, body: wrapped(id1, "")})
}

func TestEnqueueManyInOneRequest(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		rs, err := c.Enqueue(t.Context(), mail(id1), mail(""))
		if err != nil || len(rs) != 2 || rs[0].ID != id1 || rs[1].ID != id2 {
			t.Errorf("got %+v, %v", rs, err)
		}
	}, exchange{status: 201, body: `{"jobs":[` + object(id1, "") + "," + object(id2, "") + `],"count":2}`})
}

func TestEnqueueNothing(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		if rs, err := c.Enqueue(t.Context()); err != nil || len(rs) != 0 {
			t.Errorf("got %v, %v", rs, err)
		}
	})
}

func TestEnqueueChecksBeforeItSends(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		bad := mail("")
		bad.Args = json.RawMessage(`[1`)
		_, err := c.Enqueue(t.Context(), mail(""), bad)
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Invalid || e.Details["field"] != "args" || e.Details["index"] != 1 {
			t.Errorf("got %v", err)
		}
	})
}

func TestEnqueueOfAStoredIDIsNoError(t *testing.T) {
	t.Parallel()
	taken := refusal("duplicate", `{"existing_job_id":"`+string(id1)+`"}`)
	against(t, func(c *client.Client) {
		rs, err := c.Enqueue(t.Context(), mail(id1))
		if err != nil || !rs[0].Existing || rs[0].ID != id1 {
			t.Errorf("got %+v, %v", rs, err)
		}
	}, exchange{status: 409, body: taken}, exchange{status: 200, body: wrapped(id1, "")})
}

func TestEnqueueOfAStoredIDWithAnotherContent(t *testing.T) {
	t.Parallel()
	taken := refusal("duplicate", `{"existing_job_id":"`+string(id1)+`"}`)
	against(t, func(c *client.Client) {
		e := mail(id1)
		e.Args = json.RawMessage(`[2]`)
		_, err := c.Enqueue(t.Context(), e)
		if job.KindOf(err) != job.Duplicate {
			t.Errorf("got %v, want a Duplicate", err)
		}
	}, exchange{status: 409, body: taken}, exchange{status: 200, body: wrapped(id1, "")})
}

func TestEnqueueOfATakenUniqueKey(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		_, err := c.Enqueue(t.Context(), mail(id1))
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Duplicate || e.Details["existing_job_id"] != string(id2) {
			t.Errorf("got %v, want the server's Duplicate", err)
		}
	}, exchange{status: 409, body: refusal("duplicate", `{"existing_job_id":"`+string(id2)+`"}`)})
}

func TestEnqueueSendsOnlyWhatIsNotStored(t *testing.T) {
	t.Parallel()
	taken := refusal("duplicate", `{"index":1,"existing_job_id":"`+string(id1)+`"}`)
	missing := refusal("not_found", `{}`)
	against(t, func(c *client.Client) {
		rs, err := c.Enqueue(t.Context(), mail(""), mail(id1), mail(id2), mail(id2))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rs {
			got = append(got, fmt.Sprint(r.ID[35:], r.Existing))
		}
		if want := "[9false ftrue 0false 0true]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}, exchange{status: 409, body: taken}, exchange{status: 200, body: wrapped(id1, "")},
		exchange{status: 404, body: missing}, exchange{status: 404, body: missing},
		exchange{status: 201, body: `{"jobs":[` + object("019539a4-b68c-7def-8000-1a2b3c4d5e79", "") + "," + object(id2, "") + `]}`})
}

func TestEnqueueKeepsTheIndexOfAnErrorAfterADuplicate(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		_, err := c.Enqueue(t.Context(), mail(id1), mail(""), mail(""))
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Invalid || e.Details["index"] != 2 {
			t.Errorf("got %#v, want Invalid at index 2", err)
		}
	}, exchange{status: 409, body: refusal("duplicate", `{"index":0,"existing_job_id":"`+string(id1)+`"}`)},
		exchange{status: 200, body: wrapped(id1, "")},
		exchange{status: 400, body: refusal("invalid_request", `{"index":1}`)})
}
