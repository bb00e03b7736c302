package outbox

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A row that was sent is remembered, and marked a little later together with
// others: every commit of the relay is a moment in which the app cannot write.
// What is remembered is not read again. If it is lost in a crash the rows are
// sent again, which adds nothing.

// outcome is what has become of a row, and is still to be written to it.
type outcome struct {
	row    int64
	verb   verb
	tries  int
	reason string
	until  int64    // putOff: milliseconds since 1970
	by     [16]byte // sent, passed: another job, which answers for this row; zero: the row's own
}

type verb int

const (
	sent verb = iota
	done      // sent, and nothing keeps the row
	parked
	putOff
	ended  // relayed before, and now its job has ended
	again  // relayed before to a disk that is gone
	passed // relayed before, and now another job answers for it
)

// compare is 0 where one statement can write both.
func (o outcome) compare(p outcome) int {
	return cmp.Or(cmp.Compare(o.verb, p.verb), cmp.Compare(o.tries, p.tries), cmp.Compare(o.until, p.until), strings.Compare(o.reason, p.reason))
}

const (
	fewRows  = 32   // of SQLite: some 0.1 ms under the write lock, at 100 rows of 2 KB the app noticed
	manyRows = 1000 // where rows are locked and not the database
	maxRuns  = 100  // conditions in one query
)

func (r *Relay) settle(row row, o outcome) {
	if len(r.settled) == 0 {
		r.oldest = r.o.Now()
	}
	o.row = row.id
	r.settled = append(r.settled, o)
}

// skip is the condition that leaves out the rows whose outcome is known. They are
// nearly always a few runs of ids without a gap; if not, they are marked first.
func (r *Relay) skip(ctx context.Context) (string, error) {
	if len(r.settled) >= markFull {
		if err := r.mark(ctx, len(r.settled)); err != nil {
			return "", err
		}
	}
	runs := runsOf(r.settled)
	if len(runs) > maxRuns {
		if err := r.mark(ctx, len(r.settled)); err != nil {
			return "", err
		}
		runs = nil
	}
	var b strings.Builder
	for _, run := range runs {
		b.WriteString(" AND NOT (id BETWEEN " + strconv.FormatInt(run[0], 10) + " AND " + strconv.FormatInt(run[1], 10) + ")")
	}
	return b.String(), nil
}

// runsOf are the first and last of each run of ids without a gap.
func runsOf(outcomes []outcome) [][2]int64 {
	ids := make([]int64, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.row
	}
	slices.Sort(ids)
	var runs [][2]int64
	for _, id := range ids {
		if n := len(runs); n > 0 && id-runs[n-1][1] <= 1 {
			runs[n-1][1] = id
		} else {
			runs = append(runs, [2]int64{id, id})
		}
	}
	return runs
}

// tidy marks and deletes, if it is time and the moment is good.
func (r *Relay) tidy(ctx context.Context, now time.Time) error {
	calm := now.Sub(r.heard) >= quiet
	if n := len(r.settled); n > 0 {
		if calm || now.Sub(r.oldest) >= markAfter {
			return r.mark(ctx, min(n, markFull))
		}
		if now.Before(r.swept.next.Add(time.Minute)) {
			return nil // cleaning can wait, but not for ever
		}
	}
	if calm || r.heard.Equal(now) {
		return r.sweep(ctx, now)
	}
	return nil
}

// mark writes the outcome of the first n settled rows, or returns an error and
// keeps those that are not written.
func (r *Relay) mark(ctx context.Context, n int) error {
	slices.SortStableFunc(r.settled[:n], outcome.compare)
	if n > 0 && r.count > 0 {
		// Before their rows go: what was sent here must be known when this disk is lost, or an older one is put back.
		if _, err := r.change(ctx, "count in", r.d.sql.Count, r.count, r.o.Lineage.Now().ID, r.upto, r.o.Owner); err != nil {
			return err
		}
		r.count = 0
	}
	for n > 0 {
		o := r.settled[0]
		of := 1
		for of < min(n, r.d.perStatement()) && r.settled[of].compare(o) == 0 {
			of++
		}
		if err := r.write(ctx, r.settled[:of]); err != nil {
			return err
		}
		r.settled = r.settled[of:]
		n -= of
	}
	if len(r.settled) == 0 {
		r.settled = nil
	}
	return nil
}

// write is one statement for outcomes that compare as equal.
func (r *Relay) write(ctx context.Context, outcomes []outcome) error {
	var stmt string
	var args []any
	o, now := outcomes[0], r.o.Now().UnixMilli()
	if r.narrow {
		o.reason = plainly(o.reason)
	}
	switch {
	case o.verb == parked:
		stmt, args = r.d.sql.Parked, []any{o.reason, o.tries}
	case o.verb == putOff:
		stmt, args = r.d.sql.Later, []any{o.until, o.reason, o.tries}
	case o.verb == ended:
		stmt = r.d.sql.Ended
	case o.verb == again:
		stmt = r.d.sql.Again
	case o.verb == passed:
		stmt = fill(r.d.sql.Passed, "{by}", answering(outcomes))
	case o.verb == sent && r.o.Release == OnComplete:
		stmt, args = fill(r.d.sql.Relayed, "{by}", answering(outcomes)), []any{now, o.tries}
	case o.verb == sent && r.o.Keep > 0:
		stmt, args = r.d.sql.Sent, []any{now, o.tries}
	default:
		stmt = r.d.sql.Done
	}
	if err := r.moment(ctx); err != nil {
		return err
	}
	_, err := r.change(ctx, "mark rows in", fill(stmt, "{ids}", idsOf(outcomes)), append(args, r.o.Owner)...)
	return err
}

// moment waits for a good moment to write: just after a commit of the app, when
// its next one is furthest away, or a few milliseconds without one. It polls
// quickly, but only some milliseconds in each second.
func (r *Relay) moment(ctx context.Context) error {
	const enough, pause = 5 * time.Millisecond, 100 * time.Microsecond
	began := time.Now()
	if r.o.Now().Sub(r.heard) >= quiet || r.changed == nil {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for time.Since(began) < enough {
		commit, err := r.listen(ctx)
		if err != nil {
			return err
		}
		if commit {
			r.heard, r.more = r.o.Now(), true // somebody must look for rows
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(pause)
		}
	}
	return nil
}

func idsOf(outcomes []outcome) string {
	b := make([]byte, 0, 8*len(outcomes))
	for _, o := range outcomes {
		b = append(strconv.AppendInt(b, o.row, 10), ',')
	}
	return string(b[:max(0, len(b)-1)])
}

// answering is who answers for each row, in SQL: of a row with a job of its own
// it is NULL, and so for all where there is no other.
func answering(outcomes []outcome) string {
	var b strings.Builder
	for _, o := range slices.Backward(outcomes) { // of two outcomes of one row the later one counts
		if o.by == ([16]byte{}) {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("CASE id")
		}
		b.WriteString(" WHEN " + strconv.FormatInt(o.row, 10) + " THEN '" + uuid.UUID(o.by).String() + "'")
	}
	if b.Len() == 0 {
		return "NULL"
	}
	return b.String() + " END"
}

func fill(stmt, word, with string) string { return strings.Replace(stmt, word, with, 1) }
