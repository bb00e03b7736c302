// Package servicetest judges any job.Service: it holds a test for every promise
// of that interface, in the words of the documents behind it. The same cases are
// run against a service in this process and against one behind HTTP.
package servicetest

import (
	"slices"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// verdict is one case: a sentence that must hold, and the test of it.
type verdict struct {
	name string
	test func(*kit)
}

// Run judges the services that open makes: a new, empty one for each case, with
// its background duties running. open ends what it began with t.Cleanup.
//
// A case asks nothing but the service. It uses real time: tens of milliseconds
// that it puts into schedules and reservations, and deadlines that are far away.
func Run(t *testing.T, open func(t *testing.T) job.Service) {
	for _, v := range slices.Concat(pushing, batching, fetching, versioning, large, waiting, refusing, holding, acking, lateness,
		failing, retrying, beating, rostering, directing, operating, deadLetters, expiring, telling, following, again,
		uniqueness, deduplicating, keeping, warning, limiting, tenancy, progressing, schemas, flowing, runningQueues, pooling, administering, inBulk, closed) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.test(&kit{t: t, s: open(t)})
		})
	}
}
