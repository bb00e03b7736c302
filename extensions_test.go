package outrider_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/extensions.md lists every member of a request or an answer that the five
// documents do not define. What the code reads and writes is taken from the code
// itself, and from the golden requests and answers of the HTTP API.

// ours are the places that the table speaks of: those of requests, and those of answers.
var (
	asked    = []string{"PUSH", "retry", "unique", "deduplication", "FETCH", "ACK", "FAIL", "error", "BEAT", "CANCEL", "directives", "dead letters", "schedules", "outboxes", "progress", "schemas", "workflows", "queues", "maintenance", "webhooks", "bulk", "streams"}
	answered = []string{"job", "answers", "events"}
)

// documented are the members that the five documents define, by their place.
var documented = map[string]string{
	"PUSH": "specversion id type queue args meta priority timeout scheduled_at expires_at retry unique schema " + // ojs-core.md §5
		"options deduplication debounce job_id", // ojs-retry.md §12, asyncmq-deduplication.md
	"retry":         "max_attempts initial_interval backoff_coefficient max_interval jitter non_retryable_errors on_exhaustion", // ojs-retry.md §2.1
	"unique":        "keys args_keys meta_keys period states on_conflict key",                                                   // ojs-unique-jobs.md §2, ojs-core.md §13.2
	"deduplication": "id ttl extend replace",                                                                                    // asyncmq-deduplication.md
	"FETCH":         "queues count",                                                                                             // ojs-core.md §7.2
	"ACK":           "job_id result",                                                                                            // ojs-core.md §7.3
	"FAIL":          "job_id error",                                                                                             // ojs-core.md §13.7
	"error":         "type message backtrace code details",                                                                      // ojs-core.md §8.1, ojs-retry.md §7.3
	"job": "specversion id type queue args meta priority timeout scheduled_at expires_at retry unique schema state attempt created_at enqueued_at " +
		"started_at completed_at error result deduplication debounce errors next_retry_at cancelled_at discarded_at " + // ojs-core.md §5, §6.3, ojs-retry.md §10
		"message backtrace code details timestamp", // of error and errors: ojs-core.md §8.1, ojs-retry.md §10.1
	"answers": "job id type state queue error code message retryable details existing_job_id existing_job_state uniqueness_key deduplicated " + // ojs-unique-jobs.md §5
		"ojs_version implementation name version language conformance_level capabilities unique_jobs strength mechanism " + // ojs-unique-jobs.md §8.3
		"queues result attempt priority meta args scheduled_at expires_at created_at enqueued_at started_at completed_at cancelled_at discarded_at " +
		"next_retry_at keys args_keys meta_keys states on_conflict key", // those of a job and of a policy, shown again beside them
	"events": "id type specversion job_id queue state priority attempt error result message code retryable created_at scheduled_at next_retry_at",
}

func isDocumented(place, name string) bool {
	if place == "schedules" { // the members of its job may stand beside its own
		place = "PUSH"
	}
	return slices.Contains(strings.Fields(documented[place]), name)
}

// readers are the functions, and the lists, that hold names of members which a
// request may have, and the places where these stand. "" is one that reads what
// is stored already, or an answer.
var readers = map[string]string{
	"job.parser": "PUSH", "job.envelopeMembers": "PUSH", "job.policyMembers": "PUSH", "job.customIDs": "PUSH",
	"job.policyNames": "retry", "job.UniquePolicy": "unique", "job.period": "unique", "job.parseDeduplication": "deduplication", "job.parseLimit": "PUSH", "job.parsePace": "PUSH, queues", "job.parseQuota": "PUSH, queues", "job.namedPeriods": "", "job.paceAtTop": "PUSH, queues", "job.dedupTTL": "deduplication",
	"wire.DecodeBatch": "PUSH", "wire.fetchMember": "FETCH", "wire.DecodeNext": "FETCH", "wire.DecodeAcks": "ACK", "wire.ackMember": "ACK", "wire.claim": "ACK, FAIL", "wire.DecodeAck": "ACK", "wire.DecodeNack": "FAIL", "wire.decodeFailure": "error",
	"wire.DecodeSocket": "streams", "wire.socketFilter": "streams", "wire.beat": "BEAT", "wire.DecodeDeregister": "BEAT", "wire.DecodeCancel": "CANCEL",
	"wire.DecodeDirective": "directives", "wire.DecodeRevive": "dead letters", "wire.DecodeReviveDead": "dead letters", "wire.deadMember": "dead letters", "wire.DecodePurgeDead": "dead letters", "wire.DecodeMaintenance": "maintenance",
	"wire.cronBody": "schedules", "wire.cronSpellings": "schedules", "wire.DecodeRows": "outboxes",
	"job.Envelope": "", "job.takeVisibility": "", "job.traces": "", "job.isTrace": "", "job.withoutTraces": "", "httpapi.api": "",
	"wire.scheduled": "", "wire.shown": "", "wire.appendTemplate": "", "wire.withArgs": "", "wire.mergeable": "", "wire.flatPatch": "", "wire.flatTemplate": "", "wire.givenOptions": "",
	"wire.cronShown": "", "wire.readEventData": "",
	"wire.DecodeProgress": "progress", "wire.DecodeCheckpoint": "progress", "wire.DecodeStep": "progress", "wire.DecodeIDs": "progress", "wire.DecodeSchema": "schemas", "job.takeProgress": "", "job.flowParser": "workflows", "job.takeFlow": "", "job.Origin": "", "job.takeCheckpoint": "",
	"job.ParseQueueConfig": "queues", "job.ParsePool": "queues", "job.Pool": "queues", "job.parsePools": "", "job.Backpressure": "queues", "job.retention": "queues", "job.ParseQueueSettings": "", "job.QueueSettings": "", "job.keptResult": "",
	"wire.DecodeBy": "queues", "wire.DecodeNewQueue": "queues", "wire.DecodeConfig": "queues", "wire.DecodeQueueDeletion": "queues", "wire.DecodePurgeQueue": "queues", "wire.DecodePriority": "queues",
	"wire.webhookMembers": "webhooks", "wire.webhookFilter": "webhooks", "job.WebhookFilter": "", "wire.webhookRead": "",
	"wire.DecodeBulkPush": "bulk", "wire.DecodeBulkAct": "bulk", "wire.bulkFilter": "bulk",
}

// reader is the place of a function or a list, and of a method that of its receiver.
func reader(where string) (place string, known bool) {
	parts := strings.Split(where, ".")
	place, known = readers[parts[0]+"."+parts[1]]
	return place, known
}

// row is a line of the table.
type row struct {
	names, places []string
}

// table reads docs/extensions.md.
func table(t *testing.T) (rows []row) {
	t.Helper()
	page, err := os.ReadFile("docs/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 2 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		if len(cells) != 6 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("this line has not six cells: %s", line)
			continue
		}
		var r row
		for _, n := range strings.Split(cells[0], ",") {
			r.names = append(r.names, strings.Trim(strings.TrimSpace(n), "`"))
		}
		for _, p := range strings.Split(cells[1], ",") {
			r.places = append(r.places, strings.TrimSpace(p))
		}
		rows = append(rows, r)
	}
	return rows
}

// byPlace are the names of the table, by their place.
func byPlace(t *testing.T, rows []row) map[string]set {
	t.Helper()
	found := map[string]set{}
	for _, r := range rows {
		for _, p := range r.places {
			if !slices.Contains(asked, p) && !slices.Contains(answered, p) {
				t.Errorf("%q stands in %q, which is no place", r.names, p)
			}
			for _, n := range r.names {
				if found[p] == nil {
					found[p] = set{}
				}
				if found[p][n] {
					t.Errorf("%s is listed twice for %s", n, p)
				}
				found[p][n] = true
			}
		}
	}
	return found
}

// Every member that is read or answered is one of the documents or one of the
// table (ojs-core.md §11.10(3)), and nothing is in the table that no code knows.
func TestExtensionsAreListed(t *testing.T) {
	c, g := collect(t), goldens(t)
	table := byPlace(t, table(t))
	missing := func(place, name string) bool { return !isDocumented(place, name) && !table[place][name] }
	known := map[string]set{}
	for _, where := range slices.Sorted(maps.Keys(c.read)) {
		places, ok := reader(where)
		if !ok { // a list of names, as it seems, each of which must be known somewhere
			for _, name := range slices.Sorted(maps.Keys(c.read[where])) {
				if !slices.ContainsFunc(slices.Concat(asked, answered), func(p string) bool { return !missing(p, name) }) {
					t.Errorf("%s reads %q: docs/extensions.md has no row for it, and readers does not say where it stands", where, name)
				}
			}
			continue
		}
		for _, place := range strings.Split(places, ", ") {
			for name := range c.read[where] {
				if known[place] == nil {
					known[place] = set{}
				}
				if known[place][name] = true; place != "" && missing(place, name) {
					t.Errorf("%s reads %q of %s: docs/extensions.md has no row for it", where, name, place)
				}
			}
		}
	}
	for _, place := range answered {
		for _, name := range slices.Sorted(maps.Keys(g[place])) {
			if missing(place, name) && (place == "answers" || missing("answers", name)) {
				t.Errorf("a golden answer has %q (%s): docs/extensions.md has no row for it", name, place)
			}
			c.written[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.written)) {
		if !slices.ContainsFunc(answered, func(p string) bool { return !missing(p, name) }) {
			t.Errorf("%q is answered: docs/extensions.md has no row for it among job, answers and events", name)
		}
	}
	for place, names := range table {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if isDocumented(place, name) {
				t.Errorf("%s of %s is no extension: a document defines it (ojs-core.md §11.10(1))", name, place)
			}
			if slices.Contains(asked, place) && !known[place][name] {
				t.Errorf("docs/extensions.md lists %s for %s, and nothing reads it there", name, place)
			}
			if slices.Contains(answered, place) && !c.written[name] {
				t.Errorf("docs/extensions.md lists %s for %s, and nothing writes it", name, place)
			}
		}
	}
}
