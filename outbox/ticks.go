package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Ticks decides which of several job servers makes the job of a tick, in the
// outbox that they share: the first to write the tick makes it (contract §4.16).
// There is no leader. It may be used by many goroutines at once, and starts none.
type Ticks struct {
	db *sql.DB
	d  Dialect

	mu   sync.Mutex
	next time.Time // nothing is trimmed before; guarded by mu

	fileMu sync.Mutex
	file   openFile // where the file of the connections is; guarded by fileMu
}

// NewTicks returns the ticks of the outbox in db. It touches nothing. The
// connections of db should be opened as for a relay, and may be the same.
func NewTicks(db *sql.DB, d Dialect) *Ticks { return &Ticks{db: db, d: d} }

const (
	tickBatch  = 200 // ticks in one transaction
	tickTries  = 5   // of one batch, when the database gives it up for another
	trimRounds = 20  // statements of one Fire
	trimEvery  = time.Hour
)

// Fire writes a row of the outbox for each tick that no other server has
// written one for, and says for each, in their order, why none was written, or
// "" for those that were: job.SkippedElsewhere when another server was first,
// job.SkippedOverlap when the policy is skip and the newest job of the schedule
// has not ended, job.SkippedClock when the tick is older than 25 h by the clock
// of the database, and job.SkippedRejected when the envelope breaks a rule.
//
// A job has not ended while its row is pending, taken or relayed, or while live
// says so of this server; nil knows of none. A row that was sent on relay to
// another server is not seen: overlap between servers wants OnComplete. live is
// asked inside a transaction and must not wait for the app.
//
// Every tick has the id of its job, or of its workflow. After an error nothing is known: the same ticks
// with the same ids may be asked for again, and those that were written by this
// server, although the answer was lost, are told as such. What was decided stays.
// It ends after 15 s for each 200 ticks at the latest, but for live.
//
// Errors are Invalid for a name that no schedule may have; Unavailable, with the
// command that mends an outbox without the table; Unsupported for a dialect without
// ticks; or those of live.
func (t *Ticks) Fire(ctx context.Context, ticks []job.Tick, live func(job.ID) (bool, error)) (skipped []string, err error) {
	if t.d.sql.TickAdd == "" {
		return nil, job.Errorf(job.Unsupported, "the outbox of %s cannot keep the ticks of schedules; use one of sqlite, postgres or mysql", t.d.sql.Name)
	}
	skipped = make([]string, len(ticks))
	claims := make([]wantedTick, 0, len(ticks))
	for i, tick := range ticks {
		if n := len(tick.Name); n == 0 || n > job.MaxCronName {
			return nil, job.Errorf(job.Invalid, "a tick has the name of its schedule, 1 to %d characters, got %d", job.MaxCronName, n)
		}
		row, err := rowOf(tick)
		if err != nil {
			skipped[i] = job.SkippedRejected
			continue
		}
		claims = append(claims, wantedTick{tick.Name, tick.At.UnixMilli(), tick.Overlap, row, &skipped[i]})
	}
	// In one order, so that no two servers wait for each other.
	slices.SortStableFunc(claims, func(a, b wantedTick) int { return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.at, b.at)) })
	for batch := range slices.Chunk(claims, tickBatch) {
		if err := t.decide(ctx, batch, live); err != nil {
			return nil, err
		}
	}
	t.trim(ctx)
	return skipped, nil
}

// rowOf is the row of what a tick makes.
func rowOf(t job.Tick) (row, error) {
	if t.Flow == nil {
		return newRow(t.Envelope)
	}
	flow := *t.Flow
	flow.ID = "" // it is that of the row
	o := rawjson.Object(nil)
	o.Raw("workflow", flow.AppendBody(nil))
	r := row{jobID: string(t.Flow.ID), typ: t.Name, args: []byte("[]"), options: o.Close()}
	_, err := r.spec("")
	return r, err
}

// wantedTick is a tick that this server wants.
type wantedTick struct {
	name    string
	at      int64 // milliseconds since 1970
	overlap job.Overlap
	row     row
	skipped *string
}

// decide runs the transaction of a batch, and again when the database has given
// it up for that of another.
func (t *Ticks) decide(ctx context.Context, batch []wantedTick, live func(job.ID) (bool, error)) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked error
	ask := func(id job.ID) (on bool, err error) {
		if live == nil {
			return false, nil
		}
		on, asked = live(id)
		return on, asked
	}
	err := t.transaction(within, batch, ask)
	for try := 1; err != nil && asked == nil && try < tickTries && t.again(err); try++ {
		err = t.transaction(within, batch, ask)
	}
	switch {
	case err == nil || asked != nil:
		return asked
	case ctx.Err() == nil:
		// Whatever it was, a table that is missing is worth more words.
		check, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for _, of := range []func(context.Context, *sql.DB, Dialect) error{Check, CheckTicks} {
			if why := of(check, t.db, t.d); why != nil && job.KindOf(why) != job.Unavailable {
				return job.Errorf(job.Unavailable, "decide ticks of schedules: %w", why)
			}
		}
	}
	return job.Errorf(job.Unavailable, "decide ticks of schedules in the table %s_ticks: %w", t.d.sql.Table, err)
}

func (t *Ticks) again(err error) bool {
	return slices.ContainsFunc(t.d.sql.TickAgain, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// transaction decides a batch. Its connection is given up after an error, and
// what it has not committed with it.
func (t *Ticks) transaction(ctx context.Context, batch []wantedTick, live func(job.ID) (bool, error)) (err error) {
	conn, err := t.conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			discard(conn)
		} else {
			_ = conn.Close() // it goes back
		}
	}()
	if batch, err = t.keepable(ctx, conn, batch); err != nil {
		return err
	}
	if err := script(ctx, conn, t.d.sql.TickBegin); err != nil {
		return err
	}
	for _, c := range batch {
		if *c.skipped, err = t.one(ctx, conn, c, live); err != nil {
			return err
		}
	}
	return script(ctx, conn, t.d.sql.TickEnd)
}

// conn is a connection to the outbox as it is now: a tick that is written to a
// file that is gone is a job that never comes.
func (t *Ticks) conn(ctx context.Context) (*sql.Conn, error) {
	t.fileMu.Lock()
	defer t.fileMu.Unlock()
	conn, _, err := t.file.conn(ctx, t.db, t.d)
	return conn, err
}

func script(ctx context.Context, conn *sql.Conn, stmts string) error {
	for _, stmt := range strings.Split(stmts, ";\n") {
		if _, err := conn.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

// one decides a tick, and says why it makes no job.
func (t *Ticks) one(ctx context.Context, conn *sql.Conn, c wantedTick, live func(job.ID) (bool, error)) (string, error) {
	n, err := affected(conn.ExecContext(ctx, t.d.sql.TickAdd, c.name, c.at))
	if err != nil {
		return "", err
	}
	if n == 0 {
		return t.decided(ctx, conn, c)
	}
	if c.overlap != job.OverlapAllow {
		last, err := t.unfinished(ctx, conn, c, live)
		if err != nil {
			return "", err
		}
		if last.jobID != "" {
			_, err := conn.ExecContext(ctx, t.d.sql.TickSet, nil, last.jobID, last.id, c.name, c.at)
			return job.SkippedOverlap, err
		}
	}
	id, err := t.write(ctx, conn, c.row)
	if err != nil {
		return "", err
	}
	_, err = conn.ExecContext(ctx, t.d.sql.TickSet, c.row.jobID, c.row.jobID, id, c.name, c.at)
	return "", err
}

// decided says what has become of a tick that is not to be written: it is there,
// or was never, and is too old. A server that slept must not write one that the
// others may have written and trimmed.
func (t *Ticks) decided(ctx context.Context, conn *sql.Conn, c wantedTick) (string, error) {
	var id sql.NullString
	err := conn.QueryRowContext(ctx, t.d.sql.TickOf, c.name, c.at).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return job.SkippedClock, nil
	case err != nil:
		return "", err
	case !id.Valid:
		return job.SkippedOverlap, nil
	case id.String == c.row.jobID:
		return "", nil // this server was first, and has not heard of it
	}
	return job.SkippedElsewhere, nil
}

// unfinished is the newest job of the schedule if it has not ended, and empty if
// it has. The row is looked at before the server: it goes once the job is there.
func (t *Ticks) unfinished(ctx context.Context, conn *sql.Conn, c wantedTick, live func(job.ID) (bool, error)) (row, error) {
	var id, status sql.NullString
	var at sql.NullInt64
	err := conn.QueryRowContext(ctx, t.d.sql.TickLast, c.name, c.at).Scan(&id, &at, &status)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !id.Valid {
		return row{}, nil
	}
	if err != nil {
		return row{}, err
	}
	last := row{id: at.Int64, jobID: id.String}
	switch status.String {
	case "pending", "taken", "relayed":
		return last, nil
	}
	if on, err := live(job.ID(id.String)); err != nil || !on {
		return row{}, err
	}
	return last, nil
}

// write writes a row of the outbox as Add does, and returns its id.
func (t *Ticks) write(ctx context.Context, conn *sql.Conn, r row) (id int64, err error) {
	args := []any{r.jobID, r.typ, string(r.args), string(r.options)}
	if t.d.sql.TickRow != "" {
		err = conn.QueryRowContext(ctx, t.d.sql.TickRow, args...).Scan(&id)
		return id, err
	}
	res, err := conn.ExecContext(ctx, t.d.sql.Insert, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// trim deletes old ticks, if it is time. It changes nothing of what was decided,
// so its errors are nobody's: the next hour tries again, and outrider outbox
// check names a right that is missing.
func (t *Ticks) trim(ctx context.Context) {
	if !t.mu.TryLock() {
		return // another goroutine is at it
	}
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.next) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	size := int64(t.d.perStatement())
	for range trimRounds {
		n, err := t.trimSome(ctx, size)
		if err != nil || n < size {
			t.next = now.Add(trimEvery)
			return
		}
	}
}

// trimSome is one statement in a transaction of its own, in which the servers
// with many gaps between their rows lock none of them.
func (t *Ticks) trimSome(ctx context.Context, size int64) (int64, error) {
	var o *sql.TxOptions
	if t.d.shared() {
		o = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	tx, err := t.db.BeginTx(ctx, o)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // after Commit it does nothing
	n, err := affected(tx.ExecContext(ctx, t.d.sql.TickTrim, size))
	if err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
