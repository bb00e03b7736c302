package job

import (
	"context"
	"encoding/json"
	"time"
)

// Service is all that may be asked of a job server. A sidecar answers in this
// process, a client over HTTP; a caller cannot tell which. Every method may be
// called by many goroutines at once, and every error is an *Error.
type Service interface {
	Enqueuer
	Worker
	Operator
	AdminService
	KeyService
	CronService
	LimitService
	TenantService
	PoolService
	ProgressService
	SchemaService
	QueueService
	BulkService
	WorkflowService
	FollowService
}

// Enqueuer takes jobs (ojs-core.md §7.1).
type Enqueuer interface {
	// Enqueue stores all envelopes or none, and answers in their order. When it
	// returns nil the jobs are on disk, and the receipts show them as they are
	// there, also where a later envelope has changed one of an earlier.
	//
	// An ID that is already stored with the same type and args is no error: the
	// receipt's Existing says so, and the job in it is the stored one. A job that
	// was rewritten since (see Rewritten) is known by its ID, its type and its
	// unique policy instead, whatever args it has now. The same ID with another
	// content is a Duplicate, and so is a job whose unique policy rejects it.
	// QueueClosed for a queue that is draining. QueueFull for one without room for all of
	// them, at once or, where its strategy is block, after as long as WithBlock says. An
	// error about one envelope of several carries its index in Details["index"].
	Enqueue(ctx context.Context, es ...Envelope) ([]Receipt, error)
	// EnqueueChecked is Enqueue for envelopes that are checked already. It does not
	// look at them again.
	EnqueueChecked(ctx context.Context, cs ...Checked) ([]Receipt, error)
}

// Receipt answers for one envelope.
type Receipt struct {
	*Job
	Existing bool    // it was stored before; nothing was added
	Verdict  Verdict // why, for a Receipt with Existing
	Altered  bool    // a middleware made another envelope of it, and perhaps another one the time before
	Replaced ID      // the job that was cancelled to make room for this one; of several, the newest that unique replaced

	AllReplaced []ID      // all of them, Replaced first, where there are several
	Permits     *Permits  // what the key of its rate limit lets through just now, where it names one; over HTTP it is in headers alone, and nil
	Warnings    []Warning // what the sender of the envelope may not have meant; see [Checked.Warnings]
	Pressure    *Pressure // how full its queue is, where that has a bound; over HTTP it is in headers alone, and nil
}

// Verdict says why a job that was stored before answers for a new one.
type Verdict string

// The verdicts. Created is the one of a Receipt without Existing.
const (
	Created      Verdict = ""
	SameID       Verdict = "same_id"        // the ID is stored already, with the same type and args
	SameCustomID Verdict = "same_custom_id" // the CustomID is taken in this queue (asyncmq-deduplication.md)
	Deduplicated Verdict = "deduplicated"   // its deduplication key is held (asyncmq-deduplication.md)
	Ignored      Verdict = "ignored"        // on_conflict ignore (ojs-unique-jobs.md §5.4)
	Rewritten    Verdict = "rewritten"      // on_conflict replace_except_schedule: args and meta were overwritten (§5.3)
)

// Worker is what a worker asks.
type Worker interface {
	Progresser
	// Fetch claims up to f.Count jobs (ojs-core.md §7.2). None is an answer, not
	// an error; with f.Wait it comes after that long, or as soon as there is one.
	Fetch(ctx context.Context, f FetchRequest) ([]*Job, error)
	// Ack ends an attempt well and stores its result, which may be nil (§7.3).
	// Conflict when the claim no longer holds the job, NotFound, TooLarge.
	Ack(ctx context.Context, c Claim, result json.RawMessage) (*Job, error)
	// AckAll is Ack of up to MaxAcks attempts at once (contract §3.9). They are judged
	// in their order, each as if it came alone: what becomes of one changes nothing for
	// its neighbours, and the answer has one verdict for each. They are stored in one
	// transaction, or in several where their jobs are very large, and are on disk when
	// AckAll returns. An error means that none was stored; Unavailable from a client
	// without an answer is the exception. TooLarge for more than MaxAcks.
	AckAll(ctx context.Context, acks []AckRequest) ([]Acked, error)
	// Next is AckAll and then Fetch, in one step where that can be (contract §3.27). The
	// acks are on disk before it waits for a job. acked is nil where none of them was
	// stored; where it is there, err is about the fetch alone. The acks of a worker that
	// is given no jobs count, and so do those beside a fetch that is refused. Sending
	// them again is as harmless as it is for Ack. The errors of AckAll and of Fetch.
	Next(ctx context.Context, acks []AckRequest, f FetchRequest) (acked []Acked, jobs []*Job, err error)
	// Fail ends an attempt badly (§7.4); the job that comes back says whether
	// it will be retried. Conflict, NotFound, and what [Failure.Validate] says.
	Fail(ctx context.Context, c Claim, f Failure) (*Job, error)
	// Beat says that a worker lives and extends its reservations (§7.5).
	Beat(ctx context.Context, b Beat) (BeatReply, error)
	// Register tells of a worker before its first beat (contract §3.12). It
	// begins a new life: of what was known under this ID only an operator's
	// directive stays. Invalid without an ID.
	Register(ctx context.Context, w WorkerInfo) (Registration, error)
	// Deregister forgets a worker that has stopped. The jobs it still holds are
	// available again at once, given back untouched as by a FAIL with Requeue (and
	// failed where they were so too often), and their ids are returned. NotFound when no such worker has registered or
	// beaten; Invalid without an ID.
	Deregister(ctx context.Context, id string) (released []ID, err error)
}

// Registration is what a worker is told when it registers.
type Registration struct {
	Time       time.Time     // of the server
	Heartbeat  time.Duration // how often it should beat
	Silence    time.Duration // after how long without a beat its jobs are given to others
	Visibility time.Duration // length of a reservation that nobody chose
}

// FetchRequest asks for work.
type FetchRequest struct {
	Queues     []string      // at least one, the first comes first
	Count      int           // 0 is 1; at most 100
	Worker     string        // who asks; may be empty
	Tenant     string        // whose jobs alone are wanted; empty: all
	Versions   *Versions     // of which types only some versions are wanted; nil: none
	Visibility time.Duration // length of the reservation; 0 is the job's own, else the server's
	Wait       time.Duration // how long to wait for a job; at most 20 s
	Room       Room          `json:"-"` // ends the claim before Count when jobs are large; nil has room for all
}

// AckRequest is one ACK of several.
type AckRequest struct {
	Claim
	Result json.RawMessage // nil is none
}

// Acked is the verdict on one ACK of several.
type Acked struct {
	FinishedAt time.Time // when the job was completed; zero with an Err
	Err        error     // why it was not, as [Worker.Ack] says it
}

// TooManyAcks is the TooLarge for n ACKs in one call.
func TooManyAcks(n int) error {
	return Errorf(TooLarge, "%d ACKs in one call, at most %d are taken; send several calls", n, MaxAcks).
		With(map[string]any{"size": n, "max_ack_batch_size": MaxAcks})
}

// Beat is a heartbeat.
type Beat struct {
	Worker     WorkerInfo    // ID is required; BeatAt is set by the server
	Jobs       []Claim       // what the worker is running
	Visibility time.Duration // 0 is the length fixed at FETCH
}

// BeatReply is what the server wants of the worker.
type BeatReply struct {
	Directive string // "running", "quiet" or "terminate"
	Extended  []ID   // whose reservation was extended
	Cancelled []ID   // told jobs that have been cancelled: stop them
	Lost      []ID   // told jobs that this worker no longer holds: stop them
	Time      time.Time
}

// Operator is what people and dashboards ask.
type Operator interface {
	// Job reads a job and changes nothing (§7.7). NotFound.
	Job(ctx context.Context, id ID) (*Job, error)
	// Jobs lists jobs; with f.Dead, the dead letters.
	Jobs(ctx context.Context, f Filter) (Page, error)
	// Cancel stops a job (§7.6). Cancelling twice is no error; Finished for a
	// completed or discarded job; NotFound.
	Cancel(ctx context.Context, id ID, by, reason string) (Change, error)
	// Activate releases a pending job (§6.3). Conflict, NotFound.
	Activate(ctx context.Context, id ID) (Change, error)
	// Revive takes a dead letter back into its queue. NotFound when it is none;
	// Conflict when its expires_at has passed.
	Revive(ctx context.Context, id ID) (Change, error)
	// Retry takes any discarded job back into its queue, as an operator may
	// (§6.3): available, with attempt 0 and no errors. Conflict when it is in
	// another state, of which completed and cancelled have no way out, and when
	// its expires_at has passed: it must not run any more (§5.2). NotFound.
	Retry(ctx context.Context, id ID) (Change, error)
	// ReviveDead takes back the dead letters that f lets through, those that died
	// first at the front: at most f.Limit of them, or all with 0. Of f it heeds
	// also Queue, Type, ErrorType, Since and Until. It says how many it took, also
	// together with an error: what was taken before it stays taken.
	ReviveDead(ctx context.Context, f Filter) (int64, error)
	// PurgeDead removes for good the dead letters that died before an instant, and
	// counts as ReviveDead. Invalid for the zero time.
	PurgeDead(ctx context.Context, before time.Time) (int64, error)
	// DeleteDead removes a dead letter for good. NotFound when it is none.
	DeleteDead(ctx context.Context, id ID) error
	// DeadStats counts the dead letters.
	DeadStats(ctx context.Context) (DeadStats, error)
	// Queue reads a queue's counters. NotFound when no job ever named it.
	Queue(ctx context.Context, name string) (Queue, error)
	// Queues reads all queues; the default queue is always among them.
	Queues(ctx context.Context) ([]Queue, error)
	// Events reads the event log, oldest first.
	Events(ctx context.Context, f EventFilter) ([]Event, error)
	// History reads the newest events of one job, at most HistoryLimit of them,
	// oldest first; those before a manual retry are among them, and those that
	// were pruned are not. NotFound.
	History(ctx context.Context, id ID) ([]Event, error)
	// Workers lists the workers that have registered or beaten, by ID. One that
	// is Stale was not heard of in time.
	Workers(ctx context.Context) ([]WorkerInfo, error)
	// Worker reads one of them. NotFound.
	Worker(ctx context.Context, id string) (WorkerInfo, error)
	// Direct sets what a worker is told with its next BEAT, and gives it no jobs
	// from now on: Quiet or Terminate, until Resume takes it back or the worker
	// deregisters. It is stored, so it outlives a restart of the server. Invalid
	// for another wish; NotFound when no such worker has registered or beaten.
	Direct(ctx context.Context, id, wish string) (WorkerInfo, error)
	// DirectAll does so for every worker that is known now, in one step, and says
	// how many they are. Who comes later is not told. Invalid.
	DirectAll(ctx context.Context, wish string) (int, error)
	// Health measures the server and its store.
	Health(ctx context.Context) (Health, error)
}

// KeyService is what people ask of the keys that keep jobs from being doubled.
type KeyService interface {
	// Explain says what an envelope comes to by its unique policy alone, before
	// middleware, and which job it would meet now. It changes nothing. Invalid
	// when there is no policy.
	Explain(ctx context.Context, c Checked) (Explanation, error)
	// HeldKeys lists the unique keys that are held, those of the newest ids first:
	// each once, with the newest of its jobs that has not ended, or else with the
	// finished one that Holds it still.
	// Of f it heeds Queue, Type, States, Limit, Offset and Cursor; and Dedup, with which
	// it lists the deduplication keys that are held, of which the Key is the id in the queue.
	HeldKeys(ctx context.Context, f Filter) (HeldKeys, error)
	// ReleaseKey takes a unique key off every job that carries it, and says off
	// how many. The jobs stay, and run.
	ReleaseKey(ctx context.Context, fingerprint string) (int, error)
	// DedupOwner is the job that holds a deduplication key of a queue now. NotFound.
	DedupOwner(ctx context.Context, queue, id string) (*Job, error)
	// ReleaseDedup takes a deduplication key off the job that holds it; the job
	// stays, and runs. It says whether there was one.
	ReleaseDedup(ctx context.Context, queue, id string) (bool, error)
}

// CronService keeps schedules (contract §3.15).
type CronService interface {
	// PutCron stores a schedule under its name. One that is there is replaced and
	// keeps what has become of it; as long as neither expression nor time zone
	// change, its next run stays what it was. Invalid names the field that is
	// wrong, with its position in an expression; BadRetry.
	PutCron(ctx context.Context, s CronSpec) (c *Cron, created bool, err error)
	// ChangeCron changes parts of a schedule. What passed while it was paused is
	// not made up for. Invalid, BadRetry, NotFound.
	ChangeCron(ctx context.Context, name string, p CronPatch) (*Cron, error)
	// Cron reads a schedule. NotFound.
	Cron(ctx context.Context, name string) (*Cron, error)
	// Crons lists the schedules by name.
	Crons(ctx context.Context, f CronFilter) (CronPage, error)
	// DeleteCron removes a schedule and returns it as it was. Its jobs stay. NotFound.
	DeleteCron(ctx context.Context, name string) (*Cron, error)
	// TriggerCron makes a job, or a workflow, of a schedule now, paused or not; its next
	// run stays what it was. Conflict when the overlap policy is skip and the run before
	// has not ended. NotFound.
	TriggerCron(ctx context.Context, name string) (CronJob, error)
	// CronHistory tells of the newest runs, the newest first: at most n of them,
	// and MaxCronRuns with 0. NotFound.
	CronHistory(ctx context.Context, name string, n int) ([]CronJob, error)
}

// ProgressService carries what a worker tells while it runs, and what came of a job
// (contract §3.17).
type ProgressService interface {
	Progresser
	// DeleteCheckpoint forgets where a job might go on, and says whether it knew. NotFound.
	DeleteCheckpoint(ctx context.Context, id ID) (bool, error)
	// Outcome says what came of a job once it has ended, and how it is when wait is
	// over; a wait of 0 is none, and the longest is a minute. The end is on disk by
	// then. It wakes with the commit and does not poll. NotFound.
	Outcome(ctx context.Context, id ID, wait time.Duration) (Outcome, error)
	// Outcomes is Outcome without a wait of up to MaxOutcomes jobs, at one instant. What
	// is not stored is left out. Invalid without ids; TooLarge for more of them, and
	// where their results take more than MaxOutcomesBytes.
	Outcomes(ctx context.Context, ids []ID) (map[ID]Outcome, error)
}

// SchemaService keeps the schemas that args are held to (contract §3.20, §4.20). A PUSH
// whose member schema is the URI of one, or whose type and version are those of one, is
// a SchemaViolation where its args do not fit; any other is let through.
type SchemaService interface {
	// PutSchema registers a schema, and returns it with what was filled in. It holds for
	// each PUSH that comes after it. Conflict where its URI, or its type and version,
	// are registered; Invalid where it is no JSON Schema or refers to another document;
	// TooLarge.
	PutSchema(ctx context.Context, s Schema) (Schema, error)
	// Schema reads the schema of a URI, or the latest of a type. NotFound.
	Schema(ctx context.Context, name string) (Schema, error)
	// Schemas lists the schemas that f lets through, by their URIs.
	Schemas(ctx context.Context, f SchemaFilter) ([]Schema, error)
	// DeleteSchema removes the schema of a URI and returns it. Jobs that are stored are
	// not looked at again. NotFound.
	DeleteSchema(ctx context.Context, uri string) (Schema, error)
}

// Progresser is what the holder of an attempt may tell before it ends.
type Progresser interface {
	// Progress takes a report of an attempt and extends its reservation, as BEAT does. A
	// job that is not active takes nothing and is no error: see Reported. Conflict where
	// another worker holds it, NotFound, and what [Report.Validate] says.
	Progress(ctx context.Context, c Claim, r Report) (Reported, error)
	// SaveCheckpoint keeps where the next attempt may go on, a JSON object, in place of
	// what was kept before; metadata may be nil. It is on disk when it returns. Conflict
	// where the job has ended or another worker holds it, NotFound, and what
	// [ValidateCheckpoint] says.
	SaveCheckpoint(ctx context.Context, c Claim, state, metadata json.RawMessage) (Checkpoint, error)
}

// Reported is how a job is after a report about it.
type Reported struct {
	State    State
	Progress *Progress // nil: nothing was ever told
	Accepted bool      // the job was active, and the report is kept
}

// Outcome is what has come of a job.
type Outcome struct {
	ID         ID
	State      State
	Result     json.RawMessage // nil for none
	Error      json.RawMessage // the latest; nil for none
	FinishedAt time.Time       // zero before its end
}

// Outcome is what has come of the job.
func (j *Job) Outcome() Outcome { return Outcome{j.ID, j.State, j.Result, j.Error, j.FinishedAt} }

// CheckOutcomes is nil for ids that Outcomes takes.
func CheckOutcomes(ids []ID) error {
	switch {
	case len(ids) == 0:
		return invalid(Invalid, "ids", "is required: an array of the ids of jobs, at most %d", MaxOutcomes)
	case len(ids) > MaxOutcomes:
		return Errorf(TooLarge, "%d ids in one call, at most %d are taken; send several calls", len(ids), MaxOutcomes).
			With(map[string]any{"size": len(ids), "limit": MaxOutcomes})
	}
	return nil
}

// Change is a job after an operator's verb, and the state it came from.
type Change struct {
	*Job
	Previous State
}

// Health is how the server is.
type Health struct {
	OK          bool          // requests are served
	Degraded    bool          // they are, but not as they should be
	Backend     string        // "sqlite"
	Latency     time.Duration // of one read
	Uptime      time.Duration
	Time        time.Time
	Queues      int
	Paused      int
	Maintenance Maintenance // that goes on
	Workers     int
	StaleAfter  time.Duration // a worker silent for longer is stale
	StaleNow    int
	Problem     string // what is wrong when not OK, or Degraded, for a person
	Logged      bool   // the log of the server has it already
	Check       string // of the store after an unclean stop: running, passed or failed; empty where there was no need
}
