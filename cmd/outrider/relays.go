package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// relays are all the relays of one process, and what wakes them.
type relays struct {
	cfg     config
	log     *slog.Logger
	sources []*source
	door    net.Listener // on which a byte is a poke; nil without one
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

// openRelays opens the outboxes and the door, and starts nothing. What it
// returns must be closed, also after an error.
func openRelays(ctx context.Context, cfg config, log *slog.Logger) (*relays, error) {
	rs := &relays{cfg: cfg, log: log}
	for _, d := range cfg.outboxes {
		src, err := openSource(ctx, d, cfg.table)
		if err != nil {
			return rs, err
		}
		rs.sources = append(rs.sources, src)
	}
	if cfg.relay.pokeSocket == "" {
		return rs, nil
	}
	var err error
	rs.door, err = netguard.ListenSocket(ctx, cfg.relay.pokeSocket)
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
func (rs *relays) prepare(ctx context.Context, src *source, to job.Enqueuer, kept disk) error {
	base := src.name
	for n := 2; rs.taken(src); n++ {
		src.name = fmt.Sprintf("%s-%d", base, n)
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := src.check(ctx, rs.cfg.cronWith == withOutbox); err != nil && job.KindOf(err) != job.Unavailable {
		return err
	}
	r := rs.cfg.relay
	o := outbox.RelayOptions{Name: src.dsn.String(), Log: rs.log, Release: r.release, Lease: r.lease, Keep: r.keep,
		Busy: r.busy, Idle: r.idle, Batch: r.batch}
	if kept != nil {
		o.Owner, o.Fresh, o.Lineage = kept.Identity(), kept.Fresh(), kept.Lineage()
	}
	src.relay, src.mode = outbox.NewRelay(src.db, src.dialect, to, o), r.release
	return nil
}

// taken reports whether a source before src has its name.
func (rs *relays) taken(src *source) bool {
	before := rs.sources[:slices.Index(rs.sources, src)]
	return slices.ContainsFunc(before, func(s *source) bool { return s.name == src.name })
}

// start starts all parts; spawn runs one until it is asked to end.
func (rs *relays) start(spawn func(name string, run func(context.Context) error)) {
	for _, src := range rs.sources {
		spawn("the relay of "+src.dsn.String(), src.relay.Run)
		if !rs.cfg.relay.listen {
			continue
		}
		if src.dsn.scheme != onPostgres {
			rs.log.Warn("outbox: only PostgreSQL tells of commits to who listens; this one is polled", "outbox", src.dsn.String())
			continue
		}
		spawn("the listener of "+src.dsn.String(), newEar(src, rs.log, rs.cfg.relay.idle).run)
	}
	if rs.door != nil {
		spawn("the poke socket", rs.answerDoor)
	}
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
	if rs.door != nil {
		if err := rs.door.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, src := range rs.sources {
		errs = append(errs, src.db.Close())
	}
	return errors.Join(errs...)
}
