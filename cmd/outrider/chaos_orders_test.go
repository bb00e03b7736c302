//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

// placed is an order as the app has placed it, with the row or rows of its job.
type placed struct {
	id       int64
	via      string // the way of its row: wayGo or waySQL
	jobID    string // that its row was given; empty: none
	kind     *keyKind
	key      string // shared with the other orders of its group; empty: none
	queue    string
	priority int
	delay    time.Duration
	note     bool   // there is a meta
	shape    string // how its options are spelled
	copies   int    // rows with this one job_id
	at       int64  // microseconds since 1970, before its transaction could commit
}

const (
	wayGo  = "go"  // outbox.Add, by itself or through an adapter
	waySQL = "sql" // a plain INSERT

	shapeBinding = "binding" // the options of the HTTP binding
	shapeFlat    = "flat"    // members of a flat envelope, which says so by its specversion
	shapeNested  = "nested"  // a flat envelope with options in it
)

// keyGroup are orders with one key, one queue and one priority, placed one after the other.
type keyGroup struct {
	kind     *keyKind
	key      string
	queue    string
	priority int
	left     int
}

// drawer draws orders. The same seed and the same calls draw the same orders, but
// for their numbers.
type drawer struct {
	r     *mathrand.Rand
	name  string      // in front of its keys: no two drawers share one
	kinds []*keyKind  // of the orders with a key
	open  []*keyGroup // with orders still to come
	keys  int
}

var chaosQueues = []string{"default", "mail", "urgent"}

// draw draws the order of a number. Half of the rows carry an id, and four in ten a key.
func (d *drawer) draw(id int64) *placed {
	r := d.r
	p := &placed{id: id, kind: noKey, queue: "default", via: waySQL, copies: 1, at: time.Now().UnixMicro()}
	p.shape = []string{shapeBinding, shapeBinding, shapeFlat, shapeNested}[r.IntN(4)]
	p.note = r.IntN(4) == 0
	if r.IntN(3) == 0 {
		p.queue, p.priority = chaosQueues[r.IntN(len(chaosQueues))], r.IntN(21)-10
	}
	if r.IntN(8) == 0 {
		p.delay = time.Duration(r.IntN(1500)) * time.Millisecond
	}
	if len(d.kinds) > 0 && r.IntN(10) < 4 {
		d.keyed(p)
	}
	switch r.IntN(8) {
	case 0, 1:
		p.via = wayGo // Add gives it an id
	case 2:
		p.via, p.jobID = wayGo, newJobID()
	case 3:
		p.jobID = newJobID()
		if p.kind == noKey && r.IntN(4) == 0 {
			p.copies = 2
		}
	}
	if p.kind.sameID {
		p.via, p.jobID = waySQL, p.key
	}
	return p
}

// keyed makes p the next order of a group, an old or a new one.
func (d *drawer) keyed(p *placed) {
	r := d.r
	if len(d.open) < 3 {
		d.keys++
		kind := d.kinds[r.IntN(len(d.kinds))]
		if kind.parks { // seldom: for each row that it parks a relay sends its batch once more
			kind = d.kinds[r.IntN(len(d.kinds))]
		}
		g := &keyGroup{kind, fmt.Sprintf("%s-%d", d.name, d.keys), p.queue, p.priority, 2 + r.IntN(4)}
		if g.kind.sameID {
			g.key, g.left = newJobID(), 2
		}
		d.open = append(d.open, g)
	}
	i := r.IntN(len(d.open))
	g := d.open[i]
	p.kind, p.key, p.queue, p.priority = g.kind, g.key, g.queue, g.priority
	p.delay = 0
	if g.kind.delayed {
		p.delay = time.Duration(500+r.IntN(1000)) * time.Millisecond
	}
	if g.left--; g.left == 0 {
		d.open = append(d.open[:i], d.open[i+1:]...)
	}
}

func newJobID() string { return uuid.Must(uuid.NewV7()).String() }

// args name the order, and where the key is made of them the key.
func (p *placed) args() string {
	if p.kind.inArgs {
		return fmt.Sprintf(`[{"order":%d,"k":"%s"}]`, p.id, p.key)
	}
	return argsOf(p.id)
}

func (p *placed) meta() string {
	var members []string
	if p.kind.inMeta {
		members = append(members, fmt.Sprintf(`"k":"%s"`, p.key))
	}
	if p.note {
		members = append(members, `"note":"as ordered"`)
	}
	if len(members) == 0 {
		return ""
	}
	return "{" + strings.Join(members, ",") + "}"
}

const chaosRetry = `{"max_attempts":100,"initial_interval":"PT0.1S","backoff_strategy":"none","jitter":false}`

// options are the job_options of its row in plain SQL.
func (p *placed) options() string {
	var envelope, rest []string
	add := func(to *[]string, name, value string) {
		if value != "" {
			*to = append(*to, fmt.Sprintf(`"%s":%s`, name, value))
		}
	}
	inner := &rest // what may also stand in options
	if p.shape == shapeFlat {
		inner = &envelope
	}
	if p.shape != shapeBinding {
		add(&envelope, "specversion", `"`+job.SpecVersion+`"`)
	}
	if p.queue != "default" || p.note {
		add(inner, "queue", `"`+p.queue+`"`)
	}
	if p.priority != 0 {
		add(inner, "priority", fmt.Sprint(p.priority))
	}
	if p.delay > 0 {
		add(inner, "delay_ms", fmt.Sprint(p.delay.Milliseconds()))
	}
	add(inner, "retry", chaosRetry)
	outer := &envelope
	if p.shape == shapeBinding {
		outer = &rest
	}
	add(outer, "meta", p.meta())
	add(outer, "unique", p.kind.policy(p.kind.unique, p.key))
	add(outer, "deduplication", p.kind.policy(p.kind.dedup, p.key))
	if p.kind.customID {
		add(&rest, "job_id", `"`+p.key+`"`)
	}
	if p.shape == shapeBinding {
		return "{" + strings.Join(rest, ",") + "}"
	}
	if len(rest) > 0 {
		add(&envelope, "options", "{"+strings.Join(rest, ",")+"}")
	}
	return "{" + strings.Join(envelope, ",") + "}"
}

// envelope is the order's job as a Go program adds it.
func (p *placed) envelope() job.Envelope {
	e := job.Envelope{ID: job.ID(p.jobID), Type: "order.confirm", Args: json.RawMessage(p.args()), Queue: p.queue, Priority: p.priority,
		Delay: p.delay, Retry: json.RawMessage(chaosRetry)}
	raw := func(to *json.RawMessage, s string) {
		if s != "" {
			*to = json.RawMessage(s)
		}
	}
	raw(&e.Meta, p.meta())
	raw(&e.Unique, p.kind.policy(p.kind.unique, p.key))
	raw(&e.Deduplication, p.kind.policy(p.kind.dedup, p.key))
	if p.kind.customID {
		e.CustomID = p.key
	}
	return e
}
