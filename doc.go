// Package outrider is the front page of Outrider, a job server that rides
// beside an app.
//
// An app in any language writes one row inside its own database transaction,
// and a background job exists if and only if that transaction commits. Outrider
// runs beside the app as one static binary: a SQLite store, a relay that turns
// those rows into jobs, and an HTTP endpoint on localhost for workers. It speaks
// Open Job Spec 1.0.0-rc.1.
//
// The packages, from the law outwards:
//
//   - job: what a job is, may become and may be asked; the contracts Store and Service
//   - sqlitestore: a Store on one SQLite file
//   - sidecar: the Service in this process, and its background duties
//   - sidecar/httpapi: HTTP in front of any Service
//   - client: the Service over HTTP, and the Worker that runs handlers
//   - outbox: jobs that exist if and only if your transaction commits
//   - adapters: the outbox table in the SQL of one database
//   - cronsched: cron expressions to jobs
//
// This package itself holds only the schema of the store.
package outrider
