// Package appdb opens the database of an app from its DSN, without ever showing
// a password, and has what the command and the API ask of the outbox in it.
//
// It may import the drivers, the adapters, outbox and the types of
// sidecar/httpapi. It must never decide how rows are relayed (outbox does) or
// say it in the SQL of one database (the adapters do).
package appdb
