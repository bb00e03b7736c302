// Package bench puts load on a server and measures it: jobs a second, latencies,
// processor time, memory and bytes on the disk, in workloads that run one after
// another; or on several servers in turn.
//
// It may import whatever it measures. It must never decide which settings a
// person may give or how the report is printed: the command does.
package bench
