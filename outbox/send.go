package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// message is a row that is a job.
type message struct {
	row row
	job job.Checked
}

// asks reports whether a letter asks for what its job was asked for.
func (l message) asks(j *job.Job) bool {
	e := l.job.Envelope()
	return e.SameOptions(j)
}

// send hands one batch over and notes the fate of its rows. When it returns an
// error the rows that have no fate are as they were.
func (r *Relay) send(ctx context.Context) error {
	rows, err := r.pending(ctx)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	if r.d.sql.Changed == "" {
		r.heard = r.o.Now()
	}
	letters := make([]message, 0, len(rows))
	for _, row := range rows {
		c, err := row.envelope(r.of)
		if err != nil {
			r.park(row, err)
			continue
		}
		letters = append(letters, message{row, c})
	}
	err = r.push(ctx, letters)
	if !r.shared() {
		return err
	}
	// Rows that are taken are nobody else's, so their fate is written at once.
	r.marked = len(r.settled)
	if merr := r.mark(ctx, len(r.settled)); merr != nil {
		return merr
	}
	if err != nil {
		r.giveBack(ctx)
	}
	return err
}

// pending reads the batch. The snapshot is closed before anything else happens.
func (r *Relay) pending(ctx context.Context) ([]row, error) {
	r.more, r.marked = false, 0
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if r.shared() {
		if len(r.settled) > 0 { // what could not be marked must not be given back
			if err := r.mark(ctx, len(r.settled)); err != nil {
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return r.take(ctx)
	}
	skip, err := r.skip(ctx)
	if err != nil {
		return nil, err
	}
	batch, full, err := r.read(ctx, r.conn, fill(r.d.sql.Pending, "{skip}", skip))
	if err != nil {
		return nil, r.failed(ctx, "read", err)
	}
	r.more = full
	return batch, nil
}

// read reads a batch, and says whether there may be more.
func (r *Relay) read(ctx context.Context, from rowser, query string) (batch []row, full bool, err error) {
	batch, size := make([]row, 0, 8), 0
	err = eachOf(ctx, from, func(rows *sql.Rows) (bool, error) {
		var b row
		var jobID, typ sql.NullString
		err := rows.Scan(&b.id, &jobID, &typ, &b.args, &b.options, &b.created, &b.attempts, &b.again)
		b.jobID, b.typ = jobID.String, typ.String
		batch, size = append(batch, b), size+b.size()
		return size < maxBytes, err
	}, query, r.o.Now().UnixMilli(), r.o.Batch)
	return batch, len(batch) == r.o.Batch || size >= maxBytes, err
}

// push hands letters over, in one call if none of them is refused. One that is
// gets its fate alone, after what stands before it was taken; what follows goes
// in short calls while refusals are near, so that a batch full of them is handed
// over some three times, and not once for each.
func (r *Relay) push(ctx context.Context, letters []message) error {
	for size := len(letters); len(letters) > 0; {
		if err := r.live(ctx); err != nil {
			return err
		}
		part := letters[:min(size, len(letters))]
		receipts, err := r.enqueue(ctx, part)
		if err == nil {
			same, theirs := r.unchanged(part, receipts)
			if err := r.sent(ctx, same, theirs); err != nil {
				return err // of a reading: the job server has them all
			}
			letters, size = letters[len(part):], 2*len(part)
			continue
		}
		i, named := failedIndex(err, len(part))
		settle := r.alone(err, named, len(part))
		if settle == nil {
			if !permanent[job.KindOf(err)] {
				return r.halted(ctx, part[0].row, err)
			}
			i = len(part) / 2 // one of them, and the answer does not say which
		}
		if err := r.push(ctx, part[:i]); err != nil {
			return err
		}
		if settle != nil {
			settle(part[i].row, unnumbered(err, i))
			i++
		}
		letters, size = letters[i:], max(2*i, fewLetters)
	}
	return nil
}

// fewLetters is how many letters go on together behind one that was refused at once.
const fewLetters = 8

// alone is what becomes of the one letter that an answer to n of them is about;
// nil if it is about no letter alone.
func (r *Relay) alone(err error, named bool, n int) func(row, error) {
	refused, foreign := permanent[job.KindOf(err)], errors.Is(err, job.ErrForeign)
	switch {
	case foreign && refused && n == 1: // a proxy's limit, which is no word about the row
		return r.putOff
	case named && refused && !foreign:
		return r.park
	case named && job.KindOf(err) != job.Unavailable:
		return r.putOff
	}
	return nil
}

// enqueue hands jobs over, and keeps the lease while the job server takes its
// time: a relay that waits for it lives, and its rows are not for others.
// What panics there is the failure of this call and not the end of the relay.
func (r *Relay) enqueue(ctx context.Context, letters []message) (receipts []job.Receipt, err error) {
	cs := make([]job.Checked, len(letters))
	for i, l := range letters {
		cs[i] = l.job
	}
	defer r.stayAlive(ctx)()
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("outbox: the job server panicked", "outbox", r.o.Name, "panic", p, "stack", string(debug.Stack()))
			err = job.Errorf(job.Internal, "the job server panicked: %v", p)
		}
	}()
	return r.to.EnqueueChecked(ctx, cs...)
}

// permanent are the kinds of errors that asking again cannot mend.
var permanent = map[job.Kind]bool{job.Malformed: true, job.Invalid: true, job.BadRetry: true, job.Rejected: true,
	job.TooLarge: true, job.Duplicate: true, job.Unsupported: true}

// failedIndex is the index of the envelope that an error is about, if it says so.
func failedIndex(err error, n int) (int, bool) {
	if n == 1 && permanent[job.KindOf(err)] {
		return 0, true
	}
	var e *job.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	i := -1
	switch v := e.Details["index"].(type) { // a number that came over the wire has another type
	case int:
		i = v
	case int64:
		i = int(v)
	case float64:
		i = int(v)
	case json.Number:
		if m, err := v.Int64(); err == nil {
			i = int(m)
		}
	}
	return i, i >= 0 && i < n
}

// unnumbered is err without the place of its envelope among those of one call,
// which nobody knows who reads of the row.
func unnumbered(err error, i int) error {
	var e *job.Error
	if !errors.As(err, &e) {
		return err
	}
	text, ok := strings.CutPrefix(e.Message, fmt.Sprintf("jobs[%d]: ", i))
	if !ok {
		return err
	}
	alone := *e
	alone.Message = text
	return &alone
}

// unchanged leaves out the letters of rows that were sent before, and had other
// options then: the job server keeps the job as it was, so nobody would hear of
// what was changed. Of a job that a middleware alters nobody can tell.
func (r *Relay) unchanged(letters []message, receipts []job.Receipt) ([]message, []job.Receipt) {
	if len(receipts) != len(letters) || !slices.ContainsFunc(letters, func(l message) bool { return l.row.again }) {
		return letters, receipts
	}
	var same []message
	var theirs []job.Receipt
	for i, l := range letters {
		j := receipts[i].Job
		if l.row.again && receipts[i].Existing && !receipts[i].Altered && j != nil && j.ID == l.job.ID() && !l.asks(j) {
			r.park(l.row, job.Errorf(job.Duplicate, "job %s was made of this row before, with other options, and is not changed; set them back, or write a new row", j.ID))
			continue
		}
		same, theirs = append(same, l), append(theirs, receipts[i])
	}
	return same, theirs
}

// sent notes that the job server has the letters. After an error some have no
// fate, and are sent again.
func (r *Relay) sent(ctx context.Context, letters []message, receipts []job.Receipt) error {
	at, before := r.o.Now(), r.upto
	told := make([]Relayed, 0, len(letters))
	defer func() { r.observe(told) }()
	for i, l := range letters {
		f := outcome{verb: sent, tries: r.trouble.refused + 1}
		j, existing := (*job.Job)(nil), false
		if i < len(receipts) {
			j, existing = receipts[i].Job, receipts[i].Existing
		}
		if j != nil {
			r.upto = max(r.upto, j.LastEvent)
		}
		if r.o.Release == OnComplete {
			if err := r.keep(ctx, l, j, before, &f); err != nil {
				return err
			}
		}
		r.settle(l.row, f)
		r.warn(l)
		r.count++
		told = append(told, Relayed{Row: l.row.id, Job: l.job.ID(), Written: time.UnixMilli(l.row.created), At: at, Existing: existing})
	}
	return nil
}

// observe tells the observer, whose panic is its own affair.
func (r *Relay) observe(told []Relayed) {
	if r.o.OnRelay == nil || len(told) == 0 {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("outbox: OnRelay panicked; the rows are relayed all the same", "outbox", r.o.Name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	r.o.OnRelay(told)
}

// keep follows the job that answers for a letter, its own or another. If that
// has ended nothing is still to come, and nothing keeps the row. before is the
// Seq of an event before the letter was sent.
func (r *Relay) keep(ctx context.Context, l message, j *job.Job, before int64, f *outcome) error {
	if j == nil { // who answers is not told
		r.follows.watch(l.job.ID(), l.row.id, before)
		return nil
	}
	j, err := r.answerer(ctx, j)
	if err != nil {
		return err
	}
	if j == nil {
		f.verb = done
		return nil
	}
	if j.ID != l.job.ID() {
		f.by = key(j.ID)
	}
	r.follows.watch(j.ID, l.row.id, max(j.LastEvent, before))
	return nil
}

// park notes that a row can never be a job.
func (r *Relay) park(row row, why error) {
	r.settle(row, outcome{verb: parked, tries: 1, reason: storableText(why)})
	r.sayErr(why)
	r.o.Log.Warn("outbox: a row is parked because it cannot become a job. Fix it and set its status to 'pending', or delete it",
		"outbox", r.o.Name, "table", r.d.sql.Table, "row", row.id, "error", why)
}

// putOff notes that a row fails alone, for a reason that may pass: it waits for
// 1 s, doubled at each try up to 5 minutes, and the rows behind it flow.
func (r *Relay) putOff(row row, why error) {
	wait := min(time.Second<<min(max(row.attempts, 0), 10), 5*time.Minute)
	r.settle(row, outcome{verb: putOff, tries: 1, reason: storableText(why), until: r.o.Now().Add(wait).UnixMilli()})
	r.sayErr(why)
	r.o.Log.Warn("outbox: the job server fails at a row; it is tried again later, and the rows behind it go on",
		"outbox", r.o.Name, "row", row.id, "after", wait, "error", why)
}

// halted is the error of a batch that the job server did not take. The first of
// an outage is also written to the row at the head, which stays pending.
func (r *Relay) halted(ctx context.Context, head row, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if r.trouble.refused == 0 {
		f := outcome{row: head.id, verb: putOff, reason: storableText(fmt.Errorf("the job server does not take jobs, this is tried again: %w", err))}
		_ = r.write(ctx, []outcome{f}) // it is for people only; a database that is gone shows soon enough
	}
	r.trouble.refused++
	return &job.Error{Kind: job.KindOf(err), Err: err,
		Message: fmt.Sprintf("outbox %s: the job server does not take jobs from row %d on: %v", r.o.Name, head.id, err)}
}

// storableText is an error as any database keeps it: text without a NUL, and not for ever long.
func storableText(err error) string {
	s := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + " …"
	}
	return s
}

const maxReason = 4000 // bytes
