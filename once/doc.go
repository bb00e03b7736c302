// Package once lets the effect of a job in the app's own database happen once,
// although the job may be delivered more than once (ojs-delivery-guarantees.md §7.4).
//
// [Record] writes the job's id in the transaction of the effect: effect and
// record commit together or not at all. The package imports job alone, takes the
// transactions of database/sql and of sqlx, and links no driver. It must never
// decide whether a job runs, nor speak to a server.
package once
