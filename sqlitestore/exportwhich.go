package sqlitestore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// only is how the jobs were chosen, for a person and to compare.
func (o *ExportOptions) only() (words []string) {
	for _, s := range o.States {
		words = append(words, "state="+string(s))
	}
	for _, q := range o.Queues {
		words = append(words, "queue="+q)
	}
	for _, t := range o.Types {
		words = append(words, "type="+t)
	}
	if !o.Since.IsZero() {
		words = append(words, "since="+job.FormatTime(o.Since))
	}
	return words
}

// condition is which jobs are wanted, empty for all.
func (o *ExportOptions) condition() string {
	var all []string
	either := func(of []string) {
		if len(of) > 0 {
			all = append(all, "("+strings.Join(of, " OR ")+")")
		}
	}
	var of []string
	for _, s := range o.States {
		of = append(of, fmt.Sprintf("state_code = %d", slices.Index(job.States, s)))
	}
	either(of)
	of = nil
	for _, q := range o.Queues {
		of = append(of, "queue = "+literal(q))
	}
	either(of)
	of = nil
	for _, t := range o.Types {
		if prefix, ok := strings.CutSuffix(t, "*"); ok {
			of = append(of, fmt.Sprintf("substr(type, 1, length(%s)) = %[1]s", literal(prefix)))
		} else {
			of = append(of, "type = "+literal(t))
		}
	}
	either(of)
	if !o.Since.IsZero() {
		all = append(all, fmt.Sprintf("created_at >= %d", o.Since.UnixMilli()))
	}
	return strings.Join(all, " AND ")
}

// literal is a text in SQL.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
