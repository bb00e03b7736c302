package cronfile_test

import (
	"fmt"

	"github.com/outrider-jobs/outrider/cronfile"
)

// An app reads its own file of schedules, and gives the specs to any job.CronService.
func ExampleParse() {
	f, err := cronfile.Parse("crons.yaml", []byte(`
crons:
  - name: nightly-report
    cron: "30 2 * * *"
    timezone: Europe/Berlin
    type: report.generate
  - name: cleanup
    corn: "0 4 * * *"
    type: cleanup.run
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	specs, refused := f.Specs()
	for _, s := range specs {
		fmt.Println(s.Name, s.Expression, s.Timezone)
	}
	fmt.Println(refused)
	// Output:
	// nightly-report 30 2 * * * Europe/Berlin
	// crons.yaml:8: "corn" is not known here; did you mean cron?
}
