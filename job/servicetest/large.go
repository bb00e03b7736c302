package servicetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

var large = []verdict{
	{"large jobs are fetched a few at a time, each once", largeFetched},
	{"lists of large jobs hold each job once", largeListed},
}

// largeJobs pushes n jobs, named in their order, of a megabyte but for every fourth.
func largeJobs(k *kit, n int) (names []string) {
	big := json.RawMessage(`["` + strings.Repeat("x", 1<<20-4096) + `"]`)
	for i := range n {
		j := k.push(func(e *job.Envelope) {
			if e.Type = fmt.Sprint("n", i); i%4 != 3 {
				e.Args = big
			}
		})
		names = append(names, j.Type)
	}
	return names
}

func largeFetched(k *kit) {
	want := largeJobs(k, 12)
	var got []string
	for len(got) < len(want) {
		jobs := k.fetch(job.FetchRequest{Count: 100, Worker: "w1"})
		if len(jobs) == 0 || len(jobs) == len(want) {
			k.t.Fatalf("%d of %d large jobs in one fetch", len(jobs), len(want))
		}
		for _, j := range jobs {
			if j.Attempt != 1 || j.Releases != 0 {
				k.t.Errorf("%s was given out before: %s", j.Type, text(j))
			}
			got = append(got, j.Type)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.t.Errorf("fetched %v, want %v", got, want)
	}
	k.none()
}

func largeListed(k *kit) {
	want := largeJobs(k, 8)
	var got []string
	for f := (job.Filter{Queue: queue, Limit: 100}); ; {
		page, err := k.s.Jobs(k.ctx(), f)
		if err != nil || len(page.Jobs) == 0 || page.Total != int64(len(want)) {
			k.t.Fatalf("a page of %d jobs of %d, %v", len(page.Jobs), page.Total, err)
		}
		for _, j := range page.Jobs {
			got = append([]string{j.Type}, got...)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.t.Errorf("listed %v, want %v", got, want)
	}
}
