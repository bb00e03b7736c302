package httpapi

import (
	"regexp"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Route is one thing that can be asked of the server. The router, the guard, the
// manifest and docs/http.md are made from the same rows.
type Route struct {
	Method  string // GET answers HEAD, too
	Path    string // with its parameters, as in /ojs/v1/jobs/:id
	Who     Role   // any of these may ask, and an operator may always; 0 is everybody, also without a token
	Section string // of docs/contract.md
	Does    string // in a few words
	Stream  bool   // its answer goes on until the caller or the server ends it

	handle echo.HandlerFunc
}

// String is the method and the path, as the documents write them.
func (r Route) String() string { return r.Method + " " + parameter.ReplaceAllString(r.Path, "{$1}") }

var parameter = regexp.MustCompile(`:([a-z_]+)`)

// Routes are all routes of the server, in the order of docs/http.md.
func Routes() []Route { return (&api{svc: struct{ job.Service }{}}).routes() }

const v1 = "/ojs/v1"

// row is how a route stands in the table: as its members are, in one line.
type row struct {
	method, path  string
	who           Role
	section, does string
	handle        echo.HandlerFunc
}

// routes is the table.
func (a *api) routes() (all []Route) {
	add := func(stream bool, base string, groups ...[]row) {
		for _, r := range slices.Concat(groups...) {
			all = append(all, Route{r.method, base + r.path, r.who, r.section, r.does, stream, r.handle})
		}
	}
	add(false, v1, a.jobRoutes(), a.progressRoutes(), a.workerRoutes(), a.queueRoutes(), a.deadRoutes(), a.bulkRoutes(), a.keyRoutes(), a.cronRoutes(),
		a.workflowRoutes(), a.limitRoutes(), a.schemaRoutes(), a.eventRoutes(), a.webhookRoutes(), a.outboxRoutes(), a.adminRoutes(), a.dashboardRoutes())
	add(true, v1, a.streamRoutes())
	add(false, "", a.systemRoutes(), a.shortRoutes())
	return all
}

// jobRoutes are those of single jobs, and of lists of them.
func (a *api) jobRoutes() []row {
	return []row{
		{"POST", "/jobs", producers, "3.1", "enqueue a job", a.push},
		{"POST", "/jobs/batch", producers, "3.2", "enqueue many jobs, all or none", a.batch},
		{"GET", "/jobs", readers, "3.3", "list jobs", a.page(wire.DecodeFilter, plainJobs)},
		{"GET", "/jobs/:id", anyRole, "3.4", "read a job", handle(jobID, a.svc.Job, appendWhole)},
		{"DELETE", "/jobs/:id", producers, "3.5", "cancel a job", a.cancel},
		{"POST", "/jobs/:id/cancel", producers, "3.5", "cancel a job", a.cancel},
		{"POST", "/jobs/:id/activate", producers, "3.6", "release a pending job", handle(jobID, a.svc.Activate, appendChange)}, // a body is not looked at
		{"PATCH", "/jobs/:id", operators, "3.7", "change the priority of a job", a.reprioritize},
	}
}

// progressRoutes are those of what a worker tells while it runs, and of what came of it.
func (a *api) progressRoutes() []row {
	rs := []row{
		{"PUT", "/jobs/:id/progress", workers, "3.17", "report progress", a.report},
		{"POST", "/jobs/:id/progress", workers, "3.17", "report progress", a.report},
		{"POST", "/workers/progress", workers, "3.17", "report progress", a.report},
		{"GET", "/jobs/:id/progress", anyRole, "3.17", "read the progress of a job", handle(jobID, a.svc.Job, wire.AppendProgress)},
		{"GET", "/jobs/:id/result", anyRole, "3.17", "read the result of a job, or wait for it", a.result},
		{"POST", "/jobs/results", anyRole, "3.17", "read the results of many jobs", handleBoth(fromBody(job.MaxJobBytes, wire.DecodeIDs), a.svc.Outcomes, wire.AppendOutcomes)},
		{"PUT", "/jobs/:id/checkpoint", workers, "3.17", "save a checkpoint", a.checkpoint(wire.DecodeCheckpoint)},
		{"POST", "/jobs/:id/checkpoint", workers, "3.17", "save a checkpoint", a.checkpoint(wire.DecodeCheckpoint)},
		{"GET", "/jobs/:id/checkpoint", anyRole, "3.17", "read the checkpoint of a job", handle(jobID, a.saved, appendSaved)},
		{"DELETE", "/jobs/:id/checkpoint", workers, "3.17", "forget the checkpoint of a job", handleBoth(jobID, a.svc.DeleteCheckpoint, wire.AppendCheckpointDeleted)},
	}
	for _, base := range []string{"", v1} { // the public SDKs write the base path twice
		rs = append(rs,
			row{"GET", base + "/checkpoints/:id/resume", anyRole, "3.17", "read the checkpoint of a job", handle(jobID, a.svc.Job, appendResume)},
			row{"POST", base + "/checkpoints/:id", workers, "3.17", "save a checkpoint", a.checkpoint(wire.DecodeStep)},
			row{"DELETE", base + "/checkpoints/:id", workers, "3.17", "forget the checkpoint of a job", handleBoth(jobID, a.svc.DeleteCheckpoint, wire.AppendCheckpointDeleted)})
	}
	return rs
}

// workerRoutes are those that workers ask, and those about them.
func (a *api) workerRoutes() []row {
	beat := handle(fromBody(job.MaxJobBytes, wire.DecodeBeat), a.svc.Beat, wire.AppendBeat)
	rs := []row{
		{"POST", "/workers/fetch", workers, "3.8", "fetch jobs", a.fetch},
		{"POST", "/jobs/fetch", workers, "3.8", "fetch jobs", a.fetch},
		{"POST", wire.AckPath, workers, "3.9", "acknowledge jobs", a.ack},
		{"POST", "/jobs/:id/ack", workers, "3.9", "acknowledge a job", a.ackByPath},
		{"POST", wire.NextPath, workers, "3.27", "acknowledge jobs and fetch others", a.next},
		{"POST", "/workers/nack", workers, "3.10", "report that a job has failed", a.nack},
		{"POST", "/workers/heartbeat", workers, "3.11", "say that a worker lives", beat},
		{"POST", "/workers/beat", workers, "3.11", "say that a worker lives", beat},
		{"POST", "/workers/register", workers, "3.12", "register a worker", handleBoth(fromBody(job.MaxJobBytes, wire.DecodeRegister), a.svc.Register, wire.AppendRegistered)},
		{"POST", "/workers/deregister", workers, "3.12", "deregister a worker, and release its jobs", handleBoth(fromBody(maxReason, wire.DecodeDeregister), a.svc.Deregister, wire.AppendDeregistered)},
		{"DELETE", "/workers/:id", workers, "3.12", "deregister a worker, and release its jobs", handleBoth(fromPath("id"), a.svc.Deregister, wire.AppendDeregistered)}, // a body is not looked at
		{"GET", "/workers", readers, "3.12", "list workers", handleAll(a.svc.Workers, wire.AppendWorkers)},
		{"GET", "/workers/:id", readers | workers, "3.12", "read a worker", handle(fromPath("id"), a.svc.Worker, wire.AppendWorker)},
		{"GET", "/workers/:id/health", readers | workers, "3.12", "read how a worker is", handle(fromPath("id"), a.svc.Worker, wire.AppendWorkerHealth)},
		{"POST", "/admin/workers/directive", operators, "3.23", "tell all workers what to do", handleBoth(fromBody(maxReason, wire.DecodeDirective), a.svc.DirectAll, wire.AppendDirected)},
	}
	for _, wish := range []string{job.Quiet, job.Terminate, job.Resume} { // a body is not looked at
		rs = append(rs, row{"POST", "/admin/workers/:id/" + wish, operators, "3.23", "tell a worker to " + wish, handle(fromPath("id"), a.direct(wish), wire.AppendWorker)})
	}
	return rs
}

// queueRoutes are those of queues.
func (a *api) queueRoutes() []row {
	rs := []row{
		{"GET", "/queues", readers, "3.13", "list queues", handleAll(a.svc.Queues, wire.AppendQueues)},
		{"POST", "/queues", operators, "3.13", "create a queue", a.createQueue},
		{"GET", "/queues/:name", readers, "3.13", "read a queue with its configuration", a.queue},
		{"DELETE", "/queues/:name", operators, "3.13", "delete a queue", a.deleteQueue},
		{"GET", "/queues/:name/stats", readers, "3.13", "read the counters of a queue", a.queueStats},
		{"GET", "/queues/:name/priority-stats", readers, "3.13", "count the jobs of a queue by priority", a.priorities},
		{"GET", "/queues/:name/jobs", readers, "3.13", "list the jobs of a queue", a.page(wire.DecodeFilter, plainJobs)},
		{"POST", "/queues/:name/purge", operators, "3.13", "remove finished jobs of a queue", a.purgeQueue(false)},
	}
	for _, base := range []string{"", "/admin"} {
		section, admin := "3.13", base != ""
		if admin {
			section = "3.23"
		}
		rs = append(rs,
			row{"POST", base + "/queues/:name/pause", operators, section, "pause a queue", a.setStatus(job.QueuePaused, admin)},
			row{"POST", base + "/queues/:name/resume", operators, section, "resume a queue", a.setStatus(job.QueueActive, admin)},
			row{"POST", base + "/queues/:name/drain", operators, section, "refuse new jobs of a queue", a.setStatus(job.QueueDraining, admin)},
			row{"GET", base + "/queues/:name/config", readers, section, "read the configuration of a queue", a.config},
			row{"PUT", base + "/queues/:name/config", operators, section, "set the configuration of a queue", a.setConfig(wire.DecodeConfig, false)},
			row{"PATCH", base + "/queues/:name/config", operators, section, "change parts of the configuration of a queue", a.setConfig(wire.DecodeConfig, true)})
	}
	return rs
}

// deadRoutes are those of dead letters.
func (a *api) deadRoutes() []row {
	return []row{
		{"GET", "/dead-letter", readers, "3.14", "list dead letters", a.page(wire.DecodeDeadFilter, deadJobs)},
		{"GET", "/dead-letter/stats", readers, "3.14", "count dead letters", a.deadStats},
		{"GET", "/dead-letter/:id", readers, "3.14", "read a dead letter", handle(jobID, a.deadLetter, appendWhole)},
		{"POST", "/dead-letter/retry", operators, "3.14", "retry dead letters", handle(fromBody(job.MaxJobBytes, wire.DecodeReviveDead), a.svc.ReviveDead, wire.AppendRevived)},
		{"POST", "/dead-letter/purge", operators, "3.14", "remove dead letters for good", a.purgeDead(false)},
		{"DELETE", "/dead-letter", operators, "3.14", "remove dead letters for good", a.purgeDead(false)},
		{"POST", "/dead-letter/:id/retry", operators, "3.14", "retry a dead letter", handle(revived, a.svc.Revive, appendRevivedJob)},
		{"DELETE", "/dead-letter/:id", operators, "3.14", "remove a dead letter for good", handle(jobID, a.deleteDead, wire.AppendDeleted)},
	}
}

// bulkRoutes are those that act on many jobs.
func (a *api) bulkRoutes() []row {
	rs := []row{{"POST", "/jobs/bulk", producers, "3.19", "enqueue many jobs, each for itself or all together", a.bulkPush}}
	for _, action := range []string{job.BulkCancel, job.BulkRetry, job.BulkDelete} {
		rs = append(rs,
			row{"POST", "/jobs/bulk/" + action, operators, "3.19", action + " many jobs", a.bulkAct(action, false)},
			row{"POST", "/admin/jobs/bulk/" + action, operators, "3.19", action + " many jobs, when confirmed", a.bulkAct(action, true)})
	}
	return rs
}

// keyRoutes are those about unique keys and deduplication keys.
func (a *api) keyRoutes() []row {
	rs := []row{
		{"POST", "/unique/explain", producers | readers, "3.25", "say what a unique policy comes to, and store nothing", handle(fromBody(job.MaxJobBytes, wire.DecodePush), a.svc.Explain, wire.AppendExplanation)},
		{"GET", "/unique-jobs", readers, "3.25", "list the unique keys that are held", handleList(wire.DecodeKeyFilter, a.svc.HeldKeys, wire.AppendHeldKeys)},
		{"DELETE", "/unique-jobs/:key", operators, "3.25", "release a unique key", handleBoth(uniqueKey, a.svc.ReleaseKey, wire.AppendReleasedKey)},
	}
	for _, name := range []string{"deduplication", "debounce"} { // the second is the older name
		rs = append(rs,
			row{"GET", "/queues/:name/" + name + "/:id", producers | readers, "3.13", "read who holds a deduplication key", a.dedupOwner(name == "debounce")},
			row{"DELETE", "/queues/:name/" + name + "/:id", producers, "3.13", "release a deduplication key", a.releaseDedup})
	}
	return rs
}

// cronRoutes are those of schedules.
func (a *api) cronRoutes() (rs []row) {
	for _, base := range []string{"/cron", "/crons"} { // the second is the name that a dashboard asks
		write := func(dst []byte, page job.CronPage, p wire.Paging) []byte {
			return wire.AppendCrons(dst, page, p, base == "/crons")
		}
		one := base + "/:name"
		rs = append(rs,
			row{"POST", base, operators, "3.15", "store a schedule", a.putCron},
			row{"GET", base, readers, "3.15", "list schedules", handleList(wire.DecodeCronFilter, a.svc.Crons, write)},
			row{"GET", one, readers, "3.15", "read a schedule", handle(cronName, a.svc.Cron, wire.AppendCronFlat)},
			row{"PATCH", one, operators, "3.15", "change parts of a schedule", a.changeCron},
			row{"PUT", one, operators, "3.15", "change parts of a schedule", a.changeCron},
			row{"DELETE", one, operators, "3.15", "remove a schedule", handle(cronName, a.svc.DeleteCron, wire.AppendCronDeleted)},
			row{"POST", one + "/pause", operators, "3.15", "pause a schedule", handle(cronName, a.enableCron(false), wire.AppendCronFlat)}, // bodies are not looked at
			row{"POST", one + "/resume", operators, "3.15", "resume a schedule", handle(cronName, a.enableCron(true), wire.AppendCronFlat)},
			row{"POST", one + "/trigger", operators, "3.15", "run a schedule now", a.triggerCron},
			row{"GET", one + "/history", readers, "3.15", "list the runs of a schedule", a.cronHistory})
	}
	return rs
}

// workflowRoutes are those of workflows.
func (a *api) workflowRoutes() []row {
	const one = "/workflows/:id"
	cancel := handle(workflowID, a.svc.CancelWorkflow, wire.AppendWorkflowCancelled) // a body is not looked at
	return []row{
		{"POST", "/workflows", producers, "3.16", "start a workflow", a.startWorkflow},
		{"GET", "/workflows", readers, "3.16", "list workflows", handleList(wire.DecodeWorkflowFilter, a.svc.Workflows, wire.AppendWorkflows)},
		{"GET", one, producers | readers, "3.16", "read a workflow", handle(workflowID, a.svc.Workflow, wire.AppendWorkflow)},
		{"GET", one + "/progress", producers | readers, "3.16", "read the progress of a workflow", handle(workflowID, a.svc.Workflow, wire.AppendWorkflowProgress)},
		{"DELETE", one, producers, "3.16", "cancel a workflow", cancel},
		{"POST", one + "/cancel", producers, "3.16", "cancel a workflow", cancel},
	}
}

// limitRoutes are those of rate limits.
func (a *api) limitRoutes() []row {
	const one = "/rate-limits/:key"
	return []row{
		{"GET", "/rate-limits", readers, "3.25", "list rate limits", handleList(wire.DecodeLimitFilter, a.svc.Limits, wire.AppendLimits)},
		{"GET", one, readers, "3.25", "read a rate limit", handle(limitKey, a.svc.Limit, wire.AppendLimit)},
		{"PUT", one, operators, "3.25", "override a rate limit", a.overrideLimit},
		{"PUT", one + "/override", operators, "3.25", "override a rate limit", a.overrideLimit},
		{"DELETE", one + "/override", operators, "3.25", "end the override of a rate limit", handle(limitKey, a.svc.DropLimitOverride, wire.AppendLimit)},
	}
}

// schemaRoutes are those of the schemas of args.
func (a *api) schemaRoutes() []row {
	rs := []row{
		{"POST", "/schemas", operators, "3.20", "register a schema", a.putSchema(wire.AppendSchema, false)},
		{"PUT", "/admin/schemas/:name/:version", operators, "3.20", "register a schema", a.putSchema(wire.AppendSchemaFlat, true)},
	}
	for _, base := range []string{"/schemas", "/admin/schemas"} {
		admin := base != "/schemas"
		write := wire.AppendSchema
		if admin {
			write = wire.AppendSchemaFlat
		}
		list := func(dst []byte, all []job.Schema, p wire.Paging) []byte {
			p.Items = p.Items || admin
			return wire.AppendSchemas(dst, all, p)
		}
		rs = append(rs,
			row{"GET", base, producers | readers, "3.20", "list schemas", handleList(wire.DecodeSchemaFilter, a.svc.Schemas, list)},
			row{"GET", base + "/:name", producers | readers, "3.20", "read a schema, or the latest of a type", handle(fromPath("name"), a.svc.Schema, write)},
			row{"GET", base + "/:name/versions", producers | readers, "3.20", "list the versions of a schema", a.schemaVersions(list)},
			row{"GET", base + "/:name/:version", producers | readers, "3.20", "read a version of a schema", handle(schemaVersion, a.versioned, write)},
			row{"DELETE", base + "/:name", operators, "3.20", "remove a schema", handle(fromPath("name"), a.deleteSchema(a.svc.Schema), wire.AppendSchemaDeleted)},
			row{"DELETE", base + "/:name/:version", operators, "3.20", "remove a version of a schema", a.deleteSchemaVersion})
	}
	return rs
}

// eventRoutes are those of events.
func (a *api) eventRoutes() []row {
	return []row{
		{"GET", "/events", readers, "3.18", "read the log of events", a.eventLog},
		{"GET", "/events/:event_id", readers, "3.18", "read an event", a.event},
		{"GET", "/events/:id/history", anyRole, "3.17", "read the events of a job", a.history},
		{"GET", "/jobs/:id/history", anyRole, "3.17", "read the events of a job", a.history},
	}
}

// streamRoutes are those whose answers go on.
func (a *api) streamRoutes() []row {
	return []row{
		{"GET", "/events/stream", readers, "3.18", "follow events as they happen", a.eventStream},
		{"GET", "/jobs/:id/events", anyRole, "3.18", "follow a job until it has ended", a.jobStream},
		{"GET", "/jobs/:id/progress/stream", anyRole, "3.17", "follow the progress of a job", a.progressStream},
		{"GET", "/queues/:name/events", readers, "3.18", "follow a queue", a.queueStream},
		{"GET", "/admin/stats/stream", readers, "3.18", "follow events, and how the server does", a.statsStream},
		{"GET", "/ws", readers, "3.18", "follow events over WebSocket", a.socket},
	}
}

// webhookRoutes are those of webhooks.
func (a *api) webhookRoutes() []row {
	const all, one = "/webhooks/subscriptions", "/webhooks/subscriptions/:id"
	kept := job.WebhookService(struct{ job.WebhookService }{a.Webhooks})
	rs := []row{
		{"POST", all, operators, "3.24", "subscribe a URL to events", a.createWebhook},
		{"GET", all, readers, "3.24", "list webhook subscriptions", a.listWebhooks},
		{"GET", one, readers, "3.24", "read a webhook subscription", a.readWebhook},
		{"PATCH", one, operators, "3.24", "change parts of a webhook subscription", a.changeWebhook(wire.DecodeWebhookChange)},
		{"PUT", one, operators, "3.24", "replace a webhook subscription", a.changeWebhook(wire.DecodeWebhookReplacement)},
		{"DELETE", one, operators, "3.24", "remove a webhook subscription", handleBoth(fromPath("id"), a.deleteWebhook, wire.AppendWebhookDeleted)},
		{"POST", one + "/test", operators, "3.24", "send a test event, and wait for the answer", handle(fromPath("id"), kept.TestWebhook, wire.AppendWebhookTrial)}, // bodies are not looked at
		{"POST", one + "/rotate-secret", operators, "3.24", "give a webhook subscription another secret", handle(fromPath("id"), kept.RotateWebhookSecret, wire.AppendNewSecret)},
	}
	for i := range rs {
		rs[i].handle = a.withWebhooks(rs[i].handle)
	}
	return rs
}

// outboxRoutes are those of the outboxes that this process relays.
func (a *api) outboxRoutes() []row {
	return []row{
		{"GET", "/outbox", readers, "3.26", "list outboxes", handleAll(a.outboxList, wire.AppendOutboxes)},
		{"POST", "/outbox/poke", producers, "3.26", "say that there are new rows", a.poke},
		{"GET", "/outbox/:name/parked", readers, "3.26", "list parked rows", a.parked},
		{"POST", "/outbox/:name/replay", operators, "3.26", "relay parked rows again", a.onRows("replayed", Outbox.Replay)},
		{"POST", "/outbox/:name/discard", operators, "3.26", "remove parked rows for good", a.onRows("discarded", Outbox.Discard)},
	}
}

// adminRoutes are those of a dashboard.
func (a *api) adminRoutes() []row {
	return []row{
		{"GET", "/admin/stats", readers, "3.23", "read the counters of all queues together", a.overview},
		{"GET", "/admin/stats/history", readers, "3.23", "read what happened, by time", a.statsHistory},
		{"GET", "/admin/queues", readers, "3.23", "list queues with what happened in them", a.adminQueues},
		{"GET", "/admin/queues/:name", readers, "3.23", "read a queue with what happened in it", a.adminQueue},
		{"PUT", "/admin/queues/:name/rate-limit", operators, "3.23", "limit a whole queue", a.setConfig(wire.DecodeQueueLimits, true)},
		{"DELETE", "/admin/queues/:name/jobs", operators, "3.23", "remove finished jobs of a queue, when confirmed", a.purgeQueue(true)},
		{"PATCH", "/admin/jobs/:id", operators, "3.7", "change the priority of a job", a.reprioritize},
		{"POST", "/admin/jobs/:id/retry", operators, "3.23", "retry a discarded job", handle(revived, a.svc.Retry, wire.AppendRetried)},
		{"GET", "/admin/tenants/:id/stats", readers, "3.23", "count the jobs of a tenant", handle(fromPath("id"), a.svc.TenantStats, wire.AppendTenantStats)},
		{"GET", "/admin/pools", readers, "3.23", "list pools", handleAll(a.svc.Pools, wire.AppendPools)},
		{"GET", "/admin/pools/:name", readers, "3.23", "read a pool", handle(fromPath("name"), a.pool, wire.AppendPool)},
		{"PUT", "/admin/pools/:name", operators, "3.23", "set a pool", a.putPool},
		{"DELETE", "/admin/pools/:name", operators, "3.23", "remove a pool", a.deletePool},
		{"GET", "/admin/scheduling/stats", readers, "3.23", "read how starts were shared among queues", a.dispatch},
	}
}

// systemRoutes are those about the server itself. They say nothing about jobs, and
// everybody may ask them.
func (a *api) systemRoutes() []row {
	return []row{
		{"GET", "/ojs/manifest", everybody, "3.21", "read what the server is and can do", a.manifest},
		{"GET", v1 + "/health", everybody, "3.22", "read how the server is", a.health},
		{"GET", "/health", everybody, "3.22", "read how the server is", a.health},
		{"GET", "/healthz", everybody, "3.22", "read how the server is", a.health},
		{"GET", "/ready", everybody, "3.22", "learn whether requests can be served now", a.ready},
		{"GET", "/readyz", everybody, "3.22", "learn whether requests can be served now", a.ready},
		{"GET", "/live", everybody, "3.22", "learn whether the process answers", a.live},
		{"GET", "/livez", everybody, "3.22", "learn whether the process answers", a.live},
		{"GET", "/metrics", everybody, "3.22", "read the counters of the server, for Prometheus", a.prometheus},
	}
}

// dashboardRoutes are those that show an administrator jobs, workers and dead letters, and
// those of the server as a whole.
func (a *api) dashboardRoutes() []row {
	rs := []row{
		{"GET", "/admin/jobs", readers, "3.23", "list jobs", a.page(wire.DecodeFilter, adminJobs)},
		{"GET", "/admin/jobs/:id", readers, "3.23", "read all that is known of a job", handle(jobID, a.svc.Detail, wire.AppendJobDetail)},
		{"GET", "/admin/jobs/:id/trace", readers, "3.23", "read what became of a job, step by step", handleBoth(jobID, a.svc.History, wire.AppendTrace)},
		{"POST", "/admin/jobs/:id/cancel", operators, "3.23", "cancel a job", a.cancel},
		{"GET", "/jobs/:id/retries", anyRole, "3.17", "list the failed attempts of a job", handle(jobID, a.svc.Detail, wire.AppendRetries)},

		{"GET", "/admin/workers", readers, "3.23", "list workers", handleAll(a.svc.Workers, wire.AppendAdminWorkers)},
		{"GET", "/admin/workers/:id", readers, "3.23", "read a worker", handle(fromPath("id"), a.svc.Worker, wire.AppendWorker)},
		{"DELETE", "/admin/workers/:id", operators, "3.23", "forget a stale worker, and release its jobs", handleBoth(fromPath("id"), a.svc.ForgetWorker, wire.AppendDeregistered)},

		{"GET", "/admin/dead-letter", readers, "3.23", "list dead letters", a.page(wire.DecodeDeadFilter, adminDead)},
		{"GET", "/admin/dead-letter/stats", readers, "3.23", "count dead letters", a.deadStats},
		{"GET", "/admin/dead-letter/:id", readers, "3.23", "read a dead letter", handle(jobID, a.deadDetail, wire.AppendJobDetail)},
		{"POST", "/admin/dead-letter/retry", operators, "3.23", "retry dead letters", handle(fromBody(job.MaxJobBytes, wire.DecodeReviveDead), a.svc.ReviveDead, wire.AppendRevived)},
		{"POST", "/admin/dead-letter/:id/retry", operators, "3.23", "retry a dead letter", handle(revived, a.svc.Revive, wire.AppendRetried)},
		{"DELETE", "/admin/dead-letter/:id", operators, "3.23", "remove a dead letter for good", a.dropDead},
		{"DELETE", "/admin/dead-letter", operators, "3.23", "remove dead letters for good, when confirmed", a.purgeDead(true)},

		{"GET", "/admin/tenants", readers, "3.23", "list the tenants that have jobs", a.tenantList},
		{"GET", "/admin/tenants/:id", readers, "3.23", "read a tenant", handle(fromPath("id"), a.tenant, wire.AppendTenant)},
		{"GET", "/admin/tenants/:id/jobs", readers, "3.23", "list the jobs of a tenant", a.tenantJobs},
		{"PUT", "/admin/tenants/:id", operators, "3.23", "refused: nothing is set of a tenant", unheld("setting something of a tenant")},
		{"PUT", "/admin/tenants/:id/limits", operators, "3.23", "refused: nothing limits a tenant", unheld("limiting a tenant")},
		{"DELETE", "/admin/tenants/:id", operators, "3.23", "refused: a tenant is nothing but its jobs", unheld("deleting a tenant")},

		{"GET", "/admin/observability/health", readers, "3.23", "read how the server is, in few words", a.observed},
		{"GET", "/health/detail", readers, "3.22", "read how each part of the server is", a.healthDetail},
		{"GET", "/middleware", readers, "3.25", "list the middleware around an enqueue", handle(nothing, a.middlewares, wire.AppendMiddlewares)},
		{"GET", "/metrics", readers, "3.22", "read the counters of the server", a.metrics},
	}
	for _, base := range []string{"/admin", "/admin/system"} { // the second is the name that a command line asks
		rs = append(rs,
			row{"GET", base + "/maintenance", readers, "3.23", "read whether the server is in maintenance", handle(nothing, a.maintenance, wire.AppendMaintenance)},
			row{"POST", base + "/maintenance", operators, "3.23", "begin or end a maintenance", handle(fromBody(wire.MaxAskBytes, wire.DecodeMaintenance), a.svc.SetMaintenance, wire.AppendMaintenance)},
			row{"GET", base + "/config", readers, "3.23", "read the settings of the server, without secrets", a.settings})
	}
	return rs
}

// shortRoutes are those whose base path a command line cuts short (contract §3.25).
func (a *api) shortRoutes() []row {
	return []row{
		{"GET", "/v1/health", everybody, "3.25", "read how the server is", a.health},
		{"GET", "/v1/queues", readers, "3.25", "list queues", handleAll(a.svc.Queues, wire.AppendQueues)},
		{"GET", "/v1/dead-letter", readers, "3.25", "list dead letters", a.page(wire.DecodeDeadFilter, deadJobs)},
		{"GET", "/v1/workers", readers, "3.25", "list workers", handleAll(a.svc.Workers, wire.AppendWorkers)},
	}
}
