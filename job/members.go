package job

import (
	"encoding/json"
	"slices"
	"time"
)

// members is the table of all that a job consists of, in the order of an answer.
// A new member of Envelope or Status gets a row here, and with it its way through
// requests, answers, the outbox and the store. What is read is read in this order,
// so that of several broken rules the first is told.
func members() []member {
	return append(envelopeMembers(), statusMembers()...)
}

func envelopeMembers() []member {
	return append([]member{
		{name: "specversion", asks: []string{"specversion"}, top: true, first: true, read: (*parser).version,
			show: constant("specversion", SpecVersion), take: passedOver},
		asked(member{field: "ID", name: "id", column: "id_bytes", top: true, required: true, read: (*parser).id, value: idValue, set: setID},
			texts[ID](), func(e *Envelope) *ID { return &e.ID }),
		asked(member{field: "Type", name: "type", column: "type", top: true, first: true, always: true, required: true, read: (*parser).jobType},
			texts[string](), func(e *Envelope) *string { return &e.Type }),
		asked(member{field: "Queue", name: "queue", column: "queue", hot: true, movable: true, always: true, required: true, read: (*parser).queue,
			alike: func(a, b *Envelope) bool { return queueOf(a.Queue) == queueOf(b.Queue) }},
			texts[string](), func(e *Envelope) *string { return &e.Queue }),
		asked(member{field: "Args", name: "args", column: "args", shape: '[', top: true, first: true, always: true, required: true, rewritten: true, read: (*parser).args},
			raws, func(e *Envelope) *json.RawMessage { return &e.Args }),
		asked(member{field: "Meta", name: "meta", asks: []string{"meta", "metadata"}, column: "meta", shape: '{', rewritten: true,
			read: (*parser).payload, show: showMeta},
			raws, func(e *Envelope) *json.RawMessage { return &e.Meta }),
		asked(member{field: "Priority", name: "priority", column: "priority", hot: true, movable: true, required: true, read: (*parser).priority},
			numbers[int](), func(e *Envelope) *int { return &e.Priority }),
		asked(member{field: "Timeout", name: "timeout_ms", asks: []string{"timeout_ms"}, echoes: []string{"timeout"}, column: "timeout_ms",
			read: (*parser).timeout, send: sendTimeout},
			lengths, func(e *Envelope) *time.Duration { return &e.Timeout }),
		asked(member{field: "Visibility", name: "visibility_timeout_ms", answers: []string{"visibility_timeout_ms", "visibility_timeout"},
			asks: []string{}, echoes: []string{"visibility_timeout_ms", "visibility_timeout"}, column: "visibility_ms", late: true,
			read: (*parser).visibility, show: showVisibility, take: takeVisibility, send: sendVisibility},
			lengths, func(e *Envelope) *time.Duration { return &e.Visibility }),
		asked(member{field: "Delay", name: "delay_ms", timed: true, unread: "ScheduledAt reads it",
			unshown: "a PUSH makes ScheduledAt of it", unkept: "a PUSH makes ScheduledAt of it"},
			lengths, func(e *Envelope) *time.Duration { return &e.Delay }),
		asked(member{field: "ScheduledAt", name: "scheduled_at", asks: []string{"scheduled_at", "delay_until", "delay", "delay_ms"}, column: "scheduled_at", timed: true,
			read: (*parser).start, show: showSpelled("scheduled_at", scheduledAt), take: takeSpelled(scheduledAt),
			send: sendSpelled("scheduled_at", scheduledAt, func(e *Envelope) time.Duration { return e.Delay })},
			instants, scheduledAt),
		asked(member{field: "TTL", name: "ttl_ms", timed: true, unread: "ExpiresAt reads it",
			unshown: "a PUSH makes ExpiresAt of it", unkept: "a PUSH makes ExpiresAt of it"},
			lengths, func(e *Envelope) *time.Duration { return &e.TTL }),
		asked(member{field: "ExpiresAt", name: "expires_at", asks: []string{"expires_at", "ttl_ms", "enqueue_ttl"}, column: "expires_at", timed: true,
			read: (*parser).end, show: showSpelled("expires_at", expiresAt), take: takeSpelled(expiresAt),
			send: sendSpelled("expires_at", expiresAt, func(e *Envelope) time.Duration { return e.TTL })},
			instants, expiresAt),
		asked(member{field: "Hold", name: "pending", timed: true, read: (*parser).hold,
			unshown: "the state says it", unkept: "the state says it"},
			flags, func(e *Envelope) *bool { return &e.Hold }),
	}, policyMembers()...)
}

// policyMembers are the members of Envelope that are policies and names, and Extra.
func policyMembers() []member {
	return []member{
		asked(member{field: "Retry", name: "retry", asks: []string{"retry", "retry_policy", "max_attempts"}, column: "retry", shape: '{', always: true, read: (*parser).retryPolicy},
			raws, func(e *Envelope) *json.RawMessage { return &e.Retry }),
		asked(member{field: "Unique", name: "unique", column: "uniq", shape: '{', read: (*parser).uniquePolicy},
			raws, func(e *Envelope) *json.RawMessage { return &e.Unique }),
		asked(member{field: "Deduplication", name: "deduplication", asks: []string{"deduplication"}, echoes: []string{"debounce"}, column: "dedup", shape: '{',
			read: (*parser).dedup, show: showDedup},
			raws, func(e *Envelope) *json.RawMessage { return &e.Deduplication }),
		asked(member{field: "CustomID", name: "custom_job_id", asks: customIDs[:], column: "custom_id", hot: true, read: (*parser).customID, send: sendCustomID},
			texts[string](), func(e *Envelope) *string { return &e.CustomID }),
		asked(member{field: "RateLimit", name: "rate_limit", column: "rate_limit", shape: '{', read: (*parser).rateLimit},
			raws, func(e *Envelope) *json.RawMessage { return &e.RateLimit }),
		asked(member{field: "Extra", column: "extra", shape: '{', unread: "it holds what no row reads",
			echoes: []string{"tags", "schema", "result_ttl", "total_timeout", "heartbeat_timeout", "grace_period"},
			show:   showExtra, take: passedOver, send: sendExtra, alike: func(a, b *Envelope) bool { return sameExtra(a.Extra, b.Extra) }},
			raws, func(e *Envelope) *json.RawMessage { return &e.Extra }),
	}
}

func statusMembers() []member {
	return append([]member{
		happened(member{field: "State", name: "state", column: "state_code", required: true, value: stateValue, set: setState},
			texts[State](), func(j *Job) *State { return &j.State }),
		happened(member{field: "Attempt", name: "attempt", column: "attempt", required: true},
			numbers[int](), func(j *Job) *int { return &j.Attempt }),
		asked(member{field: "MaxAttempts", name: "max_attempts", column: "max_attempts", required: true, unread: "Retry reads it", unsent: "it follows from Retry",
			alike: func(_, _ *Envelope) bool { return true }},
			numbers[int](), func(e *Envelope) *int { return &e.MaxAttempts }),
		happened(member{field: "CreatedAt", name: "created_at", column: "created_at", required: true, fixed: "it is when the PUSH came"},
			instants, func(j *Job) *time.Time { return &j.CreatedAt }),
		happened(member{field: "EnqueuedAt", name: "enqueued_at", column: "enqueued_at"},
			instants, func(j *Job) *time.Time { return &j.EnqueuedAt }),
		happened(member{field: "StartedAt", name: "started_at", column: "started_at"},
			instants, func(j *Job) *time.Time { return &j.StartedAt }),
		happened(member{field: "ActivatedAt", name: "activated_at", column: "activated_at"},
			instants, func(j *Job) *time.Time { return &j.ActivatedAt }),
		happened(member{field: "RewrittenAt", name: "rewritten_at", column: "rewritten_at", added: true},
			instants, func(j *Job) *time.Time { return &j.RewrittenAt }),
		happened(member{field: "FinishedAt", name: "completed_at", answers: []string{"completed_at", "cancelled_at", "discarded_at"}, column: "finished_at", show: showEnd},
			instants, func(j *Job) *time.Time { return &j.FinishedAt }),
		happened(member{field: "Dead", name: "dead_letter", column: "dead", added: true, required: true},
			flags, func(j *Job) *bool { return &j.Dead }),
		happened(member{field: "RetryDelay", name: "retry_delay_ms", column: "retry_delay"},
			lengths, func(j *Job) *time.Duration { return &j.RetryDelay }),
		happened(member{field: "NextRetryAt", name: "next_retry_at", answers: []string{"next_retry_at", "next_attempt_at"}, column: "next_retry_at", show: showNext},
			instants, func(j *Job) *time.Time { return &j.NextRetryAt }),
		happened(member{field: "Lease.Worker", name: "worker_id", column: "lease_worker", visible: active},
			texts[string](), func(j *Job) *string { return &j.Lease.Worker }),
		happened(member{field: "Lease.Until", name: "visible_until", column: "lease_until", visible: active},
			instants, func(j *Job) *time.Time { return &j.Lease.Until }),
		happened(member{field: "Lease.Token", name: "lease_token", column: "lease_token", added: true, visible: held, value: tokenValue, set: setToken},
			texts[string](), func(j *Job) *string { return &j.Lease.Token }),
		happened(member{field: "Result", name: "result", column: "result", take: takeResult},
			raws, func(j *Job) *json.RawMessage { return &j.Result }),
		happened(member{field: "Error", name: "error", column: "error"},
			raws, func(j *Job) *json.RawMessage { return &j.Error }),
		happened(member{field: "Errors", name: "errors", column: "errors"},
			raws, func(j *Job) *json.RawMessage { return &j.Errors }),
	}, slices.Concat(flowMembers(), progressMembers(), ownMembers())...)
}

// flowMembers are those of a job that is a step of a workflow. They are written once.
func flowMembers() []member {
	const fixed = "it is what its workflow made of it"
	return []member{
		happened(member{field: "Flow", name: "workflow_id", answers: []string{"workflow_id", "workflow_step"}, column: "flow", cold: true, fixed: fixed,
			show: showFlow, take: takeFlow, value: flowValue, set: setFlow},
			kind[*FlowRef]{equal: sameFlow}, func(j *Job) **FlowRef { return &j.Flow }),
		happened(member{field: "ParentResults", name: "parent_results", column: "parent_results", cold: true, fixed: fixed},
			raws, func(j *Job) *json.RawMessage { return &j.ParentResults }),
		happened(member{field: "ParentErrors", name: "parent_errors", column: "parent_errors", cold: true, fixed: fixed, added: true},
			raws, func(j *Job) *json.RawMessage { return &j.ParentErrors }),
	}
}

// ownMembers are the members of Status that the server keeps to itself.
func ownMembers() []member {
	const own = "it is the server's own"
	return []member{
		happened(member{field: "Releases", column: "releases", required: true, unshown: own},
			numbers[int](), func(j *Job) *int { return &j.Releases }),
		happened(member{field: "Seq", column: "seq", required: true, unshown: own},
			numbers[int64](), func(j *Job) *int64 { return &j.Seq }),
		happened(member{field: "DueAt", column: "due_at", unshown: own},
			instants, func(j *Job) *time.Time { return &j.DueAt }),
		happened(member{field: "Lease.Length", column: "lease_ms", unshown: own},
			lengths, func(j *Job) *time.Duration { return &j.Lease.Length }),
		happened(member{field: "Lost", column: "lost", unshown: own, value: lostValue, set: setLost},
			kind[*LostLease]{equal: same[*LostLease]}, func(j *Job) **LostLease { return &j.Lost }),
		happened(member{field: "LastEvent", column: "told", required: true, unshown: own},
			numbers[int64](), func(j *Job) *int64 { return &j.LastEvent }),
		happened(member{field: "Fingerprint", column: "fingerprint", unshown: own, value: fingerprintValue, set: setFingerprint},
			texts[string](), func(j *Job) *string { return &j.Fingerprint }),
		happened(member{field: "Holds", column: "holds", unshown: own, equal: sameHold, value: holdsValue, set: setHolds},
			kind[StateSet]{}, func(j *Job) *StateSet { return &j.Holds }),
		{column: "dedup_key", status: true, unread: own, unshown: own, unsent: own, // follows from the others, and is there to be found
			equal: func(a, b *Job) bool { return dedupKeyValue(a) == dedupKeyValue(b) }, value: dedupKeyValue, set: setDedupKey},
		happened(member{field: "DedupUntil", column: "dedup_until", unshown: own, equal: sameWindow, value: windowValue, set: setWindow},
			instants, func(j *Job) *time.Time { return &j.DedupUntil }),
		happened(member{field: "DedupFreed", unshown: "deduplication is left out", unkept: "0 in the column of DedupUntil says it"},
			flags, func(j *Job) *bool { return &j.DedupFreed }),
		happened(member{field: "After", column: "after_id", unshown: "meta has it for people"},
			texts[ID](), func(j *Job) *ID { return &j.After }),
		happened(member{field: "Keep", column: "keep_until", unshown: own},
			instants, func(j *Job) *time.Time { return &j.Keep }),
		happened(member{field: "Tenant", column: "tenant", unshown: "meta has it"},
			texts[string](), func(j *Job) *string { return &j.Tenant }),
		happened(member{field: "Lane", column: "lane", unshown: own},
			texts[string](), func(j *Job) *string { return &j.Lane }),
		happened(member{field: "Behind", column: "behind", required: true, unshown: own},
			flags, func(j *Job) *bool { return &j.Behind }),
	}
}

func scheduledAt(e *Envelope) *time.Time { return &e.ScheduledAt }
func expiresAt(e *Envelope) *time.Time   { return &e.ExpiresAt }

// remarks are what an answer about a job says beside the job. At the top level of
// a request, where an answer may be sent again, they are dropped.
var remarks = []string{"previous_state", "deduplicated", "duplicate_job_id", "replaced", "replaced_job_id", "replaced_job_ids"}
