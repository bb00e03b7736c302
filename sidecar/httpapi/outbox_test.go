package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// fakeOutbox is an outbox of the tests. The one that is named "down" has a
// database that does not answer.
type fakeOutbox struct {
	name  string
	poked int
}

func outboxes() []Outbox { return []Outbox{&fakeOutbox{name: "mail"}, &fakeOutbox{name: "down"}} }

func (f *fakeOutbox) Name() string { return f.name }

func (f *fakeOutbox) Status(context.Context) OutboxStatus {
	s := OutboxStatus{Name: f.name, Database: "postgres://***@db:5432/" + f.name, Table: "ojs_outbox", Release: "on_relay", State: "running",
		Counted: true, Pending: 3, Taken: 2, Sent: 1, Parked: 3, Oldest: noon.Add(-1500 * time.Millisecond), Lag: 1500 * time.Millisecond,
		Relays: []OutboxRelay{{Owner: "0123456789abcdef", Host: "web-1", PID: 4711, Release: "on_relay", Sent: 1200, SeenAt: noon}}}
	if f.name == "down" {
		return OutboxStatus{Name: f.name, Database: s.Database, Table: s.Table, Release: s.Release, State: "trouble",
			Error: "outbox table ojs_outbox: connection refused", ErrorAt: noon}
	}
	return s
}

func (f *fakeOutbox) down() error {
	if f.name == "down" {
		return job.Errorf(job.Unavailable, "outbox table ojs_outbox: connection refused")
	}
	return nil
}

func (f *fakeOutbox) Parked(_ context.Context, after int64, limit int) (rows []OutboxRow, err error) {
	for id := int64(7); id <= 9; id++ {
		if id > after && len(rows) < limit {
			rows = append(rows, OutboxRow{ID: id, Type: "Bad Type", Attempts: 1, CreatedAt: noon, Error: `type has a character that is not allowed, got "Bad Type"`})
		}
	}
	return rows, f.down()
}

func (f *fakeOutbox) Replay(_ context.Context, ids ...int64) (int64, error) {
	if len(ids) == 0 {
		return 3, f.down()
	}
	return int64(len(ids)), f.down()
}

func (f *fakeOutbox) Discard(ctx context.Context, ids ...int64) (int64, error) {
	return f.Replay(ctx, ids...)
}

func (f *fakeOutbox) Poke() { f.poked++ }

func TestPokeReachesEveryOutbox(t *testing.T) {
	o := quiet()
	w := httptest.NewRecorder()
	New(world(), o).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/ojs/v1/outbox/poke", nil))
	for _, b := range o.Outboxes {
		if f := b.(*fakeOutbox); w.Code != http.StatusOK || f.poked != 1 {
			t.Errorf("%s: poked %d times, answer %d", f.name, f.poked, w.Code)
		}
	}
}

func TestWithoutOutboxes(t *testing.T) {
	o := quiet()
	o.Outboxes = nil
	for request, want := range map[string]string{
		"GET /ojs/v1/outbox":             `200 {"outboxes":[],"pagination":{"total":0`,
		"POST /ojs/v1/outbox/poke":       `200 {"poked":0}`,
		"GET /ojs/v1/outbox/mail/parked": `404 `,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		New(world(), o).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil))
		if got := strings.Fields(w.Result().Status)[0] + " " + w.Body.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}
