//go:build unix

package main

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// TestChaosOfSharedTicks: three servers with disks of their own keep one file of
// schedules and agree in one outbox on who makes the job of a tick. One of them
// is always being killed. Each tick makes one job among them.
func TestChaosOfSharedTicks(t *testing.T) { onShopsAtOnce(t, chaosOfSharedTicks) }

// crew are servers with one outbox and one file of schedules.
type crew struct {
	kept  []*keeper
	urls  []string
	paths []string
	felt  []*pulse
	shop  *pulse // of the database they share
	still []func()
}

func crewOf(t *testing.T, s *chaosShop, n int, crons string) *crew {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crons.yaml")
	writeFile(t, file, crons)
	w := &crew{}
	for i := range n {
		addr, path := freePort(t), filepath.Join(t.TempDir(), "jobs.db")
		k := keep(t, fmt.Sprintf("server %d", i+1), "serve", "--listen", addr, "--db", path,
			"--outbox", s.dsn, "--outbox-lease", "2s", "--cron-file", file, "--cron-coordination", "outbox")
		w.kept, w.urls, w.paths = append(w.kept, k), append(w.urls, "http://"+addr), append(w.paths, path)
	}
	for i, k := range w.kept {
		up(t, k, w.urls[i])
		p, still := feelServer(t, w.urls[i])
		w.felt, w.still = append(w.felt, p), append(w.still, still)
	}
	order := int64(0)
	p, still := feel(t, func(context.Context) error {
		order++
		return s.oneOrder(order, false)
	})
	w.shop, w.still = p, append(w.still, still)
	return w
}

// owed reports whether a tick may not be lost: two of the servers lived from then
// to a second after, and neither they nor the database were slow.
func (w *crew) owed(tick time.Time) bool {
	n := 0
	for _, p := range w.felt {
		if p.steady(tick) {
			n++
		}
	}
	return n >= 2 && w.shop.steady(tick)
}

// sharedCrons is a file with n schedules of each second.
func sharedCrons(n int) string {
	var b strings.Builder
	b.WriteString("crons:\n")
	for i := range n {
		expression := []string{"* * * * * *", "@every 1s"}[i%2]
		fmt.Fprintf(&b, "  - {name: second-%03d, cron: %q, overlap_policy: allow, type: chaos.tick}\n", i, expression)
	}
	return b.String()
}

func chaosOfSharedTicks(t *testing.T, s *chaosShop) {
	rows, seed := chaosRows(t, 300), uint64(time.Now().UnixNano())
	r := mathrand.New(mathrand.NewPCG(seed, 0))
	n, least := 30, 4
	switch {
	case rows >= 5000:
		n = 100
	case raced:
		least = 2
	}
	w := crewOf(t, s, 3, sharedCrons(n))
	kills, began := 0, time.Now()
	for kills < least || int(time.Since(began).Seconds())*n < rows {
		wait := time.Second + time.Duration(r.Int64N(int64(1500*time.Millisecond)))
		if r.IntN(2) == 0 {
			time.Sleep(wait)
			s.sightTick()
		} else {
			moment(r, wait)
		}
		i := r.IntN(len(w.kept))
		w.kept[i].crash(func() { time.Sleep(time.Duration(r.Int64N(int64(time.Second)))) })
		up(t, w.kept[i], w.urls[i]) // before another is killed
		kills++
	}
	ended := time.Now()
	for i := range w.kept {
		decidedUntil(t, clientOf(t, w.urls[i]), ended)
	}
	for _, still := range w.still {
		still()
	}
	for _, k := range w.kept {
		k.stop()
	}
	stopped := time.Now()

	var books []*cronBook
	for _, path := range w.paths {
		books = append(books, bookOf(t, path))
	}
	f := &sharedFaults{}
	ticks := s.ticks()
	doubles := f.jobs(books, ticks, s.rowsOfTicks())
	gaps, owed := f.seconds(books, ticks, stopped, w.owed)
	f.counts(books)
	f.report(t, n, books)
	judged(t, owed)
	t.Logf("%s, seed %d: %d schedules, %d kills in %v: %d ticks made jobs, %d of them no excuse would be heard for, %d were missed by all, %d jobs are on two disks; the servers made %v",
		s.d.Name(), seed, n, kills, ended.Sub(began).Round(time.Second), len(ticks), owed, gaps, doubles, f.made)
}

// sightTick waits until a server has just decided a tick in the outbox, and has
// not noted it on its own disk yet.
func (s *chaosShop) sightTick() {
	s.t.Helper()
	newest := func() (at int64) {
		s.must(s.app.QueryRow(`SELECT coalesce(max(at), 0) FROM ojs_outbox_ticks`).Scan(&at))
		return at
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	for before, end := newest(), time.Now().Add(2*time.Second); newest() == before && time.Now().Before(end); {
		continue
	}
}

// cronTick is a tick of a schedule, in milliseconds since 1970.
type cronTick struct {
	name string
	at   int64
}

func (c cronTick) String() string { return c.name + " at " + job.FormatTime(time.UnixMilli(c.at)) }

// ticks are those that the servers have decided together, with their jobs.
func (s *chaosShop) ticks() map[cronTick]job.ID {
	s.t.Helper()
	all := map[cronTick]job.ID{}
	rows, err := s.app.Query(`SELECT name, at, coalesce(job_id, '') FROM ojs_outbox_ticks WHERE name <> ''`)
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var c cronTick
		var id job.ID
		s.must(rows.Scan(&c.name, &c.at, &id))
		all[c] = id
	}
	s.must(rows.Err())
	return all
}

// rowsOfTicks are the ticks whose jobs are in the outbox still, with their jobs.
func (s *chaosShop) rowsOfTicks() map[job.ID]cronTick {
	s.t.Helper()
	all := map[job.ID]cronTick{}
	rows, err := s.app.Query(`SELECT job_id, job_options FROM ojs_outbox`)
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var id job.ID
		var options string
		s.must(rows.Scan(&id, &options))
		c, err := job.ParseEnvelope([]byte(`{"type":"chaos.tick","args":[],"options":` + options + `}`))
		s.must(err)
		m := cronMetaIn(c.Envelope().Meta)
		all[id] = cronTick{m.Name, m.At.UnixMilli()}
	}
	s.must(rows.Err())
	return all
}
