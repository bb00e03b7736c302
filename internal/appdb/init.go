package appdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// Init makes the tables. A SQLite file that is made for them is put in WAL mode,
// in which the relay and the app do not wait for each other; how one that is there
// keeps its journal is the affair of its app.
//
// Tables of an older outrider that lack something are said with the statements that
// mend them. alter has it run those that add a column that may be NULL, or an index,
// if nothing else is wrong; ran are these.
func (s *Source) Init(ctx context.Context, alter bool) (ran []string, err error) {
	if s.made {
		if _, err := s.DB.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
			return nil, s.Fault(job.Unavailable, err.Error())
		}
	}
	was := outbox.Init(ctx, s.DB, s.Dialect)
	if was == nil {
		return nil, nil
	}
	faults, err := outbox.Faults(ctx, s.DB, s.Dialect, true)
	faults = slices.DeleteFunc(faults, outbox.MadeByInit)
	if err != nil || len(faults) == 0 {
		return nil, s.about(was)
	}
	var additions []string
	for _, f := range faults {
		if stmt := outbox.Addition(f); stmt != "" {
			additions = append(additions, stmt)
		}
	}
	switch {
	case len(additions) < len(faults) && alter:
		return nil, s.lacking(faults, "nothing was changed, since --alter only adds indexes and columns that may be NULL; mend this, then run: outrider outbox init DSN")
	case len(additions) < len(faults):
		return nil, s.lacking(faults, "mend this, then run: outrider outbox init DSN")
	case !alter:
		return nil, s.lacking(faults, "run this, then: outrider outbox init DSN; or have it run by: outrider outbox init --alter DSN")
	}
	if err := outboxsql.Run(ctx, s.DB, strings.Join(additions, ";\n")+";\n"); err != nil {
		return nil, s.Fault(job.Unavailable, err.Error())
	}
	return additions, s.about(outbox.Init(ctx, s.DB, s.Dialect))
}

// lacking is about tables that are there and not whole.
func (s *Source) lacking(faults []string, next string) error {
	return s.Fault(job.Unsupported, fmt.Sprintf("the tables are not those of this outrider:\n  %s\n%s", strings.Join(faults, "\n  "), next))
}
