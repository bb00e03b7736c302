// Package demo is the whole way of a job on real parts: an app's database and its
// transactions, the relay, the store, HTTP, and a worker in a process of its own.
//
// It may import what an app imports, and starts this program once more. It must
// never decide anything about a job: it shows what the others do.
package demo
