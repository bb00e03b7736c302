package sidecar_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// The race: each round, every four of the producers push a job of one key.
const (
	racers = 200
	perKey = 4
	rounds = raceKeys * perKey / racers
)

// push is what a producer sent and was answered.
type push struct {
	key, maker int
	status     int
	body       struct {
		ID           job.ID `json:"id"`
		Deduplicated bool   `json:"deduplicated"`
		Replaced     bool   `json:"replaced"`
		ReplacedID   job.ID `json:"replaced_job_id"`
		Error        struct {
			Code    string         `json:"code"`
			Details map[string]any `json:"details"`
		} `json:"error"`
	}
}

// race lets the producers loose on one sidecar, over HTTP, and returns all
// answers and the file, once the sidecar has stopped. more runs beside them, four
// times.
func race(t *testing.T, body func(key, maker int) string, more func(s *sidecar.Sidecar, stop <-chan struct{})) (all []push, events []job.Event, db *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.db")
	store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = store.Close() // the test has failed already
		}
	}()
	s := sidecar.New(store, sidecar.Options{})
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	defer server.Close()
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: racers}}
	defer hc.CloseIdleConnections()

	stop := make(chan struct{})
	var beside, producers sync.WaitGroup
	for range 4 {
		if more != nil {
			beside.Go(func() { more(s, stop) })
		}
	}
	var mu sync.Mutex
	for p := range racers {
		producers.Go(func() {
			for round := range rounds {
				x := push{key: round*racers/perKey + p%(racers/perKey), maker: p}
				if err := x.send(hc, server.URL, body(x.key, x.maker)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, x)
				mu.Unlock()
			}
		})
	}
	producers.Wait()
	close(stop)
	beside.Wait()
	for after := int64(0); ; {
		es, err := s.Events(t.Context(), job.EventFilter{Types: []string{"job.cancelled", "job.updated"}, After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(es) == 0 {
			break
		}
		events, after = append(events, es...), es[len(es)-1].Seq
	}
	storetest.Audit(t, store)
	closed = true
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = sql.Open("sqlite", "file:"+path+"?mode=ro"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if len(all) != raceKeys*perKey {
		t.Fatalf("got %d answers, want %d", len(all), raceKeys*perKey)
	}
	return all, events, db
}

func (x *push) send(hc *http.Client, url, body string) error {
	resp, err := hc.Post(url+"/ojs/v1/jobs", "application/openjobspec+json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	x.status = resp.StatusCode
	if x.status >= 500 {
		return fmt.Errorf("status %d: %s", x.status, raw)
	}
	return json.NewDecoder(bytes.NewReader(raw)).Decode(&x.body)
}

// live reads the jobs that have not finished by their key, the args, of which there must be one for each key.
func live(t *testing.T, db *sql.DB) map[int]job.ID {
	t.Helper()
	rows, err := db.Query(`SELECT json_extract(args, '$[0].key'), id FROM jobs WHERE state NOT IN ('completed', 'cancelled', 'discarded')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	jobs := map[int]job.ID{}
	for rows.Next() {
		var key int
		var id job.ID
		if err := rows.Scan(&key, &id); err != nil {
			t.Fatal(err)
		}
		if jobs[key] != "" {
			t.Errorf("key %d has two live jobs: %s and %s", key, jobs[key], id)
		}
		jobs[key] = id
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(jobs) != raceKeys {
		t.Errorf("%d keys have a live job, want %d", len(jobs), raceKeys)
	}
	return jobs
}

func number(t *testing.T, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// raceBody is a job whose key is in args; its meta says who made it.
func raceBody(conflict, more string) func(key, maker int) string {
	return func(key, maker int) string {
		return fmt.Sprintf(`{"type":"race.run","args":[{"key":%d,"maker":%d}],"meta":{"maker":%d}%s,"unique":{"keys":["type","args"],"args_keys":["key"],"on_conflict":%q}}`,
			key, maker, maker, more, conflict)
	}
}

// Where one stays, the first of each key is stored and named to all the others.
func TestRaceOfProducersWhereTheFirstStays(t *testing.T) {
	for conflict, second := range map[string]int{"reject": http.StatusConflict, "ignore": http.StatusOK} {
		t.Run(conflict, func(t *testing.T) {
			all, _, db := race(t, raceBody(conflict, ""), nil)
			jobs := live(t, db)
			first := map[int]job.ID{}
			for _, x := range all {
				switch x.status {
				case http.StatusCreated:
					if first[x.key] != "" {
						t.Errorf("key %d was created twice: %s and %s", x.key, first[x.key], x.body.ID)
					}
					if first[x.key] = x.body.ID; x.body.Deduplicated {
						t.Errorf("key %d: a 201 says deduplicated", x.key)
					}
				case second:
				default:
					t.Errorf("key %d: status %d, want 201 or %d", x.key, x.status, second)
				}
			}
			for _, x := range all {
				named := x.body.ID
				if x.status == http.StatusConflict {
					id, _ := x.body.Error.Details["existing_job_id"].(string)
					if named = job.ID(id); x.body.Error.Code != "duplicate" || x.body.Error.Details["existing_job_state"] != "available" || x.body.Error.Details["unique_key"] == nil {
						t.Errorf("key %d: %+v", x.key, x.body.Error)
					}
				}
				if x.status == http.StatusOK && !x.body.Deduplicated {
					t.Errorf("key %d: a 200 does not say deduplicated", x.key)
				}
				if named != first[x.key] || named != jobs[x.key] {
					t.Errorf("key %d: status %d names %s, created was %s and stored is %s", x.key, x.status, named, first[x.key], jobs[x.key])
				}
			}
			if n := number(t, db, `SELECT count(*) FROM jobs`); n != raceKeys {
				t.Errorf("%d jobs are stored, want %d", n, raceKeys)
			}
		})
	}
}

// Where the last stays, every job is stored, and each but the last of its key is
// cancelled by exactly one other. Some of them are at work by then.
func TestRaceOfProducersWhereTheLastStays(t *testing.T) {
	for _, conflict := range []string{"replace", "replace_except_schedule"} {
		t.Run(conflict, func(t *testing.T) {
			all, events, db := race(t, raceBody(conflict, ""), func(s *sidecar.Sidecar, stop <-chan struct{}) {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{job.DefaultQueue}, Count: 20}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			jobs := live(t, db)
			reasons := map[job.ID]string{}
			for _, e := range events {
				var data struct{ Reason string }
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Fatal(err)
				}
				if reasons[e.JobID] != "" {
					t.Errorf("%s was cancelled twice", e.JobID)
				}
				reasons[e.JobID] = data.Reason
			}
			created, replaced := map[job.ID]int{}, map[job.ID]int{}
			for _, x := range all {
				if x.status != http.StatusCreated {
					t.Errorf("key %d: status %d, want 201", x.key, x.status)
				}
				if created[x.body.ID]++; x.body.ReplacedID != "" {
					replaced[x.body.ReplacedID]++
				}
			}
			for id := range created {
				want := ""
				if replaced[id] > 0 {
					want = "replaced"
				}
				if created[id] != 1 || replaced[id] > 1 || reasons[id] != want {
					t.Errorf("%s: created %d times, replaced %d times, cancelled with reason %q", id, created[id], replaced[id], reasons[id])
				}
			}
			for key, id := range jobs {
				if created[id] != 1 || replaced[id] != 0 {
					t.Errorf("key %d: %s is alive, created %d times, replaced %d times", key, id, created[id], replaced[id])
				}
			}
			cancelled := number(t, db, `SELECT count(*) FROM jobs WHERE state = 'cancelled'`)
			if want := raceKeys * (perKey - 1); len(created) != raceKeys*perKey || len(replaced) != want || cancelled != want {
				t.Errorf("%d created, %d replaced, %d cancelled; want %d and twice %d", len(created), len(replaced), cancelled, raceKeys*perKey, want)
			}
			if number(t, db, `SELECT count(*) FROM jobs WHERE started_at IS NOT NULL AND state = 'cancelled'`) == 0 {
				t.Log("no job was at work when it was replaced")
			}
		})
	}
}

// Scheduled jobs are rewritten where they stand: one job, one 201, and the
// args and meta of one of those that asked.
func TestRaceOfProducersForScheduledJobs(t *testing.T) {
	all, events, db := race(t, raceBody("replace_except_schedule", `,"delay_ms":3600000`), nil)
	jobs := live(t, db)
	created := map[int]int{}
	for _, x := range all {
		switch {
		case x.status == http.StatusCreated && !x.body.Deduplicated && !x.body.Replaced:
			created[x.key]++
		case x.status != http.StatusOK || !x.body.Deduplicated || !x.body.Replaced:
			t.Errorf("key %d: %+v", x.key, x)
		}
		if x.body.ID != jobs[x.key] {
			t.Errorf("key %d: %s answers, stored is %s", x.key, x.body.ID, jobs[x.key])
		}
	}
	for key := range raceKeys {
		if created[key] != 1 {
			t.Errorf("key %d was created %d times", key, created[key])
		}
	}
	updated := 0
	for _, e := range events {
		if e.Type != "job.updated" {
			t.Errorf("%s of %s", e.Type, e.JobID)
		}
		updated++
	}
	torn := number(t, db, `SELECT count(*) FROM jobs WHERE json_extract(args, '$[0].maker') <> json_extract(meta, '$.maker')
		OR json_extract(args, '$[0].maker') % ? <> json_extract(args, '$[0].key') % ?`, racers/perKey, racers/perKey)
	n := number(t, db, `SELECT count(*) FROM jobs WHERE state = 'scheduled'`)
	if torn != 0 || n != raceKeys || updated != raceKeys*(perKey-1) || number(t, db, `SELECT count(*) FROM jobs`) != raceKeys {
		t.Errorf("%d jobs mix two producers, %d are scheduled, %d updates; want none, %d and %d", torn, n, updated, raceKeys, raceKeys*(perKey-1))
	}
}

// Whoever reads while a job is replaced sees the old one or the new one: never
// both alive, and never neither.
func TestReadersWhileAJobIsReplaced(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	s := sidecar.New(store, sidecar.Options{})
	e := job.Envelope{Type: "race.run", Args: json.RawMessage(`[]`), Unique: json.RawMessage(`{"on_conflict":"replace"}`)}
	rs, err := s.Enqueue(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	key, done := rs[0].Fingerprint, make(chan struct{})
	look := func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{States: []job.State{job.Available}, Limit: 9})
		if err != nil {
			return err
		}
		twins, err := tx.Twins(key, "")
		if err != nil {
			return err
		}
		if len(page.Jobs) != 1 || page.Total != 1 || len(twins) == 0 || twins[0].ID != page.Jobs[0].ID || twins[0].Holds == 0 {
			t.Errorf("%d of %d are alive, the twins are %d", len(page.Jobs), page.Total, len(twins))
		}
		return nil
	}
	var readers sync.WaitGroup
	var looks atomic.Int64
	for range 4 {
		readers.Go(func() {
			for {
				if err := store.View(t.Context(), look); err != nil {
					t.Error(err)
					return
				}
				looks.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for last := rs[0].ID; looks.Load() < 400 && !t.Failed(); last = rs[0].ID {
		if rs, err = s.Enqueue(t.Context(), e); err != nil || rs[0].Replaced != last {
			t.Errorf("%+v, %v: want %s replaced", rs, err, last)
			break
		}
	}
	close(done)
	readers.Wait()
}
