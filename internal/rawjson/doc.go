// Package rawjson reads and writes JSON text without decoding it: is it valid, which
// members has it, this object without that member, one more member behind the last, its
// canonical form (RFC 8785). It imports nothing of this module and must never decide what
// a name means, how deep a body may be nested, or which kind of error a fault is: those
// who call it do. What it reads beside [Valid] and [Canonical] must be valid already; it
// does not check that again.
package rawjson
