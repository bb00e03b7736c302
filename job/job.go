package job

import (
	"encoding/json"
	"time"
)

// SpecVersion is the version of Open Job Spec that every job envelope carries (ojs-core.md §5.1).
const SpecVersion = "1.0.0-rc.1"

// ID names a job: a UUIDv7 in lower-case text form (ojs-core.md §5.1).
type ID string

// A Job is what was asked for, and what has happened to it since.
type Job struct {
	Envelope
	Status
	keys   *keys   // what was read of Unique and Deduplication at PUSH; nil without a key, and out of a store
	events []Event // what the verbs did and the store has not written yet
	was    mark    // before the first of them that moved it
	moved  bool    // there was one
	left   mark    // before the last of them
	rules  *Rules  // what the server decides; see Under

	queue *QueueConfig // of its queue, where that is known; see In
}

// Envelope is what was asked for. It never changes once the job is enqueued.
//
// Args, Meta, Retry, Unique and Extra are JSON as it came, never re-encoded.
// [ParseEnvelope] reads one from a request body; a Go program fills one by hand,
// where only Type and Args are needed.
type Envelope struct {
	ID          ID              // empty: the server makes one
	Type        string          // dot-separated, "email.send"
	Queue       string          // empty: "default"
	Args        json.RawMessage // a JSON array
	Meta        json.RawMessage // a JSON object; nil is {}
	Priority    int             // -100 to 100, higher runs first
	ScheduledAt time.Time       // zero: at once
	ExpiresAt   time.Time       // zero: never
	Delay       time.Duration   // added to the time of PUSH; sets ScheduledAt
	TTL         time.Duration   // added to the time of PUSH; sets ExpiresAt
	Hold        bool            // enter pending, and wait for ACTIVATE
	Timeout     time.Duration   // limit of one execution; 0: the server's limit
	Visibility  time.Duration   // length of a reservation; 0: the server's default
	Retry       json.RawMessage // the policy as supplied; nil: the default policy of ojs-retry.md §8
	MaxAttempts int             // from Retry, filled by Check
	Unique      json.RawMessage // the policy as supplied (ojs-unique-jobs.md §2)
	Extra       json.RawMessage // a JSON object of further members, given back at the top level as they came

	Deduplication json.RawMessage // {"id", "ttl", "extend", "replace"} as supplied (asyncmq-deduplication.md)
	RateLimit     json.RawMessage // what it may run beside, and how often, as supplied (contract §4.12)
	CustomID      string          // a name of the caller's for one job of its queue, as long as that is stored; not its ID
}

// Status is what has happened to a job. It changes only through the verbs in
// lifecycle.go. Zero times mean "has not happened".
type Status struct {
	State       State
	Attempt     int           // executions begun; FETCH counts it up, a manual retry resets it
	Releases    int           // executions given back untouched, which cost no attempt
	Seq         int64         // place in line; the store gives one at PUSH and at each entry into available
	DueAt       time.Time     // when a clock must look at this job again
	CreatedAt   time.Time     // when PUSH was received
	EnqueuedAt  time.Time     // when it last became available
	StartedAt   time.Time     // when the present or last attempt began
	ActivatedAt time.Time     // when ACTIVATE released it
	FinishedAt  time.Time     // when it became completed, cancelled or discarded
	NextRetryAt time.Time     // only while retryable
	RetryDelay  time.Duration // the backoff before the attempt that is next or running
	Lease       Lease         // only while active
	Lost        *LostLease    // the reservation before, while its holder may still ACK
	Dead        bool          // discarded, and kept in the dead letter queue
	Behind      bool          // available, and not to be claimed: another of its lane comes first, or the limit is exhausted
	LastEvent   int64         // Seq of the newest event of this job; the store sets it
	Fingerprint string        // its unique key, the one it was admitted under; empty without a policy, and after a release
	Holds       StateSet      // the states in which it holds that key; empty once it has left them
	DedupUntil  time.Time     // when its deduplication key is free; zero: when it has ended
	DedupFreed  bool          // its deduplication key was taken off it
	RewrittenAt time.Time     // when a later PUSH last overwrote its args and meta
	After       ID            // the job whose end it waits for, or would if it had not been activated; never one that has ended
	Keep        time.Time     // a window needs it until then, also finished; Forever: as long as it is stored
	Tenant      string        // that its meta names; empty for none
	Flow        *FlowRef      // the step of a workflow that it is; nil for all others. Never changed
	Lane        string        // the key under which it waits when that is exhausted; empty for a job that does not
	Result      json.RawMessage
	Error       json.RawMessage // the latest error; ACK removes it
	Errors      json.RawMessage // a JSON array, oldest first, the newest 25
	Progress    *Progress       // what the worker of its attempt told last; nil: nothing. Nobody changes what it points to
	Checkpoint  *Checkpoint     // where its next attempt may go on; nil: at the beginning. As Progress

	ParentResults json.RawMessage // of a step of a workflow: a JSON array, what it was given by those before it (contract §4.17)
	ParentErrors  json.RawMessage // of a callback after a failure: a JSON array beside ParentResults
}

// Lease is the right of one worker to one attempt (contract §4.8): every change by a worker is fenced by it.
type Lease struct {
	Token  string        // random, new at each FETCH; known to its holder only
	Worker string        // may be empty
	Length time.Duration // how far a heartbeat moves Until
	Until  time.Time     // when the reservation ends
}

// LostLease is a reservation that ended without its holder's word. Its holder's
// ACK is still taken for a while (ojs-delivery-guarantees.md §8).
type LostLease struct {
	Token   string        `json:"token"`
	Worker  string        `json:"worker,omitempty"`
	Length  time.Duration `json:"length"` // nanoseconds
	At      time.Time     `json:"at"`
	Fetches int           `json:"claims,omitempty"` // FETCHes since
}

// Claim names the attempt that a worker speaks of in ACK, FAIL and BEAT. Token
// and Worker may be empty, as old clients send neither.
type Claim struct {
	ID     ID
	Token  string
	Worker string
}

// At the limits of contract.md §1.8.
const (
	MaxJobBytes    = 1 << 20 // one job's JSON
	MaxMetaBytes   = 64 << 10
	MaxResultBytes = 1 << 20
	MaxErrorBytes  = 64 << 10 // one error without its backtrace

	MaxCheckpointBytes = 1 << 20  // a checkpoint with its metadata
	MaxOutcomes        = 1_000    // jobs whose outcomes are read in one request
	MaxOutcomesBytes   = 32 << 20 // their results and errors together

	MaxBatch      = 10_000
	MaxAcks       = 1_000 // ACKs of one request
	MaxTypeLen    = 255
	MaxQueueLen   = 128
	MaxDepth      = 128 // nesting of any JSON that is sent
	maxHistory    = 25
	maxFrames     = 50
	maxFrameChars = 10_000
)

// DefaultQueue is where jobs without a queue go.
const DefaultQueue = "default"

// ErrorType is the type of the latest error, empty without one.
func (j *Job) ErrorType() string { return detail(j.Error, "type") }

// ErrorCode is the code of the latest error, empty without one.
func (j *Job) ErrorCode() string { return detail(j.Error, "code") }

// Clone is a copy whose changes do not show in j. Raw JSON is shared: nobody writes to it.
func (j *Job) Clone() *Job {
	c := *j
	if j.Lost != nil {
		l := *j.Lost
		c.Lost = &l
	}
	c.events, c.was, c.moved, c.left, c.rules = nil, 0, false, 0, nil
	return &c
}
