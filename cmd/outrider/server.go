package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/internal/memory"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sidecar/webhooks"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// server is one running job server: a store, the sidecar on it, relays and a listener.
type server struct {
	cfg     config
	log     *slog.Logger
	url     string
	store   *sqlitestore.Store
	side    *sidecar.Sidecar
	hooks   *webhooks.Webhooks
	relays  *relays
	traffic netguard.Traffic
	memory  *httpapi.Budget
	broken  chan error     // the first part that ended without being asked to
	closers []func() error // what ends the parts, in the order they were started

	access      *httpapi.Access                 // nil without roles
	certificate atomic.Pointer[tls.Certificate] // nil without TLS
}

// start opens everything and serves; what it has opened is closed again when a later part fails.
// The server goes on after ctx has ended: close ends it.
func start(ctx context.Context, cfg config, log *slog.Logger) (*server, error) {
	s := &server{cfg: cfg, log: log, memory: httpapi.NewBudget(cfg.bodies), broken: make(chan error, 1)}
	err := s.open(ctx)
	if err != nil {
		if closing := s.close(); closing != nil {
			log.Error("close after a start that went wrong", "err", closing)
		}
		return nil, err
	}
	return s, nil
}

// open starts the parts in an order whose reverse is a clean stop: relays, HTTP, duties, store.
func (s *server) open(ctx context.Context) error {
	if err := s.cfg.needCronFile(); err != nil {
		return err
	}
	if err := s.loadAccess(); err != nil {
		return err
	}
	store, err := sqlitestore.Open(ctx, s.cfg.db, sqlitestore.Options{Log: s.log, AcceptDamage: s.cfg.acceptDamage})
	if err != nil {
		return badStore(err)
	}
	s.store = store
	s.closers = append(s.closers, func() error { return closeStore(store) })
	s.spawn("the watch of the store", func(ctx context.Context) error { return watchStore(ctx, store) })
	s.warnOfMemory()
	s.relays, err = openRelays(ctx, s.cfg, s.log)
	s.closers = append(s.closers, s.relays.close)
	if err != nil {
		return err
	}
	s.side = sidecar.New(store, sidecar.Options{Log: s.log, Timeout: s.cfg.timeout, Silence: s.cfg.silence, Rules: s.cfg.rules,
		Backtraces: s.cfg.backtraces, Ticks: s.ticks(), TestDirectives: s.cfg.testDirectives})
	if err := s.relays.aim(ctx, s.side, store); err != nil {
		return err
	}
	ln, err := s.cfg.listen.Listen(ctx)
	if err != nil {
		return chosenBy("--listen", err)
	}
	if err := s.openSocket(); err != nil {
		_ = ln.Close() // err is why
		return err
	}
	s.url = s.cfg.listen.URL(ln, s.cfg.tlsCert != "")
	if s.cfg.testDirectives {
		s.log.Warn("--test-directives is on: anybody who can enqueue a job can stop a worker with test_directive in its meta. Use it for conformance suites only")
	}
	s.side.Recover(ctx)
	hangups := s.watchHangups()
	s.applyCronFile(ctx)
	s.hooks = webhooks.New(s.side, webhooks.Options{Allowed: s.cfg.webhooks, Log: s.log})
	s.spawn("the duties", s.side.Run)
	s.spawn("the webhooks", s.hooks.Run)
	s.serveHTTP(ln)
	s.spawn("the return of memory", func(ctx context.Context) error { return memory.GiveBack(ctx, s.memory, store, s.log) })
	s.relays.start(s.spawn)
	if hangups != nil {
		s.spawn("the watch for SIGHUP", func(ctx context.Context) error { return s.reload(ctx, hangups) })
	}
	return nil
}

// chosenBy adds to an error about a place to listen the flag that chose it.
func chosenBy(flag string, err error) error {
	var taken *netguard.TakenError
	if !errors.As(err, &taken) {
		return err
	}
	if strings.HasSuffix(taken.Text, "port") {
		flag += " (127.0.0.1:0 picks a free one)"
	}
	if err = fmt.Errorf("%w with %s", err, flag); taken.InUse {
		return &failure{exitConflict, err}
	}
	return err
}

// badStore adds to why a store is not opened the flag that mends it.
func badStore(err error) error {
	var damage *sqlitestore.DamageError
	switch {
	case errors.As(err, &damage) && damage.Acceptable:
		return fmt.Errorf("%w (with --accept-damage)", err)
	case job.KindOf(err) == job.Conflict: // another outrider has it
		return &failure{exitConflict, fmt.Errorf("%w (--db names the file)", err)}
	case job.KindOf(err) == job.Unavailable:
		return fmt.Errorf("%w (--db names the file)", err)
	}
	return err
}

// ticks is where servers agree on the ticks of schedules; nil without such a place.
func (s *server) ticks() sidecar.Ticks {
	if s.cfg.cronWith != withOutbox {
		return nil
	}
	src := s.relays.sources[0]
	return outbox.NewTicks(src.DB, src.Dialect)
}

// warnOfMemory warns of a store in memory, which a restart empties, and says what
// that means for the outbox.
func (s *server) warnOfMemory() {
	file := s.cfg.db
	if to, err := filepath.EvalSymlinks(file); err == nil {
		file = to
	}
	fs := memory.FileSystem(filepath.Dir(file))
	if fs == "" {
		return
	}
	text := "the jobs are kept in memory: a restart of the machine or the container loses those that have not ended. Put --db on a disk, unless they may be lost"
	switch {
	case len(s.cfg.outboxes) == 0:
	case s.cfg.relay.Release == outbox.OnRelay:
		text = "the jobs are kept in memory, and on_relay deletes a row of the outbox as soon as its job is kept: a restart of the machine or the container LOSES every job that has not ended. Put --db on a disk, or set --outbox-release on_complete"
	default:
		text = "the jobs are kept in memory: a restart of the machine or the container loses those that have not ended, except those of the outbox, which are sent again. Put --db on a disk, unless the others may be lost"
	}
	s.log.Warn(text, "db", s.cfg.db, "file_system", fs)
}

// spawn runs a part in a goroutine that close ends and joins.
func (s *server) spawn(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); ctx.Err() == nil {
			s.fail(fmt.Errorf("%s ended: %w", name, cmp.Or(err, errors.New("unexpectedly"))))
		}
	}()
	s.closers = append(s.closers, func() error {
		cancel()
		<-done
		return nil
	})
}

// fault is what has broken, also where nobody came to hear of it as the server
// stopped at the same moment.
func (s *server) fault() error {
	select {
	case <-s.store.Failed():
		return &failure{exitStore, s.store.Trouble()}
	default:
	}
	select {
	case err := <-s.broken:
		return err
	default:
		return nil
	}
}

// watchStore ends when the store can do nothing more until it is opened again:
// then the server stops, with a code by which its supervisor starts it anew.
func watchStore(ctx context.Context, store *sqlitestore.Store) error {
	select {
	case <-store.Failed():
		return &failure{exitStore, store.Trouble()}
	case <-ctx.Done():
		return nil
	}
}

// closeStore closes a store; one that failed, perhaps only by that, gives the exit its code.
func closeStore(store *sqlitestore.Store) error {
	err := store.Close()
	select {
	case <-store.Failed():
		return &failure{exitStore, cmp.Or(err, errors.New("the store had failed"))}
	default:
		return err
	}
}

// fail reports a broken part; the first report counts.
func (s *server) fail(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

func (s *server) serveHTTP(ln net.Listener) {
	streams := httpapi.NewStreams(s.cfg.connections - s.cfg.connections/16 - 1)
	api := httpapi.New(s.side, httpapi.Options{Hosts: s.cfg.hosts, Version: version(), Log: s.log, Admit: netguard.Clear, Outboxes: s.relays.outboxes(), Webhooks: s.hooks, Memory: s.memory, Streams: streams, Settings: s.cfg.told,
		Access: s.access, QueryToken: s.cfg.queryToken, PeerUser: netguard.PeerUser, Origins: s.cfg.origins, TLS: s.cfg.tlsCert != "", AnyAddress: s.cfg.listen.Remote})
	srv := netguard.NewServer(s.traffic.Watch(api), s.log)
	ln = netguard.Guard(srv, s.encrypted(httpapi.Watch(srv, ln)), s.cfg.connections, "--max-connections", s.log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	s.closers = append(s.closers, func() error {
		streams.End(time.Second)
		s.traffic.Shutdown(srv)
		<-done
		return nil
	})
}

// close ends what start has started, the last first. It may be called twice.
func (s *server) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// silence is how long a stop waits for a word of any worker. Workers beat every
// 5 s while they work (ojs-core.md §7.5); who says nothing for longer is gone,
// or does without an answer now: a reservation outlives the server, and its ACK
// is taken by the next one.
const silence = 7 * time.Second

// drain hands out no more work and waits until the work that is out has come
// back, no worker is left to wait for, or the grace is over. The server goes on
// taking jobs and answers meanwhile. A part that breaks ends it, and is returned.
func (s *server) drain(grace time.Duration) error {
	s.side.Quiet()
	began := time.Now()
	over := time.After(grace)
	look, tell := time.NewTicker(100*time.Millisecond), time.NewTicker(5*time.Second)
	defer look.Stop()
	defer tell.Stop()
	for told := false; ; {
		n, err := s.active(context.Background())
		if n == 0 || err != nil {
			return nil // no work is out, or nobody can tell
		}
		if !told {
			s.log.Info(fmt.Sprintf("draining: %d active", n))
			told = true
		}
		select {
		case <-look.C:
		case <-tell.C:
			told = false
		case err := <-s.broken:
			s.log.Error("a part of the server failed during the stop; the server does not wait for the rest", "err", err)
			return err
		case <-over:
			s.log.Warn("the grace period is over; workers that are still busy can acknowledge to the next server", "active", n)
			return nil
		}
		if s.traffic.SilentFor(began) > silence {
			s.log.Warn("no worker has spoken, so the server does not wait; workers that are still busy can acknowledge to the next server",
				"active", n, "silent_for", silence)
			return nil
		}
	}
}

// active is how many jobs are with workers.
func (s *server) active(ctx context.Context) (int64, error) {
	queues, err := s.side.Queues(ctx)
	var n int64
	for _, q := range queues {
		n += q.Counts[job.Active]
	}
	return n, err
}
