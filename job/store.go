package job

import (
	"context"
	"errors"
	"time"
)

// Store keeps jobs. It decides nothing: rules are in this package, rows in the store.
//
// A Store must be safe for concurrent use. It must hand out copies, and keep
// copies of what it is given: it shares nothing but raw JSON with its callers.
type Store interface {
	// Update runs fn in a read-write transaction. When it returns nil the
	// changes are on disk, flushed, not only in the system's cache; when fn
	// returns an error, that error comes back and none of fn's changes stay.
	// Concurrent Updates may share one commit, and fn may run more than once,
	// so fn must touch nothing but its tx and variables it sets anew at each
	// run. If ctx ends before fn has started, Update returns an Unavailable
	// that wraps ctx.Err(); after that it always reports the true outcome.
	Update(ctx context.Context, fn func(Tx) error) error

	// View runs fn on one consistent snapshot that holds every Update that has
	// returned. It never waits for a writer.
	View(ctx context.Context, fn func(ReadTx) error) error

	// Trouble is what is wrong with the store at present, in words for its
	// operator, and nil when all is well. It waits for nothing.
	// One that only makes it slow is [ErrDegraded].
	Trouble() error

	// Probe finds out whether something can be written and flushed now. It writes
	// a little where nothing was written lately, for all who ask at the same time
	// together, waits for 2 s at most, and returns what is wrong, as Trouble does.
	Probe(ctx context.Context) error

	// Close ends the store after the Updates that have begun. It may be called twice.
	Close() error
}

// StoreFacts is what a store shows of itself at no cost: nothing is read from the
// database for it. A store that has them has a method Facts() StoreFacts.
type StoreFacts struct {
	Troubles   []string  // the kinds that there are at present, of TroubleKinds and in their order
	FileBytes  int64     // of the database file
	LogBytes   int64     // of its write-ahead log; 0 where there is none
	LastCommit time.Time // when something was last written and flushed; zero if never since the store was opened
}

// TroubleKinds are all that a store may have trouble with, the worst first.
var TroubleKinds = []string{"failed", "damaged", "no_space", "lock_held", "unwritable", "rotten_index", "log_grown", "slow"}

// ErrDegraded is what a trouble of a store is that does all it is asked, but not
// as fast as it should.
var ErrDegraded = errors.New("degraded")

// ReadTx reads one snapshot. It is the sum of small roles; take no more than you use.
type ReadTx interface {
	JobReader
	KeyReader
	QueueReader
	WorkerReader
	EventReader
	CronReader
	LimitReader
	TenantReader
	SchemaReader
	WorkflowReader
	WebhookReader
}

// JobReader reads jobs.
type JobReader interface {
	// Job returns a copy of the job, or NotFound.
	Job(ID) (*Job, error)
	// Jobs returns the page of jobs that f asks for, and how many there are in all,
	// or at least: no count reads a large store whole.
	// A page that f.Room ends holds at least one job and has a Next; if there is no
	// room for the first, it is NoRoom.
	Jobs(f Filter) (Page, error)
	// Held returns the active jobs whose lease names the worker.
	Held(worker string) ([]*Job, error)
	// Holders returns the ids of the active jobs by the worker that their lease
	// names; of one worker if it is not empty. It reads no bodies.
	Holders(worker string) (map[string][]ID, error)
	// DeadStats counts the dead letters.
	DeadStats() (DeadStats, error)
}

// KeyReader finds jobs by the keys that keep them from being doubled.
type KeyReader interface {
	// Twins returns, of the jobs with this Fingerprint, the one that Holds it and
	// of the others the newest of each state, of one instant the one stored last: nine
	// at most, whatever is stored.
	// The job with the ID but is none of them; it may be empty.
	Twins(fingerprint string, but ID) ([]*Job, error)
	// DedupOwner returns the newest job that holds the deduplication key at now,
	// or nil: see Job.DedupKey.
	DedupOwner(queue, id string, now time.Time) (*Job, error)
	// Custom returns the job with this CustomID, or nil.
	Custom(queue, id string) (*Job, error)
}

// QueueReader reads queues. A queue exists from the first job that named it on, or
// from PutQueue.
type QueueReader interface {
	// Queue returns the queue with its counters, or NotFound.
	Queue(name string) (Queue, error)
	// Queues returns all queues by name.
	Queues() ([]Queue, error)
	// QueueSettings returns what holds for a queue: its settings under those of
	// TemplateQueue, see QueueSettings.Under. It is nil where nothing is set, and shared: nobody changes
	// it. In a Tx it reads nothing but memory.
	QueueSettings(name string) (*QueueSettings, error)
	// AllQueueSettings returns the settings that are stored, by name, each as it is and not
	// under the template, which is one of them.
	AllQueueSettings() ([]*QueueSettings, error)
	// Slots returns the tallies of a queue, of all together if it has no name, by their
	// time: those of the slots that begin at from or later, and in which something happened. A Tx does
	// not see what its own commit adds.
	Slots(queue string, from time.Time) ([]Slot, error)
	// Priorities returns how many available jobs of a queue there are of each priority.
	Priorities(queue string) (map[int]int64, error)
	// OldestSince is when the job of a queue entered it that is available for the
	// longest time, or the zero time.
	OldestSince(queue string) (time.Time, error)
}

// WorkerReader reads the workers that have registered or beaten.
type WorkerReader interface {
	// Worker returns the worker, or NotFound.
	Worker(id string) (WorkerInfo, error)
	// Workers returns all workers by id.
	Workers() ([]WorkerInfo, error)
}

// SchemaReader reads the schemas of args.
type SchemaReader interface {
	// Schemas returns all schemas in the order in which they were registered.
	Schemas() ([]Schema, error)
}

// CronReader reads schedules.
type CronReader interface {
	// Cron returns a copy of the schedule, or NotFound.
	Cron(name string) (*Cron, error)
	// Crons returns copies of all schedules by name. Where some of them cannot be
	// read it returns the others beside an Unavailable that names those, and nil
	// beside any other error.
	Crons() ([]*Cron, error)
}

// WorkflowReader reads workflows.
type WorkflowReader interface {
	// Flow returns a workflow without its nodes, or NotFound.
	Flow(ID) (*Flow, error)
	// Flows returns the workflows that f lets through, the newest id first, each with its
	// node 0 alone; how many there are in all, or 10,001 where there are more; and the
	// Cursor of the next page.
	Flows(f WorkflowFilter) (page []*Flow, total int64, next string, err error)
	// FlowNodes returns nodes of a workflow by their index: at most n, those from one on.
	FlowNodes(id ID, from, n int) ([]*FlowNode, error)
}

// WebhookReader reads webhooks, and what of them was not delivered yet.
type WebhookReader interface {
	// Webhooks returns all webhooks by id, with their secrets.
	Webhooks() ([]Webhook, error)
	// Webhook returns the webhook, or NotFound.
	Webhook(id string) (Webhook, error)
	// Deliveries returns the deliveries of a webhook without their bodies: those that were
	// given up, and behind them those that wait, by the time at which they are due.
	Deliveries(id string) ([]WebhookDelivery, error)
	// WebhookDelivery returns one delivery with its body, or NotFound.
	WebhookDelivery(id string, seq int64) (WebhookDelivery, error)
}

// WebhookWriter stores webhooks.
type WebhookWriter interface {
	// PutWebhook stores a webhook, in place of one of the same id. The progress of one that is there stays.
	PutWebhook(Webhook) error
	// StepWebhook adds what has become of a webhook: its After never goes back, Succeeded, Failed and
	// Missed are added to those stored, and LastAt and LastStatus stay where LastAt is zero. For one that is gone it does nothing.
	StepWebhook(id string, p WebhookProgress) error
	// SkipWebhook sets After of a webhook to the newest event that is stored, and Off as it is given.
	SkipWebhook(id string, off bool) error
	// PutDelivery stores a delivery, in place of an earlier one, unless its webhook is gone. Of those
	// of a webhook that were given up the newest MaxDead stay.
	PutDelivery(WebhookDelivery) error
	// DeleteDelivery removes one, if it is there.
	DeleteDelivery(id string, seq int64) error
	// PruneDeliveries removes those that were given up and whose last attempt was before an instant.
	PruneDeliveries(before time.Time) error
	// DeleteWebhook removes a webhook with its deliveries, or returns NotFound.
	DeleteWebhook(id string) error
}

// WebhookTx is what webhooks need of a Tx.
type WebhookTx interface {
	WebhookReader
	WebhookWriter
}

// EventReader reads the event log.
type EventReader interface {
	// Events returns at most f.Limit events in ascending order, and fewer if f.Room
	// ends the page; if there is no room for the first, it is NoRoom.
	Events(f EventFilter) ([]Event, error)
	// EventSpan returns which part of the log is there. It costs the same however long the
	// log is.
	EventSpan() (EventSpan, error)
	// History returns the newest events of a job in ascending order, at most
	// HistoryLimit of them and none that was pruned, or NotFound. It reads what
	// it returns and not the whole log.
	History(ID) ([]Event, error)
}

// Tx is a read-write transaction. It must not be used after fn has returned,
// nor by two goroutines.
type Tx interface {
	WorkTx
	JobWriter
}

// JobWriter stores jobs.
type JobWriter interface {
	// InsertJob stores a new job, its events and its counters. Duplicate if the
	// ID exists; Internal if another job Holds its Fingerprint or has its CustomID,
	// which the caller has looked at before. A job with Seq 0 is given the next Seq, also in *j; so is LastEvent.
	InsertJob(j *Job) error
	// InsertJobs is InsertJob for many jobs, in their order. It stores those whose
	// ID is free, and says of each whether it was.
	InsertJobs(js []*Job) (stored []bool, err error)
	// UpdateJob saves the Status of a job that this tx has read, and its Queue and Priority, with its
	// events and counters. Seq and LastEvent are given as by InsertJob.
	UpdateJob(j *Job) error
	// RewriteJob is UpdateJob that also saves Args and Meta.
	RewriteJob(j *Job) error
	// DeleteJob removes a job for good, or returns NotFound.
	DeleteJob(ID) error
}

// FirstInserter is what a JobWriter may be able to do in one step where others look
// for the key first. A Service asks for it by assertion and does without.
type FirstInserter interface {
	// InsertFirst is InsertJob for a job that Holds its Fingerprint and has neither
	// Deduplication nor CustomID: it stores the job and reports true if no job
	// has this ID or this Fingerprint, and does nothing otherwise.
	InsertFirst(j *Job) (bool, error)
}

// WorkTx is what a Tx can do beside storing jobs.
type WorkTx interface {
	ReadTx
	LimitWriter
	WebhookWriter
	// Available returns up to n available jobs: the queues in the order given,
	// inside one by priority, highest first, then by Seq. Queues whose settings say
	// that they are paused have none, and what is Behind is passed over.
	// It and Due may return fewer when they are large, but at least one if there is one.
	Available(queues []string, n int) ([]*Job, error)
	// AvailableOf is Available for the jobs of a tenant. It reads what it returns, and
	// not the jobs of others.
	AvailableOf(tenant string, queues []string, n int) ([]*Job, error)
	// AvailableVersions is Available, or AvailableOf where a tenant is named, for the jobs
	// that v wants. It looks through a part of very long queues alone: more reports that
	// there may be further jobs behind it, which a later transaction finds.
	AvailableVersions(v *Versions, tenant string, queues []string, n int) (jobs []*Job, more bool, err error)
	// Due returns up to n jobs in state s whose DueAt is not after before, the
	// earliest first, and those of one instant by Seq. With math.MaxInt32 it
	// returns all, however large.
	Due(s State, before time.Time, n int) ([]*Job, error)
	// NextDue returns the earliest DueAt of state s, or the zero time.
	NextDue(s State) (time.Time, error)
	// Waiting returns the jobs with this After, by id; it is the ID of a job or a workflow.
	Waiting(ID) ([]*Job, error)
	// Dead returns up to n dead letters, those that died first at the front. Of
	// f it heeds Queue, Type, ErrorType, Since and Until.
	Dead(f Filter, n int) ([]*Job, error)
	// PutWorker stores what is known of a worker; DeleteWorker forgets it.
	PutWorker(WorkerInfo) error
	DeleteWorker(id string) error
	// PutCron stores a schedule, in place of one of the same name.
	PutCron(c *Cron) error
	// StepCron saves what has become of a schedule, which is all but its CronSpec,
	// CreatedAt, UpdatedAt and AnchorAt, if SeenAt is still what was and the
	// CronSpec that of UpdatedAt. It reports whether that was so: that is the claim of a tick.
	StepCron(c *Cron, was time.Time) (bool, error)
	// DeleteCron removes a schedule, or returns NotFound.
	DeleteCron(name string) error
	// InsertSchema stores a schema; Conflict where its URI, or its type and version,
	// are those of another. DeleteSchema removes the one of a URI, or returns NotFound.
	InsertSchema(s Schema) error
	DeleteSchema(uri string) error
	// PutQueue makes a queue without jobs, if there is none of that name.
	PutQueue(name string, now time.Time) error
	// DeleteQueue removes a queue in which no jobs are, with its settings; NotFound
	// if there is none, Conflict while it has jobs.
	DeleteQueue(name string) error
	// PutQueueSettings stores settings, in place of those of the same name. The
	// caller gives them away. DeleteQueueSettings removes them, if there are any.
	PutQueueSettings(s *QueueSettings) error
	DeleteQueueSettings(name string) error
	// PruneSlots removes the slots of a queue that begin before an instant.
	PruneSlots(queue string, before time.Time) error
	// Oldest returns up to n available jobs of a queue by Seq, paused or not.
	Oldest(queue string, n int) ([]*Job, error)
	// Answer returns what PutAnswer stored under a key, with its digest; a nil answer
	// if there is none.
	Answer(key string) (digest string, answer []byte, err error)
	// PutAnswer stores an answer under a key that has none.
	PutAnswer(key, digest string, answer []byte, at time.Time) error
	// PruneAnswers removes the answers from before an instant.
	PruneAnswers(before time.Time) error
	// InsertFlow stores a new workflow with its nodes, or is a Duplicate.
	InsertFlow(*Flow) error
	// FlowNode returns a copy of one node, or NotFound.
	FlowNode(id ID, i int) (*FlowNode, error)
	// SaveFlowNode saves what may change of a node.
	SaveFlowNode(id ID, n *FlowNode) error
	// EndFlow notes the end of a workflow.
	EndFlow(id ID, to WorkflowState, at time.Time) error
	// PruneFlows removes workflows in a state that ended before t, those that ended first at the
	// front, as many as have n nodes together or one, and says whether more are left.
	PruneFlows(s WorkflowState, before time.Time, n int) (more bool, err error)
	// AddEvent stores an event that is no job's. The store gives its Seq.
	AddEvent(Event) error
	// PruneEvents removes up to n of the oldest groups of events from before t and says whether more are left.
	PruneEvents(before time.Time, n int) (more bool, err error)
}

// Filter chooses jobs for a list. Zero members do not restrict.
type Filter struct {
	States    []State
	Queue     string
	Type      string // exact, or a prefix that ends in *
	Dead      bool   // dead letters only, newest death first; otherwise newest id first
	Tenant    string
	Holding   bool      // of each unique key one job: the newest that has not ended, else the one that Holds it
	Dedup     bool      // those that hold a deduplication key at Now
	Now       time.Time // of Dedup; a Service takes its own
	ErrorType string    // type of the latest error; with Dead only
	Since     time.Time
	Until     time.Time
	Limit     int // 1 to 1000; a Service takes 0 as 50, a Store wants a number
	Offset    int
	Cursor    string // Page.Next of the page before
	Room      Room   `json:"-"` // ends a page of large jobs before its Limit; nil has room for all
}

// Page is one page of a list.
type Page struct {
	Jobs    []*Job
	Total   int64  // of all pages
	AtLeast bool   // Total is where a count stopped: there may be more
	Next    string // empty on the last page
}

// Queue is a queue and what is in it.
type Queue struct {
	Name      string
	Paused    bool      // no jobs of it are claimed
	Draining  bool      // PUSH to it is refused
	Since     time.Time // when it was last paused, drained or resumed; zero: never
	By        string    // who did that, where it was told
	CreatedAt time.Time
	Counts    map[State]int64
	Dead      int64 // of Counts[Discarded], how many are dead letters
}

// Set shows on a queue what is set of it, which may be nil, and returns it.
func (q Queue) Set(s *QueueSettings) Queue {
	if s != nil && s.Name == q.Name {
		q.Paused, q.Draining, q.Since, q.By = s.Paused(), s.Draining(), s.Since, s.By
	}
	return q
}

// Depth is how many jobs of the queue have not finished.
func (q Queue) Depth() int64 {
	var n int64
	for s, c := range q.Counts {
		if !s.Terminal() {
			n += c
		}
	}
	return n
}

// DeadStats counts the dead letter queue.
type DeadStats struct {
	Total       int64
	ByQueue     map[string]int64
	ByType      map[string]int64
	ByErrorType map[string]int64
	Oldest      time.Time
	Newest      time.Time
}

// WorkerInfo is what a worker has told of itself (ojs-core.md §7.5).
type WorkerInfo struct {
	ID            string            `json:"id"`
	Hostname      string            `json:"hostname,omitempty"`
	PID           int               `json:"pid,omitempty"`
	Queues        []string          `json:"queues,omitempty"`
	Concurrency   int               `json:"concurrency,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	LabelList     []string          `json:"label_list,omitempty"` // labels of a worker that gives them as a list
	Version       string            `json:"version,omitempty"`
	State         string            `json:"state,omitempty"`     // as the worker reports it
	Directive     string            `json:"directive,omitempty"` // as an operator wishes it: "", "quiet" or "terminate"
	LastDirective string            `json:"told,omitempty"`      // the strongest directive that it was told and has not gone on from since
	Active        int               `json:"active"`              // jobs: as it tells them in a BEAT; as it holds them when it is read from a Service
	Stale         bool              `json:"stale,omitempty"`     // silent for too long; a server's finding, never a worker's word
	StartedAt     time.Time         `json:"started_at"`
	BeatAt        time.Time         `json:"beat_at"`
}

// Merge is what is known of a worker after it has told now of itself at t: new
// values replace old ones, and what it does not mention stays. Directive and LastDirective
// are never the worker's to set; Stale ends when a worker speaks.
func (w WorkerInfo) Merge(now WorkerInfo, t time.Time) WorkerInfo {
	now.Directive, now.LastDirective, now.Stale = w.Directive, w.LastDirective, false
	if now.Hostname == "" {
		now.Hostname = w.Hostname
	}
	if now.PID == 0 {
		now.PID = w.PID
	}
	if now.Queues == nil {
		now.Queues = w.Queues
	}
	if now.Concurrency == 0 {
		now.Concurrency = w.Concurrency
	}
	if now.Labels == nil && now.LabelList == nil {
		now.Labels, now.LabelList = w.Labels, w.LabelList
	}
	if now.Version == "" {
		now.Version = w.Version
	}
	if now.StartedAt.IsZero() {
		now.StartedAt = w.StartedAt
	}
	if now.StartedAt.IsZero() {
		now.StartedAt = t
	}
	now.BeatAt = t
	return now
}

// EventFilter chooses events. Zero members do not restrict.
type EventFilter struct {
	Types    []string // "job.completed", "job.*", "*"
	Queues   []string
	JobTypes []string
	JobID    ID
	Tenant   string // that the meta of the job names; events of no job have none
	After    int64  // Seq of the last event already seen
	Since    time.Time
	Until    time.Time
	Limit    int  // 1 to 1000; a Service takes 0 as 100, a Store wants a number
	Room     Room `json:"-"` // ends a page of large events before its Limit; nil has room for all
}
