package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// send hands one batch over and notes the outcome of its rows. When it returns an
// error the rows that have no outcome are as they were.
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
	rows, err = r.startAll(ctx, rows)
	messages := make([]message, 0, len(rows))
	for _, row := range rows {
		if err != nil {
			break
		}
		c, err := row.envelope(r.of)
		if err != nil {
			r.park(row, err)
			continue
		}
		c.SetOrigin(job.Origin{Outbox: r.o.Name, Row: row.id, Written: time.UnixMilli(row.created)})
		messages = append(messages, message{row, c})
	}
	if err == nil {
		err = r.push(ctx, messages)
	}
	if !r.d.shared() {
		return err
	}
	// Rows that are taken are nobody else's, so their outcome is written at once.
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
	if r.d.shared() {
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
func (r *Relay) read(ctx context.Context, from querier, query string) (batch []row, full bool, err error) {
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

// push hands messages over, in one call if none of them is refused. One that is
// gets an outcome alone, after what stands before it was taken; what follows goes
// in short calls while refusals are near, so that a batch full of them is handed
// over some three times, and not once for each.
func (r *Relay) push(ctx context.Context, messages []message) error {
	for size := len(messages); len(messages) > 0; {
		if err := r.live(ctx); err != nil {
			return err
		}
		part := messages[:min(size, len(messages))]
		receipts, err := r.enqueue(ctx, part)
		if err == nil {
			same, theirs := r.unchanged(part, receipts)
			if err := r.sent(ctx, same, theirs); err != nil {
				return err // of a reading: the job server has them all
			}
			messages, size = messages[len(part):], 2*len(part)
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
		messages, size = messages[i:], max(2*i, fewMessages)
	}
	return nil
}

// fewMessages is how many messages go on together behind one that was refused at once.
const fewMessages = 8

// alone is what is done with the one message that an error is about, of n that were
// sent together; nil if the error is not about a single one.
func (r *Relay) alone(err error, named bool, n int) func(row, error) {
	refused, foreign := permanent[job.KindOf(err)], errors.Is(err, job.ErrForeign)
	switch {
	case foreign && refused && n == 1: // the limit of a proxy, which says nothing of the row
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
func (r *Relay) enqueue(ctx context.Context, messages []message) (receipts []job.Receipt, err error) {
	cs := make([]job.Checked, len(messages))
	for i, m := range messages {
		cs[i] = m.job
	}
	defer r.stayAlive(ctx)()
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("outbox: the job server panicked", "outbox", r.o.Name, "panic", p, "stack", string(debug.Stack()))
			err = job.Errorf(job.Internal, "the job server panicked: %v", p)
		}
	}()
	return r.to.EnqueueChecked(job.WithBlock(ctx, 0), cs...) // rows for other queues must not wait for room in one
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
	i, err := strconv.Atoi(fmt.Sprint(e.Details["index"])) // a number that came over the wire has another type
	return i, err == nil && i >= 0 && i < n
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

// unchanged leaves out the messages of rows that were sent before, and had other
// options then: the job server keeps the job as it was, so nobody would hear of
// what was changed. Of a job that a middleware alters nobody can tell.
func (r *Relay) unchanged(messages []message, receipts []job.Receipt) ([]message, []job.Receipt) {
	if len(receipts) != len(messages) || !slices.ContainsFunc(messages, func(m message) bool { return m.row.again }) {
		return messages, receipts
	}
	var same []message
	var theirs []job.Receipt
	for i, m := range messages {
		j := receipts[i].Job
		if m.row.again && receipts[i].Existing && !receipts[i].Altered && j != nil && j.ID == m.job.ID() && !m.asks(j) {
			r.park(m.row, job.Errorf(job.Duplicate, "job %s was made of this row before, with other options, and is not changed; set them back, or write a new row", j.ID))
			continue
		}
		same, theirs = append(same, m), append(theirs, receipts[i])
	}
	return same, theirs
}

// sent notes that the job server has the messages. After an error some have no
// outcome, and are sent again.
func (r *Relay) sent(ctx context.Context, messages []message, receipts []job.Receipt) error {
	at, before := r.o.Now(), r.upto
	told := make([]Relayed, 0, len(messages))
	defer func() { r.observe(told) }()
	for i, m := range messages {
		o := outcome{verb: sent, tries: r.trouble.refused + 1}
		j, existing := (*job.Job)(nil), false
		if i < len(receipts) {
			j, existing = receipts[i].Job, receipts[i].Existing
		}
		if j != nil {
			r.upto = max(r.upto, j.LastEvent)
		}
		if r.o.Release == OnComplete {
			if err := r.keep(ctx, m, j, before, &o); err != nil {
				return err
			}
		}
		r.settle(m.row, o)
		r.warn(m)
		r.count++
		told = append(told, Relayed{Row: m.row.id, Job: m.job.ID(), Written: time.UnixMilli(m.row.created), At: at, Existing: existing})
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

// keep follows the job that answers for a message, its own or another. If that
// has ended nothing is still to come, and nothing keeps the row. before is the
// Seq of an event before the message was sent.
func (r *Relay) keep(ctx context.Context, m message, j *job.Job, before int64, o *outcome) error {
	if j == nil { // who answers is not told
		r.follows.watch(m.job.ID(), m.row.id, before)
		return nil
	}
	j, err := r.answerer(ctx, j)
	if err != nil {
		return err
	}
	if j == nil {
		o.verb = done
		return nil
	}
	if j.ID != m.job.ID() {
		o.by = key(j.ID)
	}
	r.follows.watch(j.ID, m.row.id, max(j.LastEvent, before))
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
		o := outcome{row: head.id, verb: putOff, reason: storableText(fmt.Errorf("the job server does not take jobs, this is tried again: %w", err))}
		_ = r.write(ctx, []outcome{o}) // it is for people only; a database that is gone shows soon enough
	}
	r.trouble.refused++
	return job.Errorf(job.KindOf(err), "outbox %s: the job server does not take jobs from row %d on: %w", r.o.Name, head.id, err)
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
