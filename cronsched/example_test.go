package cronsched_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
)

func ExampleSpec_Upcoming() {
	s, err := cronsched.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	for o := range s.Upcoming(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)) {
		fmt.Printf("%s %q %s\n", o.At.UTC().Format(time.RFC3339), o.Skipped, o.Local())
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// 2026-03-28T01:30:00Z "" 2026-03-28T02:30:00+01:00
	// 2026-03-29T01:00:00Z "dst_skip" 2026-03-29T02:30:00
	// 2026-03-30T00:30:00Z "" 2026-03-30T02:30:00+02:00
}

func ExampleFault() {
	_, err := cronsched.Parse("0 3 32 * *", "")
	var f *cronsched.Fault
	if errors.As(err, &f) {
		fmt.Println(f.Report())
	}
	// Output:
	// cron expression: day-of-month 32 is out of range 1-31
	//   0 3 32 * *
	//       ^^ here
	//   help: did you mean `0 3 L * *` (last day of the month)?
}
