// Package job says what a job is, what it may become and what may be asked of it.
//
// It holds the law of Open Job Spec 1.0.0-rc.1 as pure functions: no method in
// this package reads a clock, a random source, a file or a socket. Time,
// identifiers and randomness come in as values, so every rule can be tested as
// a table.
//
// A [Job] is an [Envelope], which never changes once it is enqueued, and a
// [Status], which changes only through the verbs in lifecycle.go. The closed
// table of transitions is in state.go. [Store] is the contract the rules stand
// on, [Service] the contract that is offered; storetest and servicetest judge
// implementations of the two.
package job
