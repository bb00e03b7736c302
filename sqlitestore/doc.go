// Package sqlitestore is a job.Store on one SQLite file.
//
// One goroutine writes. It takes whatever calls are waiting, runs each inside a
// savepoint of one transaction, commits once with synchronous=FULL, and answers
// everyone only then: a crowd shares one flush, and a lone caller waits for
// nobody. Readers have a pool of their own, see every answered write, and never
// wait for the writer.
//
// The file belongs to one process at a time; a lock file beside it says whose
// it is. No SQL in this package asks for the time.
package sqlitestore
