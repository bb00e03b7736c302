// Package outbox makes jobs that exist if and only if your transaction commits.
//
// An app writes one row into the table ojs_outbox, inside the transaction that
// makes the job necessary. From any language one statement is enough:
//
//	INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', '["ada@example.com"]')
//
// A Go program may use [Outbox.Add] instead, which checks the job before it is
// written and returns its id. A [Relay] takes the rows to a job server, in the
// order of their ids, and marks them.
//
// # What is promised
//
// A row is pending until it is marked: there is no cursor and no high-water
// mark, so no order of commits can make a row be skipped. Rows are sent first
// and marked afterwards. What was sent and not marked, because a process died
// or the answer was lost, is sent again under the same id: the row's job_id, or
// one derived from the identity of the outbox and the row. A [job.Enqueuer]
// stores an id once, so a resend adds nothing, and it does not matter how many
// relays there are.
//
// With [OnComplete] a row stays until the job that answers for it has ended: its
// own, or one that was there already under one of its keys. Before rows are marked
// the outbox is told in which epoch of the job server's disk they were stored, so
// that an older copy of that disk is known when it is put back, and what it does
// not have is sent again.
//
// A row that can never be a job is parked: its status becomes 'parked', its
// error says why, and the rows behind it flow. Parked rows stay until somebody
// mends or deletes them; setting status to 'pending' sends a row again. When
// the job server cannot answer, the relay stops, keeps the order and asks again.
//
// # The columns that an app may write
//
//   - job_type: a dotted name, "email.send"
//   - job_args: a JSON array
//   - job_options: a JSON object, '{}' if left out: the options of the HTTP
//     binding, such as {"queue": "mail", "retry": {"max_attempts": 5}}. With a
//     member "specversion" its members are those of the flat envelope of
//     ojs-core.md §5 instead, less id, type and args.
//   - job_id: a UUIDv7, if the app wants to know the job's id beforehand
//   - next_try_at: milliseconds since 1970; the row is left alone until then
//
// A row must not be changed while it is pending: if it was sent already, the
// resend has another content under the same id, and is parked.
//
// # What it costs the app
//
// The relay reads in short snapshots and never holds a transaction while it
// waits for the job server. It writes to the app's database in single
// statements of a few dozen rows, while the app writes at most two rounds of
// them a second, and chooses moments just after a commit of the app or when
// there are none.
//
// # Schedules of several servers
//
// Job servers that relay one outbox may keep the same schedules. [Ticks] lets
// the first that writes a tick into the table ojs_outbox_ticks write its row,
// in one transaction, and tells the others that they were not first.
//
// The tables, and the statements of one database, are a [Dialect]; see the
// packages below adapters. This package imports no database driver.
package outbox
