package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestUnknownOptionsOfSchedulesAreTold: in the plan of a file, when a server
// applies it, and where a schedule is shown.
func TestUnknownOptionsOfSchedulesAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crons.yaml")
	writeFile(t, file, "crons:\n  - {name: mistyped, cron: \"30 3 * * *\", type: a.b, options: {quue: mail}}\n")
	const want = "warning: options.quue is not known here: it is kept with the job, and changes nothing; did you mean queue?"
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	for _, args := range []string{"cron diff -f " + file, "cron apply -f " + file, "cron get mistyped"} {
		if o := try(t, nil, append(strings.Fields(args), "--url", url)...); !strings.Contains(o.stdout, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
	_, _, out := served(t, config{db: tempDB(t), cronFile: file})
	if !strings.Contains(out.String(), want) {
		t.Errorf("serve says\n%s", out)
	}
}
