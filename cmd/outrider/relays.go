package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	jobspgx "github.com/outrider-jobs/outrider/adapters/pgx"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// relays are all the relays of one process, and what wakes them.
type relays struct {
	cfg     config
	log     *slog.Logger
	sources []*appdb.Source
	pokes   net.Listener // on which a byte is a poke; nil without one
}

// disk is what a relay must know of where the jobs are kept.
type disk interface {
	Identity() string
	Fresh() bool
	Lineage() job.Lineage
}

// startPatience is how long a start waits for the databases of the app to say
// whether their outboxes are right. One that is down is no reason to wait: the
// relay goes on asking.
const startPatience = 3 * time.Second

// openRelays opens the outboxes and the socket for pokes, and starts nothing. What it
// returns must be closed, also after an error.
func openRelays(ctx context.Context, cfg config, log *slog.Logger) (*relays, error) {
	rs := &relays{cfg: cfg, log: log}
	for _, d := range cfg.outboxes {
		src, err := openSource(ctx, d, cfg.table, false)
		if err != nil {
			return rs, err
		}
		rs.sources = append(rs.sources, src)
	}
	if cfg.pokeSocket == "" {
		return rs, nil
	}
	var err error
	rs.pokes, err = netguard.ListenSocket(ctx, cfg.pokeSocket)
	return rs, chosenBy("--outbox-poke-socket", err)
}

// aim makes the relays. An error is that an outbox is not right. kept is nil
// where the jobs are not kept in this process.
func (rs *relays) aim(ctx context.Context, to job.Enqueuer, kept disk) error {
	for _, src := range rs.sources {
		if err := rs.prepare(ctx, src, to, kept); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the relay of a source.
func (rs *relays) prepare(ctx context.Context, src *appdb.Source, to job.Enqueuer, kept disk) error {
	base := src.Name()
	for n := 2; rs.taken(src); n++ {
		src.Rename(fmt.Sprintf("%s-%d", base, n))
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := src.Check(ctx, rs.cfg.cronWith == withOutbox); err != nil && job.KindOf(err) != job.Unavailable {
		return err
	}
	o := rs.cfg.relay
	o.Name, o.Log = src.DSN.String(), rs.log
	if kept != nil {
		o.Owner, o.Fresh, o.Lineage = kept.Identity(), kept.Fresh(), kept.Lineage()
	}
	src.Relay, src.Mode = outbox.NewRelay(src.DB, src.Dialect, to, o), o.Release
	return nil
}

// taken reports whether a source before src has its name.
func (rs *relays) taken(src *appdb.Source) bool {
	before := rs.sources[:slices.Index(rs.sources, src)]
	return slices.ContainsFunc(before, func(s *appdb.Source) bool { return s.Name() == src.Name() })
}

// start starts all parts; spawn runs one until it is asked to end.
func (rs *relays) start(spawn func(name string, run func(context.Context) error)) {
	for _, src := range rs.sources {
		spawn("the relay of "+src.DSN.String(), src.Relay.Run)
		if !rs.cfg.notified {
			continue
		}
		if src.DSN.Scheme() != appdb.Postgres {
			rs.log.Warn("outbox: only PostgreSQL can notify a listener; this one is polled", "outbox", src.DSN.String())
			continue
		}
		spawn("the listener of "+src.DSN.String(), rs.listener(src).Run)
	}
	if rs.pokes != nil {
		spawn("the poke socket", func(ctx context.Context) error { return netguard.ServePokes(ctx, rs.pokes, rs.poke) })
	}
}

// listener is what has PostgreSQL tell the relay of src of commits.
func (rs *relays) listener(src *appdb.Source) *jobspgx.Listener {
	name := src.DSN.String()
	return jobspgx.NewListener(src.DSN.PG(), src.Dialect.Table(), src.Poke, jobspgx.ListenerOptions{Name: name, Log: rs.log, Poll: rs.cfg.relay.Idle,
		Scrub: src.DSN.Scrub,
		Silent: func() {
			command := "outrider outbox init --wake listen"
			if src.Dialect.Table() != postgres.DefaultTable {
				command += " --table " + src.Dialect.Table()
			}
			rs.log.Warn("outbox: no trigger reports new rows, so listening has no effect; create it with: "+command+" DSN", "outbox", name)
		}})
}

// poke wakes every relay.
func (rs *relays) poke() {
	for _, src := range rs.sources {
		src.Poke()
	}
}

// outboxes are the sources as the API sees them.
func (rs *relays) outboxes() []httpapi.Outbox {
	all := make([]httpapi.Outbox, len(rs.sources))
	for i, src := range rs.sources {
		all[i] = src
	}
	return all
}

// close closes what was opened. The parts must have ended.
func (rs *relays) close() error {
	var errs []error
	if rs.pokes != nil {
		if err := rs.pokes.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, src := range rs.sources {
		errs = append(errs, src.DB.Close())
	}
	return errors.Join(errs...)
}
