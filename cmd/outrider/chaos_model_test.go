//go:build unix

package main

import "strings"

// keyKind is one way in which several orders share one job, and the model of what
// becomes of them (contract §4.10, §4.11). An order is worked on when a job has
// run with its args, or when one of its group has run that answers for it. Two
// relays keep no order between them, and a key is unique in one file only: so any
// order of the group may answer, and each may have a job of its own.
type keyKind struct {
	name          string
	unique, dedup string // the policy, with KEY in it
	inArgs        bool   // the key is a member of the args
	inMeta        bool   // the key is a member of meta
	customID      bool   // the key is a custom id
	sameID        bool   // the key is the job's id, and the contents differ
	delayed       bool   // the jobs are scheduled

	// back is how long before its own placing a run may have ended that answers
	// for an order, in seconds; ever: since the first of its group. With 0 only a
	// job that was live answers.
	back     int
	parks    bool // the row of an order that another answers for is parked
	cancels  bool // a job of the group may be cancelled by another
	rewrites bool // a job of the group may run with the args of another
}

const ever = -1

var noKey = &keyKind{name: "none"}

var keyKinds = []*keyKind{
	{name: "reject", unique: `{"keys":["meta"],"meta_keys":["k"]}`, inMeta: true, parks: true},
	{name: "ignore", unique: `{"keys":["args"],"args_keys":["k"],"on_conflict":"ignore"}`, inArgs: true},
	{name: "replace", unique: `{"keys":["meta"],"meta_keys":["k"],"on_conflict":"replace"}`, inMeta: true, cancels: true},
	{name: "replace_except_schedule", unique: `{"keys":["args"],"args_keys":["k"],"on_conflict":"replace_except_schedule"}`,
		inArgs: true, delayed: true, cancels: true, rewrites: true},
	{name: "ignore the completed", unique: `{"keys":["args"],"args_keys":["k"],"on_conflict":"ignore","period":"PT3S","states":["scheduled","available","active","retryable","completed"]}`,
		inArgs: true, back: 3},
	{name: "simple", dedup: `{"id":"KEY"}`},
	{name: "throttle", dedup: `{"id":"KEY","ttl":2}`, back: 2},
	{name: "extend", dedup: `{"id":"KEY","ttl":1,"extend":true}`, back: ever},
	{name: "debounce", dedup: `{"id":"KEY","replace":true}`, delayed: true, cancels: true},
	{name: "debounce and extend", dedup: `{"id":"KEY","ttl":2,"extend":true,"replace":true}`, delayed: true, cancels: true, back: ever},
	{name: "custom id", customID: true, back: ever},
}

// clash are two orders that were given one job id by mistake. One server tells
// them apart: the second is parked. Two servers with a store each cannot.
var clash = &keyKind{name: "one id, two contents", sameID: true, back: ever, parks: true}

func (k *keyKind) policy(of, key string) string { return strings.ReplaceAll(of, "KEY", key) }

// kindOf is the kind of a name, as it is kept with the orders.
func kindOf(name string) *keyKind {
	for _, k := range append([]*keyKind{noKey, clash}, keyKinds...) {
		if k.name == name {
			return k
		}
	}
	return nil
}
