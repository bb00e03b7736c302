// Package memory keeps the server within the memory that it may take, gives back
// what it does not need any more, and knows file systems that are kept in memory.
//
// It imports nothing of ours. It must never decide which request waits for memory:
// sidecar/httpapi does.
package memory
