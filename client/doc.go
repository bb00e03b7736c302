// Package client speaks to an Outrider server from another process, and runs jobs.
//
// A [Client] is a [job.Service] over HTTP: what it returns, and the kind of
// every error, is what the service in the server's own process would have
// returned. A [Worker] fetches jobs from any [job.Worker] — a Client, or the
// sidecar in this process — and runs a handler for each.
//
// A job runs at least once. When a worker dies, or is not heard of in time, its
// jobs run again elsewhere, so a handler must tolerate being run twice.
package client
