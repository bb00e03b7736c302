//go:build unix

package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/outbox"
)

// The judge compares what the app has committed with what the workers did, in
// SQL over the app's tables: orders as they were placed, with the model of their
// keys, and the history beside them.

// ordersTable has an order a row. email is all that some tests give.
const ordersTable = `CREATE TABLE orders (id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL,
  via VARCHAR(10) NOT NULL DEFAULT '', job_id VARCHAR(36) NOT NULL DEFAULT '', copies INTEGER NOT NULL DEFAULT 1,
  queue VARCHAR(20) NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0, options VARCHAR(700) NOT NULL DEFAULT '',
  placed BIGINT NOT NULL DEFAULT 0, kind VARCHAR(40) NOT NULL DEFAULT 'none', akey VARCHAR(40) NOT NULL DEFAULT '',
  back INTEGER NOT NULL DEFAULT 0, parks INTEGER NOT NULL DEFAULT 0, cancels INTEGER NOT NULL DEFAULT 0, rewrites INTEGER NOT NULL DEFAULT 0)`

// finding is one thing that must not be, and the orders of which it is so.
type finding struct {
	what   string
	orders []int64
}

type law struct{ what, query string }

const ranAgain = "orders whose job ran again after it had ended"

// unanswered are orders of which no job has run, nor another that answers for it.
const unanswered = `SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.order_id = o.id)
AND NOT EXISTS (SELECT 1 FROM orders s JOIN runs r ON r.order_id = s.id WHERE o.akey <> '' AND s.akey = o.akey
  AND (o.back < 0 OR r.acked = 0 OR r.acked >= o.placed - o.back * 1000000)
  AND (o.parks = 0 OR EXISTS (SELECT 1 FROM parked p WHERE p.order_id = o.id)))`

// lostWithTheDisk is README's leave under on_relay: the order was sent to a disk
// that was lost, or to a store in whose place an older one came.
const lostWithTheDisk = ` AND NOT EXISTS (SELECT 1 FROM faults f WHERE f.what IN ('` + diskLost + `', '` + putBack + `') AND f.at >= o.placed
  AND NOT EXISTS (SELECT 1 FROM excuses e WHERE e.fault = f.fault AND e.order_id = o.id))`

// reruns are orders whose job has ended and began again, more often than it is excused.
const reruns = `WITH ended AS (SELECT job_id, min(acked) AS at FROM runs WHERE acked > 0 GROUP BY job_id),
again AS (SELECT r.job_id, min(r.order_id) AS order_id, sum(CASE WHEN r.acked > 0 THEN 1 ELSE 0 END) AS times
  FROM runs r JOIN ended ON ended.job_id = r.job_id WHERE r.began > ended.at GROUP BY r.job_id)
SELECT a.order_id FROM again a JOIN orders o ON o.id = a.order_id
WHERE CASE WHEN a.times > 1 THEN a.times ELSE 1 END > (SELECT count(*) FROM excuses e WHERE e.order_id = o.id)
  + (SELECT count(*) FROM orders s JOIN excuses e ON e.order_id = s.id WHERE o.akey <> '' AND s.akey = o.akey AND s.id <> o.id)
  + {rows of one id}`

// laws are for runs of a server or several, each with a store of its own.
func laws(release outbox.Release, servers int) []law {
	lost := unanswered
	if release == outbox.OnRelay {
		lost += lostWithTheDisk
	}
	again := "0"
	if servers > 1 {
		again = "o.copies - 1" // each of two servers takes one
	}
	return []law{
		{"committed orders that nobody has worked on", lost},
		{ranAgain, strings.Replace(reruns, "{rows of one id}", again, 1)},
		{"runs of orders that were never committed", `SELECT DISTINCT r.order_id FROM runs r LEFT JOIN orders o ON o.id = r.order_id WHERE o.id IS NULL`},
		{"orders whose job has another queue or priority", `SELECT DISTINCT o.id FROM orders o JOIN runs r ON r.order_id = o.id WHERE r.queue <> o.queue OR r.priority <> o.priority`},
		{"orders whose job has another id than their row", `SELECT DISTINCT o.id FROM orders o JOIN runs r ON r.order_id = o.id WHERE o.job_id <> '' AND r.job_id <> o.job_id AND o.rewrites = 0`},
		{"orders with jobs of two ids", `SELECT o.id FROM orders o JOIN runs r ON r.order_id = o.id WHERE o.rewrites = 0 GROUP BY o.id HAVING count(DISTINCT r.job_id) > 1`},
		{"rows that were parked for nothing", `SELECT p.order_id FROM parked p LEFT JOIN orders o ON o.id = p.order_id WHERE o.parks IS NULL OR o.parks = 0`},
	}
}

// storeLaws are for the one store of a test, with its jobs in the table stored.
var storeLaws = []law{
	{"committed orders without a job", `SELECT o.id FROM orders o WHERE o.akey = '' AND NOT EXISTS (SELECT 1 FROM stored j WHERE j.order_id = o.id)`},
	{"orders with two jobs", `SELECT o.id FROM orders o JOIN stored j ON j.order_id = o.id WHERE o.rewrites = 0 GROUP BY o.id HAVING count(*) > 1`},
	{"jobs of orders that were never committed", `SELECT j.order_id FROM stored j LEFT JOIN orders o ON o.id = j.order_id WHERE o.id IS NULL`},
	{"orders whose job is not completed", `SELECT o.id FROM orders o JOIN stored j ON j.order_id = o.id WHERE j.state <> 'completed' AND NOT (o.cancels = 1 AND j.state = 'cancelled')`},
}

// find looks for what is against the laws.
func (s *chaosShop) find(laws []law) (all []finding) {
	s.t.Helper()
	for _, l := range laws {
		f := finding{what: l.what}
		s.each(l.query, func(scan func(...any)) {
			var id int64
			scan(&id)
			f.orders = append(f.orders, id)
		})
		if len(f.orders) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// judge fails the test for all that is wrong, with the whole history of some orders.
func (s *chaosShop) judge(seed uint64, laws []law) {
	s.t.Helper()
	for _, f := range s.find(laws) {
		s.t.Errorf("%s, seed %d: %s: %s", s.d.Name(), seed, f.what, some(f.orders))
		for _, id := range f.orders[:min(len(f.orders), 3)] {
			s.t.Log(s.story(id))
		}
	}
	s.nothingLeft()
}

// nothingLeft fails the test for each row that is left and not parked.
func (s *chaosShop) nothingLeft() {
	s.t.Helper()
	var left []int64
	s.each(`SELECT job_args FROM ojs_outbox WHERE status <> 'parked' ORDER BY id`, func(scan func(...any)) {
		var args string
		scan(&args)
		id, err := orderOf(args)
		s.must(err)
		left = append(left, id)
	})
	if len(left) > 0 {
		s.t.Errorf("rows that are left in the outbox, of the orders: %s; %+v", some(left), s.status())
		s.t.Log(s.story(left[0]))
	}
}

// story is all that is known of an order and of those with its key.
func (s *chaosShop) story(order int64) string {
	s.t.Helper()
	group := fmt.Sprintf(`(SELECT id FROM orders WHERE id = %d UNION SELECT s.id FROM orders o JOIN orders s ON s.akey = o.akey WHERE o.akey <> '' AND o.id = %[1]d)`, order)
	b := &strings.Builder{}
	fmt.Fprintf(b, "order %d and those with its key:\n", order)
	for _, part := range []struct{ name, query string }{
		{"order", `SELECT * FROM orders WHERE id IN ` + group + ` ORDER BY id`},
		{"run", `SELECT * FROM runs WHERE order_id IN ` + group + ` OR job_id IN (SELECT job_id FROM runs WHERE order_id IN ` + group + `) ORDER BY began`},
		{"fault", `SELECT * FROM faults ORDER BY fault`},
		{"excuse", `SELECT fault, order_id, why, count(*) AS times FROM excuses WHERE order_id IN ` + group + ` GROUP BY fault, order_id, why ORDER BY fault`},
		{"parked", `SELECT * FROM parked WHERE order_id IN ` + group},
		{"row", `SELECT id, job_id, status, owner, attempts, created_at, sent_at, error FROM ojs_outbox WHERE job_args LIKE '[` + fmt.Sprint(order) + `]%' OR job_args LIKE '[{"order":` + fmt.Sprint(order) + `,%'`},
	} {
		if s.d.Name() == "postgres" {
			part.query = strings.ReplaceAll(part.query, "job_args LIKE", "job_args::text LIKE")
		}
		s.print(b, part.name, part.query)
	}
	return b.String()
}

func (s *chaosShop) print(b *strings.Builder, name, query string) {
	s.t.Helper()
	rows, err := s.app.Query(query)
	if err != nil {
		fmt.Fprintf(b, "  %s: %v\n", name, err)
		return
	}
	defer rows.Close()
	cols, err := rows.Columns()
	s.must(err)
	values, to := make([]sql.NullString, len(cols)), make([]any, len(cols))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		s.must(rows.Scan(to...))
		fmt.Fprintf(b, "  %s:", name)
		for i, v := range values {
			fmt.Fprintf(b, " %s=%s", cols[i], cmp.Or(v.String, "-"))
		}
		fmt.Fprintln(b)
	}
	s.must(rows.Err())
}

// keepJobs writes the jobs of a store down for storeLaws.
func (s *chaosShop) keepJobs(jobs []storedJob) {
	s.t.Helper()
	s.exec(`CREATE TABLE stored (order_id BIGINT, job_id VARCHAR(36), state VARCHAR(20))`)
	values := make([]string, len(jobs))
	for i, j := range jobs {
		values[i] = fmt.Sprintf("(%d,'%s','%s')", j.order, j.id, j.state)
	}
	s.insert("stored", values)
	s.exec(`CREATE INDEX stored_order_id ON stored (order_id)`)
}
