//go:build unix

package main

import (
	"database/sql"
	"slices"
	"testing"
)

// storedJob is a job in the file of a job server.
type storedJob struct {
	id    string
	order int64
	state string
	seq   int64
}

// jobsIn are the jobs of a server that has stopped, in the order of their coming.
func jobsIn(t *testing.T, path string) (jobs []storedJob) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var whole string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&whole); err != nil || whole != "ok" {
		t.Errorf("the server's file: %s, %v", whole, err)
	}
	return jobsOf(t, db)
}

func jobsOf(t *testing.T, db *sql.DB) (jobs []storedJob) {
	t.Helper()
	rows, err := db.Query(`SELECT id, coalesce(json_extract(args, '$[0].order'), json_extract(args, '$[0]')), state, seq FROM jobs ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var j storedJob
		if err := rows.Scan(&j.id, &j.order, &j.state, &j.seq); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// verdict is what is wrong between the orders of an app and the jobs of a server.
type verdict struct {
	missing  []int64 // committed, and no job
	twice    []int64 // more than one job
	phantom  []int64 // a job, and no such order
	unending []int64 // a job that has not been completed
}

// audit joins committed orders with jobs.
func audit(committed []int64, jobs []storedJob) (v verdict) {
	is := make(map[int64]int, len(committed))
	for _, id := range committed {
		is[id] = 0
	}
	for _, j := range jobs {
		n, known := is[j.order]
		if !known {
			v.phantom = append(v.phantom, j.order)
			continue
		}
		if is[j.order] = n + 1; n == 1 {
			v.twice = append(v.twice, j.order)
		}
		if j.state != "completed" {
			v.unending = append(v.unending, j.order)
		}
	}
	for _, id := range committed {
		if is[id] == 0 {
			v.missing = append(v.missing, id)
		}
	}
	return v
}

// emptyOutbox fails the test for each row that is left.
func (s *chaosShop) emptyOutbox() {
	s.t.Helper()
	var n int64
	s.must(s.app.QueryRow(`SELECT count(*) FROM ojs_outbox`).Scan(&n))
	if n > 0 {
		s.t.Errorf("%d rows are left in the outbox: %+v", n, s.status())
		parked, err := outboxParked(s)
		s.t.Logf("parked, such as: %+v, %v", parked, err)
	}
}

// TestTheAuditorHasTeeth: what is lost, doubled, invented or left lying is seen.
func TestTheAuditorHasTeeth(t *testing.T) {
	committed := []int64{1, 2, 3, 4}
	good := []storedJob{{order: 1, state: "completed"}, {order: 2, state: "completed"}, {order: 3, state: "completed"}, {order: 4, state: "completed"}}
	if v := audit(committed, good); len(v.missing)+len(v.twice)+len(v.phantom)+len(v.unending) > 0 {
		t.Errorf("found %+v where nothing is wrong", v)
	}
	bad := []storedJob{{order: 1, state: "completed"}, {order: 2, state: "active"}, {order: 4, state: "completed"}, {order: 4, state: "completed"}, {order: 9, state: "completed"}}
	v := audit(committed, bad)
	if !slices.Equal(v.missing, []int64{3}) || !slices.Equal(v.twice, []int64{4}) || !slices.Equal(v.phantom, []int64{9}) || !slices.Equal(v.unending, []int64{2}) {
		t.Errorf("got %+v", v)
	}
}
