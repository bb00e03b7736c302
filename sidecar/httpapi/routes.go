package httpapi

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

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

// routes is the table.
func (a *api) routes() []Route {
	return slices.Concat(
		under(v1, a.jobRoutes(), a.progressRoutes(), a.workerRoutes(), a.queueRoutes(), a.deadRoutes(), a.bulkRoutes(), a.keyRoutes(), a.cronRoutes(),
			a.workflowRoutes(), a.limitRoutes(), a.schemaRoutes(), a.eventRoutes(), a.webhookRoutes(), a.outboxRoutes(), a.adminRoutes(), a.dashboardRoutes()),
		a.systemRoutes(), a.shortRoutes())
}

// under puts routes below a path.
func under(base string, groups ...[]Route) []Route {
	all := slices.Concat(groups...)
	for i := range all {
		all[i].Path = base + all[i].Path
	}
	return all
}

// jobRoutes are those of single jobs, and of lists of them.
func (a *api) jobRoutes() []Route {
	return []Route{
		{"POST", "/jobs", producers, "3.1", "enqueue a job", false, a.push},
		{"POST", "/jobs/batch", producers, "3.2", "enqueue many jobs, all or none", false, a.batch},
		{"GET", "/jobs", readers, "3.3", "list jobs", false, a.page(wire.DecodeFilter, plainJobs)},
		{"GET", "/jobs/:id", anyRole, "3.4", "read a job", false, handle(jobID, a.svc.Job, appendWhole)},
		{"DELETE", "/jobs/:id", producers, "3.5", "cancel a job", false, a.cancel},
		{"POST", "/jobs/:id/cancel", producers, "3.5", "cancel a job", false, a.cancel},
		{"POST", "/jobs/:id/activate", producers, "3.6", "release a pending job", false, handle(jobID, a.svc.Activate, appendChange)}, // a body is not looked at
		{"PATCH", "/jobs/:id", operators, "3.7", "change the priority of a job", false, a.reprioritize},
	}
}

// progressRoutes are those of what a worker tells while it runs, and of what came of it.
func (a *api) progressRoutes() []Route {
	rs := []Route{
		{"PUT", "/jobs/:id/progress", workers, "3.17", "report progress", false, a.report},
		{"POST", "/jobs/:id/progress", workers, "3.17", "report progress", false, a.report},
		{"POST", "/workers/progress", workers, "3.17", "report progress", false, a.report},
		{"GET", "/jobs/:id/progress", anyRole, "3.17", "read the progress of a job", false, handle(jobID, a.svc.Job, wire.AppendProgress)},
		{"GET", "/jobs/:id/result", anyRole, "3.17", "read the result of a job, or wait for it", false, a.result},
		{"POST", "/jobs/results", anyRole, "3.17", "read the results of many jobs", false, handleBoth(fromBody(job.MaxJobBytes, wire.DecodeIDs), a.svc.Outcomes, wire.AppendOutcomes)},
		{"PUT", "/jobs/:id/checkpoint", workers, "3.17", "save a checkpoint", false, a.checkpoint(wire.DecodeCheckpoint)},
		{"POST", "/jobs/:id/checkpoint", workers, "3.17", "save a checkpoint", false, a.checkpoint(wire.DecodeCheckpoint)},
		{"GET", "/jobs/:id/checkpoint", anyRole, "3.17", "read the checkpoint of a job", false, handle(jobID, a.saved, appendSaved)},
		{"DELETE", "/jobs/:id/checkpoint", workers, "3.17", "forget the checkpoint of a job", false, handleBoth(jobID, a.svc.DeleteCheckpoint, wire.AppendCheckpointDeleted)},
	}
	for _, base := range []string{"", v1} { // the public SDKs write the base path twice
		rs = append(rs,
			Route{"GET", base + "/checkpoints/:id/resume", anyRole, "3.17", "read the checkpoint of a job", false, handle(jobID, a.svc.Job, appendResume)},
			Route{"POST", base + "/checkpoints/:id", workers, "3.17", "save a checkpoint", false, a.checkpoint(wire.DecodeStep)},
			Route{"DELETE", base + "/checkpoints/:id", workers, "3.17", "forget the checkpoint of a job", false, handleBoth(jobID, a.svc.DeleteCheckpoint, wire.AppendCheckpointDeleted)})
	}
	return rs
}

// workerRoutes are those that workers ask, and those about them.
func (a *api) workerRoutes() []Route {
	beat := handle(fromBody(job.MaxJobBytes, wire.DecodeBeat), a.svc.Beat, wire.AppendBeat)
	rs := []Route{
		{"POST", "/workers/fetch", workers, "3.8", "fetch jobs", false, a.fetch},
		{"POST", "/jobs/fetch", workers, "3.8", "fetch jobs", false, a.fetch},
		{"POST", wire.AckPath, workers, "3.9", "acknowledge jobs", false, a.ack},
		{"POST", "/jobs/:id/ack", workers, "3.9", "acknowledge a job", false, a.ackByPath},
		{"POST", wire.NextPath, workers, "3.27", "acknowledge jobs and fetch others", false, a.next},
		{"POST", "/workers/nack", workers, "3.10", "report that a job has failed", false, a.nack},
		{"POST", "/workers/heartbeat", workers, "3.11", "say that a worker lives", false, beat},
		{"POST", "/workers/beat", workers, "3.11", "say that a worker lives", false, beat},
		{"POST", "/workers/register", workers, "3.12", "register a worker", false, handleBoth(fromBody(job.MaxJobBytes, wire.DecodeRegister), a.svc.Register, wire.AppendRegistered)},
		{"POST", "/workers/deregister", workers, "3.12", "deregister a worker, and release its jobs", false, handleBoth(fromBody(maxReason, wire.DecodeDeregister), a.svc.Deregister, wire.AppendDeregistered)},
		{"DELETE", "/workers/:id", workers, "3.12", "deregister a worker, and release its jobs", false, handleBoth(fromPath("id"), a.svc.Deregister, wire.AppendDeregistered)}, // a body is not looked at
		{"GET", "/workers", readers, "3.12", "list workers", false, handleAll(a.svc.Workers, wire.AppendWorkers)},
		{"GET", "/workers/:id", readers | workers, "3.12", "read a worker", false, handle(fromPath("id"), a.svc.Worker, wire.AppendWorker)},
		{"GET", "/workers/:id/health", readers | workers, "3.12", "read how a worker is", false, handle(fromPath("id"), a.svc.Worker, wire.AppendWorkerHealth)},
		{"POST", "/admin/workers/directive", operators, "3.23", "tell all workers what to do", false, handleBoth(fromBody(maxReason, wire.DecodeDirective), a.svc.DirectAll, wire.AppendDirected)},
	}
	for _, wish := range []string{job.Quiet, job.Terminate, job.Resume} { // a body is not looked at
		rs = append(rs, Route{"POST", "/admin/workers/:id/" + wish, operators, "3.23", "tell a worker to " + wish, false, handle(fromPath("id"), a.direct(wish), wire.AppendWorker)})
	}
	return rs
}

// queueRoutes are those of queues.
func (a *api) queueRoutes() []Route {
	rs := []Route{
		{"GET", "/queues", readers, "3.13", "list queues", false, handleAll(a.svc.Queues, wire.AppendQueues)},
		{"POST", "/queues", operators, "3.13", "create a queue", false, a.createQueue},
		{"GET", "/queues/:name", readers, "3.13", "read a queue with its configuration", false, a.queue},
		{"DELETE", "/queues/:name", operators, "3.13", "delete a queue", false, a.deleteQueue},
		{"GET", "/queues/:name/stats", readers, "3.13", "read the counters of a queue", false, a.queueStats},
		{"GET", "/queues/:name/priority-stats", readers, "3.13", "count the jobs of a queue by priority", false, a.priorities},
		{"GET", "/queues/:name/jobs", readers, "3.13", "list the jobs of a queue", false, a.page(wire.DecodeFilter, plainJobs)},
		{"POST", "/queues/:name/purge", operators, "3.13", "remove finished jobs of a queue", false, a.purgeQueue(false)},
	}
	for _, base := range []string{"", "/admin"} {
		section, admin := "3.13", base != ""
		if admin {
			section = "3.23"
		}
		rs = append(rs,
			Route{"POST", base + "/queues/:name/pause", operators, section, "pause a queue", false, a.setStatus(job.QueuePaused, admin)},
			Route{"POST", base + "/queues/:name/resume", operators, section, "resume a queue", false, a.setStatus(job.QueueActive, admin)},
			Route{"POST", base + "/queues/:name/drain", operators, section, "refuse new jobs of a queue", false, a.setStatus(job.QueueDraining, admin)},
			Route{"GET", base + "/queues/:name/config", readers, section, "read the configuration of a queue", false, a.config},
			Route{"PUT", base + "/queues/:name/config", operators, section, "set the configuration of a queue", false, a.setConfig(wire.DecodeConfig, false)},
			Route{"PATCH", base + "/queues/:name/config", operators, section, "change parts of the configuration of a queue", false, a.setConfig(wire.DecodeConfig, true)})
	}
	return rs
}

// deadRoutes are those of dead letters.
func (a *api) deadRoutes() []Route {
	return []Route{
		{"GET", "/dead-letter", readers, "3.14", "list dead letters", false, a.page(wire.DecodeDeadFilter, deadJobs)},
		{"GET", "/dead-letter/stats", readers, "3.14", "count dead letters", false, a.deadStats},
		{"GET", "/dead-letter/:id", readers, "3.14", "read a dead letter", false, handle(jobID, a.deadLetter, appendWhole)},
		{"POST", "/dead-letter/retry", operators, "3.14", "retry dead letters", false, handle(fromBody(job.MaxJobBytes, wire.DecodeReviveDead), a.svc.ReviveDead, wire.AppendRevived)},
		{"POST", "/dead-letter/purge", operators, "3.14", "remove dead letters for good", false, a.purgeDead(false)},
		{"DELETE", "/dead-letter", operators, "3.14", "remove dead letters for good", false, a.purgeDead(false)},
		{"POST", "/dead-letter/:id/retry", operators, "3.14", "retry a dead letter", false, handle(revived, a.svc.Revive, appendRevivedJob)},
		{"DELETE", "/dead-letter/:id", operators, "3.14", "remove a dead letter for good", false, handle(jobID, a.deleteDead, wire.AppendDeleted)},
	}
}

// bulkRoutes are those that act on many jobs.
func (a *api) bulkRoutes() []Route {
	rs := []Route{{"POST", "/jobs/bulk", producers, "3.19", "enqueue many jobs, each for itself or all together", false, a.bulkPush}}
	for _, action := range []string{job.BulkCancel, job.BulkRetry, job.BulkDelete} {
		rs = append(rs,
			Route{"POST", "/jobs/bulk/" + action, operators, "3.19", action + " many jobs", false, a.bulkAct(action, false)},
			Route{"POST", "/admin/jobs/bulk/" + action, operators, "3.19", action + " many jobs, when confirmed", false, a.bulkAct(action, true)})
	}
	return rs
}

// keyRoutes are those about unique keys and deduplication keys.
func (a *api) keyRoutes() []Route {
	rs := []Route{
		{"POST", "/unique/explain", producers | readers, "3.25", "say what a unique policy comes to, and store nothing", false, handle(fromBody(job.MaxJobBytes, wire.DecodePush), a.svc.Explain, wire.AppendExplanation)},
		{"GET", "/unique-jobs", readers, "3.25", "list the unique keys that are held", false, handleList(wire.DecodeKeyFilter, a.svc.HeldKeys, wire.AppendHeldKeys)},
		{"DELETE", "/unique-jobs/:key", operators, "3.25", "release a unique key", false, handleBoth(uniqueKey, a.svc.ReleaseKey, wire.AppendReleasedKey)},
	}
	for _, name := range []string{"deduplication", "debounce"} { // the second is the older name
		rs = append(rs,
			Route{"GET", "/queues/:name/" + name + "/:id", producers | readers, "3.13", "read who holds a deduplication key", false, a.dedupOwner(name == "debounce")},
			Route{"DELETE", "/queues/:name/" + name + "/:id", producers, "3.13", "release a deduplication key", false, a.releaseDedup})
	}
	return rs
}

// cronRoutes are those of schedules.
func (a *api) cronRoutes() (rs []Route) {
	for _, base := range []string{"/cron", "/crons"} { // the second is the name that a dashboard asks
		write := func(dst []byte, page job.CronPage, p wire.Paging) []byte {
			return wire.AppendCrons(dst, page, p, base == "/crons")
		}
		one := base + "/:name"
		rs = append(rs,
			Route{"POST", base, operators, "3.15", "store a schedule", false, a.putCron},
			Route{"GET", base, readers, "3.15", "list schedules", false, handleList(wire.DecodeCronFilter, a.svc.Crons, write)},
			Route{"GET", one, readers, "3.15", "read a schedule", false, handle(cronName, a.svc.Cron, wire.AppendCronFlat)},
			Route{"PATCH", one, operators, "3.15", "change parts of a schedule", false, a.changeCron},
			Route{"PUT", one, operators, "3.15", "change parts of a schedule", false, a.changeCron},
			Route{"DELETE", one, operators, "3.15", "remove a schedule", false, handle(cronName, a.svc.DeleteCron, wire.AppendCronDeleted)},
			Route{"POST", one + "/pause", operators, "3.15", "pause a schedule", false, handle(cronName, a.enableCron(false), wire.AppendCronFlat)}, // bodies are not looked at
			Route{"POST", one + "/resume", operators, "3.15", "resume a schedule", false, handle(cronName, a.enableCron(true), wire.AppendCronFlat)},
			Route{"POST", one + "/trigger", operators, "3.15", "run a schedule now", false, a.triggerCron},
			Route{"GET", one + "/history", readers, "3.15", "list the runs of a schedule", false, a.cronHistory})
	}
	return rs
}

// workflowRoutes are those of workflows.
func (a *api) workflowRoutes() []Route {
	const one = "/workflows/:id"
	cancel := handle(workflowID, a.svc.CancelWorkflow, wire.AppendWorkflowCancelled) // a body is not looked at
	return []Route{
		{"POST", "/workflows", producers, "3.16", "start a workflow", false, a.startWorkflow},
		{"GET", "/workflows", readers, "3.16", "list workflows", false, handleList(wire.DecodeWorkflowFilter, a.svc.Workflows, wire.AppendWorkflows)},
		{"GET", one, producers | readers, "3.16", "read a workflow", false, handle(workflowID, a.svc.Workflow, wire.AppendWorkflow)},
		{"GET", one + "/progress", producers | readers, "3.16", "read the progress of a workflow", false, handle(workflowID, a.svc.Workflow, wire.AppendWorkflowProgress)},
		{"DELETE", one, producers, "3.16", "cancel a workflow", false, cancel},
		{"POST", one + "/cancel", producers, "3.16", "cancel a workflow", false, cancel},
	}
}

// limitRoutes are those of rate limits.
func (a *api) limitRoutes() []Route {
	const one = "/rate-limits/:key"
	return []Route{
		{"GET", "/rate-limits", readers, "3.25", "list rate limits", false, handleList(wire.DecodeLimitFilter, a.svc.Limits, wire.AppendLimits)},
		{"GET", one, readers, "3.25", "read a rate limit", false, handle(limitKey, a.svc.Limit, wire.AppendLimit)},
		{"PUT", one, operators, "3.25", "override a rate limit", false, a.overrideLimit},
		{"PUT", one + "/override", operators, "3.25", "override a rate limit", false, a.overrideLimit},
		{"DELETE", one + "/override", operators, "3.25", "end the override of a rate limit", false, handle(limitKey, a.svc.DropLimitOverride, wire.AppendLimit)},
	}
}

// schemaRoutes are those of the schemas of args.
func (a *api) schemaRoutes() []Route {
	rs := []Route{
		{"POST", "/schemas", operators, "3.20", "register a schema", false, a.putSchema(wire.AppendSchema, false)},
		{"PUT", "/admin/schemas/:name/:version", operators, "3.20", "register a schema", false, a.putSchema(wire.AppendSchemaFlat, true)},
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
			Route{"GET", base, producers | readers, "3.20", "list schemas", false, handleList(wire.DecodeSchemaFilter, a.svc.Schemas, list)},
			Route{"GET", base + "/:name", producers | readers, "3.20", "read a schema, or the latest of a type", false, handle(fromPath("name"), a.svc.Schema, write)},
			Route{"GET", base + "/:name/versions", producers | readers, "3.20", "list the versions of a schema", false, a.schemaVersions(list)},
			Route{"GET", base + "/:name/:version", producers | readers, "3.20", "read a version of a schema", false, handle(schemaVersion, a.versioned, write)},
			Route{"DELETE", base + "/:name", operators, "3.20", "remove a schema", false, handle(fromPath("name"), a.deleteSchema(a.svc.Schema), wire.AppendSchemaDeleted)},
			Route{"DELETE", base + "/:name/:version", operators, "3.20", "remove a version of a schema", false, a.deleteSchemaVersion})
	}
	return rs
}

// eventRoutes are those of events.
func (a *api) eventRoutes() []Route {
	return []Route{
		{"GET", "/events", readers, "3.18", "read the log of events", false, a.eventLog},
		{"GET", "/events/stream", readers, "3.18", "follow events as they happen", true, a.eventStream},
		{"GET", "/events/:event_id", readers, "3.18", "read an event", false, a.event},
		{"GET", "/jobs/:id/events", anyRole, "3.18", "follow a job until it has ended", true, a.jobStream},
		{"GET", "/jobs/:id/progress/stream", anyRole, "3.17", "follow the progress of a job", true, a.progressStream},
		{"GET", "/queues/:name/events", readers, "3.18", "follow a queue", true, a.queueStream},
		{"GET", "/admin/stats/stream", readers, "3.18", "follow events, and how the server does", true, a.statsStream},
		{"GET", "/ws", readers, "3.18", "follow events over WebSocket", true, a.socket},
		{"GET", "/events/:id/history", anyRole, "3.17", "read the events of a job", false, a.history},
		{"GET", "/jobs/:id/history", anyRole, "3.17", "read the events of a job", false, a.history},
	}
}

// webhookRoutes are those of webhooks.
func (a *api) webhookRoutes() []Route {
	const all, one = "/webhooks/subscriptions", "/webhooks/subscriptions/:id"
	kept := job.WebhookService(struct{ job.WebhookService }{a.Webhooks})
	rs := []Route{
		{"POST", all, operators, "3.24", "subscribe a URL to events", false, a.createWebhook},
		{"GET", all, readers, "3.24", "list webhook subscriptions", false, a.listWebhooks},
		{"GET", one, readers, "3.24", "read a webhook subscription", false, a.readWebhook},
		{"PATCH", one, operators, "3.24", "change parts of a webhook subscription", false, a.changeWebhook(wire.DecodeWebhookChange)},
		{"PUT", one, operators, "3.24", "replace a webhook subscription", false, a.changeWebhook(wire.DecodeWebhookReplacement)},
		{"DELETE", one, operators, "3.24", "remove a webhook subscription", false, handleBoth(fromPath("id"), a.deleteWebhook, wire.AppendWebhookDeleted)},
		{"POST", one + "/test", operators, "3.24", "send a test event, and wait for the answer", false, handle(fromPath("id"), kept.TestWebhook, wire.AppendWebhookTrial)}, // bodies are not looked at
		{"POST", one + "/rotate-secret", operators, "3.24", "give a webhook subscription another secret", false, handle(fromPath("id"), kept.RotateWebhookSecret, wire.AppendNewSecret)},
	}
	for i := range rs {
		rs[i].handle = a.withWebhooks(rs[i].handle)
	}
	return rs
}

// outboxRoutes are those of the outboxes that this process relays.
func (a *api) outboxRoutes() []Route {
	return []Route{
		{"GET", "/outbox", readers, "3.26", "list outboxes", false, handleAll(a.outboxList, wire.AppendOutboxes)},
		{"POST", "/outbox/poke", producers, "3.26", "say that there are new rows", false, a.poke},
		{"GET", "/outbox/:name/parked", readers, "3.26", "list parked rows", false, a.parked},
		{"POST", "/outbox/:name/replay", operators, "3.26", "relay parked rows again", false, a.onRows("replayed", Outbox.Replay)},
		{"POST", "/outbox/:name/discard", operators, "3.26", "remove parked rows for good", false, a.onRows("discarded", Outbox.Discard)},
	}
}

// adminRoutes are those of a dashboard.
func (a *api) adminRoutes() []Route {
	return []Route{
		{"GET", "/admin/stats", readers, "3.23", "read the counters of all queues together", false, a.overview},
		{"GET", "/admin/stats/history", readers, "3.23", "read what happened, by time", false, a.statsHistory},
		{"GET", "/admin/queues", readers, "3.23", "list queues with what happened in them", false, a.adminQueues},
		{"GET", "/admin/queues/:name", readers, "3.23", "read a queue with what happened in it", false, a.adminQueue},
		{"PUT", "/admin/queues/:name/rate-limit", operators, "3.23", "limit a whole queue", false, a.setConfig(wire.DecodeQueueLimits, true)},
		{"DELETE", "/admin/queues/:name/jobs", operators, "3.23", "remove finished jobs of a queue, when confirmed", false, a.purgeQueue(true)},
		{"PATCH", "/admin/jobs/:id", operators, "3.7", "change the priority of a job", false, a.reprioritize},
		{"POST", "/admin/jobs/:id/retry", operators, "3.23", "retry a discarded job", false, handle(revived, a.svc.Retry, wire.AppendRetried)},
		{"GET", "/admin/tenants/:id/stats", readers, "3.23", "count the jobs of a tenant", false, handle(fromPath("id"), a.svc.TenantStats, wire.AppendTenantStats)},
		{"GET", "/admin/pools", readers, "3.23", "list pools", false, handleAll(a.svc.Pools, wire.AppendPools)},
		{"GET", "/admin/pools/:name", readers, "3.23", "read a pool", false, handle(fromPath("name"), a.pool, wire.AppendPool)},
		{"PUT", "/admin/pools/:name", operators, "3.23", "set a pool", false, a.putPool},
		{"DELETE", "/admin/pools/:name", operators, "3.23", "remove a pool", false, a.deletePool},
		{"GET", "/admin/scheduling/stats", readers, "3.23", "read how starts were shared among queues", false, a.dispatch},
	}
}

// systemRoutes are those about the server itself. They say nothing about jobs, and
// everybody may ask them.
func (a *api) systemRoutes() []Route {
	return []Route{
		{"GET", "/ojs/manifest", everybody, "3.21", "read what the server is and can do", false, a.manifest},
		{"GET", v1 + "/health", everybody, "3.22", "read how the server is", false, a.health},
		{"GET", "/health", everybody, "3.22", "read how the server is", false, a.health},
		{"GET", "/healthz", everybody, "3.22", "read how the server is", false, a.health},
		{"GET", "/ready", everybody, "3.22", "learn whether requests can be served now", false, a.ready},
		{"GET", "/readyz", everybody, "3.22", "learn whether requests can be served now", false, a.ready},
		{"GET", "/live", everybody, "3.22", "learn whether the process answers", false, a.live},
		{"GET", "/livez", everybody, "3.22", "learn whether the process answers", false, a.live},
	}
}

// router serves the table, each row behind what it asks of its caller.
func (a *api) router() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = a.fail
	e.Pre(a.enter)
	table := a.routes()
	a.named = endpoints(table)
	words := fixedWords(table)
	for _, r := range table {
		h := a.only(r, r.handle)
		h = unswallowed(words, r, h)
		e.Add(r.Method, r.Path, h)
		if r.Method == http.MethodGet {
			e.Add(http.MethodHead, r.Path, h)
		}
	}
	return e
}

// endpoints are the paths that are read without a parameter, by names, for the manifest.
func endpoints(table []Route) (named [][2]string) {
	for _, r := range table {
		name, below := strings.CutPrefix(r.Path, v1+"/")
		if below && r.Method == http.MethodGet && !strings.Contains(name, ":") {
			named = append(named, [2]string{strings.NewReplacer("/", "_", "-", "_").Replace(name), r.Path})
		}
	}
	return named
}

// fixedWords are the last words of the paths of a table, by what stands before them, and
// with the methods of each: where another row has a parameter, they are no value of it.
func fixedWords(table []Route) map[string]map[string][]string {
	words := map[string]map[string][]string{}
	for _, r := range table {
		parent, word := cutLast(r.Path)
		if strings.HasPrefix(word, ":") {
			continue
		}
		if words[parent] == nil {
			words[parent] = map[string][]string{}
		}
		words[parent][word] = append(words[parent][word], r.Method)
	}
	return words
}

func cutLast(path string) (parent, word string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// unswallowed refuses what a parameter at the end of a path would swallow: the word of
// another endpoint, asked with a method that it does not have (contract §1.1).
func unswallowed(words map[string]map[string][]string, r Route, h echo.HandlerFunc) echo.HandlerFunc {
	parent, parameter := cutLast(r.Path)
	fixed := words[parent]
	if !strings.HasPrefix(parameter, ":") || len(fixed) == 0 {
		return h
	}
	return func(c echo.Context) error {
		if methods := fixed[param(c, parameter[1:])]; methods != nil {
			c.Response().Header().Set(echo.HeaderAllow, strings.Join(append(methods, http.MethodOptions), ", "))
			return echo.ErrMethodNotAllowed
		}
		return h(c)
	}
}
