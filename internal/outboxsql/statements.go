// Package outboxsql has the form in which an adapter gives its SQL to package
// outbox. It is internal, so that a statement may be added, dropped or given another
// parameter without a new version of what others rely on. It imports nothing of ours
// and must never decide what is asked of a database, nor when.
package outboxsql

// Statements are the outbox in the SQL of one database: text, so that a new
// database needs no code. Placeholders are the database's own, in the
// order that is given with each statement. Times are milliseconds since 1970.
//
// The word {ids} stands for a list of row ids, as in "1,2,3". In Pending the
// word {skip} stands for conditions on id that begin with AND, or for nothing. In
// Relayed and Passed the word {by} stands for the value of answered_by. These are
// filled in by package outbox; those of [Words] by [Statements.For].
//
// A statement that says what has become of rows is fenced: it touches only rows
// that the relay still has. What a relay has is told by its row in the table of
// relays, by the clock of the database.
type Statements struct {
	Name  string // of the database: "sqlite"
	Table string // "ojs_outbox"

	// Create makes the tables, their indexes and the identity where they are
	// missing. Every statement ends in a semicolon and a line feed.
	Create string
	// Columns returns the names of the table's columns, or no row without a table.
	Columns string
	// Identity returns one text that no other outbox has.
	Identity string
	// Path returns the path of the database's file, or an empty text for one in
	// memory. Empty: the database is no file.
	Path string
	// Narrow returns a row if the database cannot keep every character. Empty: it can.
	Narrow string
	// Audit are questions about the rest: each returns a row per thing that is
	// missing, one text that says what and how to mend it. Check asks them in turn.
	Audit []string
	// Refused says which right is missing, and what gives it, where a statement of
	// that verb on that table was refused; empty for any other error. Nil: Audit
	// asks the catalog for the rights.
	Refused func(err error, verb, table string) string

	Insert  string // job_id or NULL, job_type, job_args, job_options
	Pending string // now, limit; returns id, job_id, job_type, job_args, job_options, created_at, attempts, 1 if it was sent before or 0, by id
	Done    string // owner; the rows have become jobs and go
	Sent    string // now, tries to add to attempts, owner; the same, but they stay for a while
	Relayed string // now, tries, owner; the rows stay until the jobs that answer for them have ended
	Ended   string // owner; relayed rows whose jobs have ended go
	Passed  string // owner; other jobs answer for relayed rows
	Again   string // owner; relayed rows whose jobs are lost are pending again
	Parked  string // reason, tries, owner
	Later   string // next_try_at, reason, tries, owner
	Kept    string // above this id, limit; returns id, status, sent_at or 0, by id
	Delete  string // no parameter; only rows with status 'sent'

	// Take makes pending rows the owner's alone: owner. With it any number of
	// relays work side by side: Pending locks the rows that it returns and passes
	// those that are locked, and Take follows in the same transaction. Without it
	// one relay works at a time, the one whose Renew changes a row.
	Take string
	// Ordered comes before Pending in its transaction, where the database would
	// sort all pending rows for each batch instead of reading the first ones by
	// their index. Only with Take; empty for a database that does not.
	Ordered string
	// Peek returns a row if there may be one to take: now. It is all that an idle
	// relay asks. Only with Take.
	Peek string
	// Back gives the rows that are taken, and not relayed, to everybody: owner.
	Back string

	// Renew says that an owner lives so much longer, and in which process: owner, mode,
	// length in ms, host. Where one relay works at a time there is a fifth, a time: it
	// changes no row if another's lease ends behind that time, or is not over.
	Renew string
	Leave string // owner: it has stopped, and its lease ends at 1, which says so
	Count string // number of rows, epoch, Seq, owner: it has sent so many more, to its disk in that epoch up to that event
	// Leases returns the owners, others than this one, whose rows are not free yet,
	// and when their leases end: owner.
	Leases string
	// Holder returns the next owner above that one in the order of its texts that
	// has rows, and 1 if it is in the table of relays and not buried there, else 0:
	// owner, or an empty text. Empty: nobody looks for owners without a lease.
	Holder string
	// Adopt gives an owner without a lease one that runs out, and changes no other:
	// owner, length in ms. Where one relay works at a time it has run out already.
	Adopt string
	Free  string // an owner; if its lease is over, some of its rows are pending again
	Bury  string // an owner; if its lease is over, it has no rows any more
	Held  string // owner, above this id, limit; returns id, job_id or NULL, created_at, answered_by or NULL of its relayed rows, by id
	// Reached returns the epoch, or an empty text, and the Seq that Count has noted: owner.
	Reached string
	Peers   string // since; returns owner, mode, sent, seen_at, host of those that were seen since

	Stats string // returns status, number, the least created_at
	List  string // above this id, limit; returns id, job_type, attempts, created_at, error or NULL of parked rows, by id
	// Row returns all of one row: id; job_id, job_type, job_args, job_options, status, owner,
	// attempts, next_try_at, error, created_at, sent_at, answered_by. What is NULL is an
	// empty text or 0.
	Row     string
	Replay  string // no parameter; of {ids} the parked rows are pending again
	Discard string // no parameter; of {ids} the parked rows go

	// What Ticks needs. Without TickAdd there is none. TickBegin and TickEnd are
	// several statements: each but the last ends in a semicolon and a line feed.

	TickBegin string   // begins a transaction, and waits for the end of any other of this kind
	TickEnd   string   // commits it, and leaves the connection as it was
	TickAdd   string   // name, at; changes no row if the tick is there, or older than 25 h by the clock of the database
	TickOf    string   // name, at; returns job_id or NULL of the tick
	TickLast  string   // name, at; returns last_id, last_row, its status or NULL of the newest other tick of that name
	TickSet   string   // job_id or NULL, last_id, last_row, name, at
	TickRow   string   // as Insert, and returns the id. Empty: LastInsertId tells it after Insert
	TickTrim  string   // limit; deletes so many ticks older than 26 h, and keeps the newest of each name
	TickAgain []string // parts of errors after which a transaction may be run once more
	// TickAudit is Audit for what only Ticks needs. CheckTicks asks it.
	TickAudit []string

	// Changed returns a number that differs from the one before when another
	// connection has committed. Empty: there is none, and the relay looks for
	// rows instead.
	Changed string
	// Caution is a condition that the relay warns of once.
	Caution Caution
}

// Caution is a query that should answer Good. It is asked once per connection
// at most, and Advice is logged if the answer is another.
type Caution struct {
	Query  string // empty: none
	Good   string
	Advice string // what is wrong, and what to do about it
}
