// Package rawjson reads and writes JSON text without decoding it: is it valid, which
// members has it, this object without that member, one more member behind the last.
// It imports nothing of this module and knows no job: which names mean what, how deep
// a body may be nested, and which kind of error a fault is, others decide. What it
// reads beside [Valid] must have been found valid before; it never checks that again.
package rawjson
