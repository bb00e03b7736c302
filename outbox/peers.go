package outbox

import (
	"context"
	"database/sql"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What a relay knows of the others that work on its outbox.

// seenLease is another's lease as this relay has seen it.
type seenLease struct {
	until int64         // when it ends
	since time.Duration // Relay.watched when it was first seen to end then
}

// left is the end of the lease of a relay that has said that it stops.
const left = 1

// look reads the leases of the others, and returns the owners whose lease was not
// renewed for so long that they are dead if the database agrees.
func (r *Relay) look(ctx context.Context) (still []string, err error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	seen, over := map[string]seenLease{}, int64(math.MaxInt64)
	err = r.each(ctx, "look for other relays in", func(rows *sql.Rows) (bool, error) {
		var owner string
		var until int64
		if err := rows.Scan(&owner, &until); err != nil {
			return false, err
		}
		s, known := r.seenLeases[owner]
		if !known || s.until != until {
			s = seenLease{until, r.watched}
		}
		seen[owner] = s
		if until == left || r.watched-s.since >= r.o.Lease {
			still = append(still, owner)
		} else {
			over = min(over, until-1)
		}
		return true, nil
	}, r.d.sql.Leases, r.o.Owner)
	if err != nil {
		r.over = 0
		return nil, err
	}
	r.seenLeases, r.over = seen, over
	return still, nil
}

// freeRowsOfDead frees the rows of owners that have died.
func (r *Relay) freeRowsOfDead(ctx context.Context) error {
	if err := r.adopt(ctx); err != nil {
		return err
	}
	still, err := r.look(ctx)
	if err != nil {
		return err
	}
	for _, owner := range still {
		freed := int64(0)
		for {
			n, err := r.change(ctx, "free the rows of a dead relay in", r.d.sql.Free, owner)
			if err != nil {
				return err
			}
			if freed += n; n == 0 {
				break
			}
			if err := r.live(ctx); err != nil {
				return err
			}
		}
		if _, err := r.change(ctx, "note a dead relay in", r.d.sql.Bury, owner); err != nil {
			return err
		}
		if freed > 0 {
			r.more = true
			r.o.Log.Warn("outbox: a job server has not renewed its lease; its rows are sent again under the same job ids",
				"outbox", r.o.Name, "owner", owner, "rows", freed)
		}
	}
	return nil
}

// adopt gives owners that have rows and no lease one that runs out: rows that
// nobody frees would wait for ever. One that lives renews it.
func (r *Relay) adopt(ctx context.Context) error {
	for after := ""; r.d.sql.Holder != ""; {
		owner, leased := "", int64(0)
		err := r.each(ctx, "look for owners in", func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&owner, &leased) }, r.d.sql.Holder, after)
		if err != nil {
			return err
		}
		if owner == "" {
			return nil
		}
		after = owner
		if leased != 0 || owner == r.o.Owner {
			continue
		}
		if _, err := r.change(ctx, "note a relay that is gone in", r.d.sql.Adopt, owner, r.o.Lease.Milliseconds()); err != nil {
			return err
		}
		r.o.Log.Warn("outbox: rows belong to a job server that is not in the table of relays; they are sent again under the same job ids unless it comes back",
			"outbox", r.o.Name, "owner", owner)
	}
	return nil
}

// warnOfPeers says at the start what a lost disk may have lost: this owner is
// new here, and another has sent rows for good within the last day.
func (r *Relay) warnOfPeers(ctx context.Context) error {
	if r.warnedPeers || r.d.sql.Peers == "" {
		return nil
	}
	r.warnedPeers = true
	peers, err := r.peers(ctx, r.o.Now().Add(-24*time.Hour).UnixMilli())
	if err != nil {
		return err
	}
	var lost int64
	var last time.Time
	for _, p := range peers {
		if p.Mode != OnRelay || p.Sent == 0 {
			continue
		}
		if lost += p.Sent; p.Seen.After(last) {
			last = p.Seen
		}
	}
	if r.o.Fresh && lost > 0 {
		r.o.Log.Warn("outbox: this job server's disk is new, and rows of this outbox were sent to another one with on_relay: what had not ended there is lost if its disk is. Bring that disk back, or relay with release on_complete",
			"outbox", r.o.Name, "rows_sent_by_others", lost, "last_seen", last.Format(time.RFC3339))
	}
	return nil
}

// peers are the other relays that were seen since a time in milliseconds.
func (r *Relay) peers(ctx context.Context, since int64) ([]Peer, error) {
	var all []Peer
	if err := r.each(ctx, "look for other relays in", intoPeers(&all), r.d.sql.Peers, since); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p Peer) bool { return p.Owner == r.o.Owner }), nil
}

// intoPeers appends the rows of Statements.Peers.
func intoPeers(all *[]Peer) func(*sql.Rows) (bool, error) {
	return func(rows *sql.Rows) (bool, error) {
		var p Peer
		var seen int64
		var process string
		err := rows.Scan(&p.Owner, &p.Mode, &p.Sent, &seen, &process)
		p.Seen = time.UnixMilli(seen).UTC()
		p.Host, p.PID = hostAndPID(process)
		*all = append(*all, p)
		return true, err
	}
}

// thisProcess is how the table of relays names this process: host:pid. A host may be
// called what no column takes; its name is for people, and cut.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "" // the pid still tells processes apart
	}
	pid := ":" + strconv.Itoa(os.Getpid())
	host = strings.ToValidUTF8(host, "?")
	return string([]rune(host)[:min(utf8.RuneCountInString(host), maxHost-len(pid))]) + pid
}

// maxHost is how many characters the column of the table of relays takes.
const maxHost = 64

// hostAndPID reads what thisProcess has written. The pid is 0 where there is none.
func hostAndPID(process string) (host string, pid int) {
	i := strings.LastIndexByte(process, ':')
	if i < 0 {
		return process, 0
	}
	pid, err := strconv.Atoi(process[i+1:])
	if err != nil || pid < 0 {
		return process, 0
	}
	return process[:i], pid
}
