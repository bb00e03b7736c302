package outbox

import (
	"context"
	"database/sql"

	"github.com/outrider-jobs/outrider/job"
)

// A relay that starts takes up the rows that its owner has relayed before. A job
// that the job server does not know has ended and was forgotten, if its disk is
// the one that took it. It is not where an older copy of that disk was put back:
// so before rows are marked, the outbox is told in which epoch of the disk, and
// up to which event of it, their jobs were stored.

// age is how the disk stands to what was relayed to it.
type age int

const (
	whole      age = iota // it holds all of it
	unknownAge            // nobody has noted
	older                 // it is a copy from before, or one that went another way
)

// reload follows the jobs of the rows that this owner has relayed before, and
// lets go those that have ended. What an older disk may not have is sent again.
func (r *Relay) reload(ctx context.Context) error {
	r.follows = followed{}
	is, epoch, err := r.age(ctx)
	if err != nil {
		return err
	}
	n, err := r.rejoin(ctx, is)
	r.logRejoined(is, n)
	now := r.o.Lineage.Now().ID
	if err != nil || now == "" || is == whole && !r.o.Lineage.Aging(epoch) {
		return err
	}
	// From here on it is whole. Not before: a start that is cut off finds it older again.
	_, err = r.change(ctx, "note the age of the disk in", r.d.sql.Count, 0, now, r.upto, r.o.Owner)
	return err
}

// age compares the disk with what the outbox was told of it.
func (r *Relay) age(ctx context.Context) (is age, epoch string, err error) {
	var upto int64
	err = r.each(ctx, "look up what was relayed in", func(rows *sql.Rows) (bool, error) { return true, rows.Scan(&epoch, &upto) }, r.d.sql.Reached, r.o.Owner)
	if err != nil {
		return unknownAge, "", err
	}
	now := r.o.Lineage.Now()
	r.upto = max(r.upto, now.After)
	switch {
	case epoch == "" || now.ID == "":
		return unknownAge, epoch, nil
	case !r.o.Lineage.Holds(epoch, upto):
		return older, epoch, nil
	case epoch == now.ID:
		r.upto = max(r.upto, upto)
	}
	return whole, epoch, nil
}

// rejoined counts what became of the rows.
type rejoined struct{ again, ended int }

// rejoin looks at all rows that this owner has relayed, page by page.
func (r *Relay) rejoin(ctx context.Context, is age) (n rejoined, err error) {
	for after := int64(0); ; {
		page, err := r.held(ctx, after)
		if err != nil {
			return n, err
		}
		for _, b := range page {
			v, err := r.rejoinRow(ctx, b, is)
			if err != nil {
				return n, err
			}
			switch after = b.id; v {
			case again:
				n.again++
				r.settle(b, outcome{verb: again})
			case ended:
				n.ended++
				r.settle(b, outcome{verb: ended})
			}
			if err := r.live(ctx); err != nil {
				return n, err
			}
		}
		if err := r.mark(ctx, len(r.settled)); err != nil {
			return n, err
		}
		if len(page) < followPage {
			return n, nil
		}
	}
}

// held are the next rows that this owner has relayed.
func (r *Relay) held(ctx context.Context, after int64) (page []row, err error) {
	err = r.each(ctx, "read the relayed rows of", func(rows *sql.Rows) (bool, error) {
		var b row
		var id, by sql.NullString
		err := rows.Scan(&b.id, &id, &b.created, &by)
		b.jobID, b.by = id.String, by.String
		page = append(page, b)
		return true, err
	}, r.d.sql.Held, r.o.Owner, after, followPage)
	return page, err
}

// rejoinRow is what becomes of one row: ended, again, or sent, and then its job
// is followed. A row of another's job is always sent again to an older disk: the
// job may be there as it was before it answered.
func (r *Relay) rejoinRow(ctx context.Context, b row, is age) (verb, error) {
	switch {
	case is == whole && r.o.Release == OnRelay:
		return ended, nil
	case is == older && b.by != "", r.follower == nil:
		return again, nil
	}
	id := job.ID(b.by)
	if id == "" {
		id = b.job(r.of)
	}
	j, err := r.follower.Job(ctx, id)
	switch {
	case err != nil && job.KindOf(err) != job.NotFound:
		return sent, err
	case err != nil && is != whole:
		return again, nil
	case err != nil || r.o.Release == OnRelay:
		return ended, nil
	}
	switch j, err = r.answerer(ctx, j); {
	case err != nil:
		return sent, err
	case j == nil:
		return ended, nil
	case j.ID != id:
		r.settle(b, outcome{verb: passed, by: key(j.ID)})
	}
	r.follows.watch(j.ID, b.id, max(j.LastEvent, r.upto))
	return sent, nil
}

// logRejoined says what an operator must know of it.
func (r *Relay) logRejoined(is age, n rejoined) {
	switch {
	case is == older:
		r.o.Log.Warn("outbox: this job server's disk is older than what was relayed to it, as when a copy from before is put back. Rows whose jobs it does not have are sent again under the same job ids; jobs that it has, and that have ended since, run again; rows that were released with on_relay since then are lost with the disk that had them, unless you bring that one back",
			"outbox", r.o.Name, "rows_sent_again", n.again)
	case n.again > 0:
		r.o.Log.Warn("outbox: the job server does not know the jobs of rows that it has relayed, and it is not known whether its disk is the same: they are sent again under the same job ids",
			"outbox", r.o.Name, "rows_sent_again", n.again)
	}
	if r.o.Release == OnRelay && n.ended > 0 {
		r.o.Log.Warn("outbox: rows were kept until their jobs had ended, with on_complete, and this job server works with on_relay: they are deleted now. Their jobs are on its disk or have ended; jobs that have not ended are lost if that disk is lost",
			"outbox", r.o.Name, "rows", n.ended)
	}
}
