package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/memory"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the job server",
		Long: "Runs the job server until SIGTERM or SIGINT. It then hands out no more work, but still accepts jobs\n" +
			"and acknowledgements until the running jobs have come back, no worker has spoken for 7 s,\n" +
			"or the grace period is over, and exits with 0. A second signal stops it at once; what was acknowledged\n" +
			"is on disk. SIGHUP reads the files of schedules, of tokens and of TLS again.",
		Args: noArgs,
	}
	bind(cmd, "listen", "db", "host", "token-file", "tls-cert", "tls-key", "allow-remote", "allow-origin", "allow-query-token", "log-level", "log-format", "shutdown-grace", "default-timeout", "heartbeat-timeout",
		"backtraces", "on-exhaustion", "max-requeues", "cron-file", "cron-coordination", "memory-limit", "max-connections", "accept-damage", "allow-webhook", "test-directives")
	bind(cmd, relaySettings...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		if cfg.cronWith == withOutbox && len(cfg.outboxes) != 1 {
			return usage("--cron-coordination outbox needs exactly one --outbox, got %d: the servers agree in its database", len(cfg.outboxes))
		}
		return a.serve(cmd.Context(), cfg)
	}
	return cmd
}

// tune sets the runtime for a server with many callers that waits for flushes most
// of the time. One more P than there are processors keeps them all busy while the
// writer waits for the disk (10 % more jobs/s on two), and the garbage of
// requests may triple a small heap before it is collected (another 10 %, for
// 30 MB; package memory has it be less where more is in use). Whoever sets GOMAXPROCS or
// GOGC is obeyed instead.
func (a *app) tune() {
	if a.env["GOMAXPROCS"] == "" {
		runtime.SetDefaultGOMAXPROCS() // so that doing this twice changes nothing
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if a.env["GOGC"] == "" {
		debug.SetGCPercent(300)
	}
}

// limitMemory has the runtime keep to the limit, to less of it while little is in use until
// stop, and returns how much the bodies of requests and answers may have.
func (a *app) limitMemory(cfg config, log *slog.Logger) (bodies int64, stop func()) {
	m, group, stop := memory.Limit(cfg.memoryLimit, a.env["GOMEMLIMIT"])
	if m.All < cfg.memoryLimit {
		log.Info("less memory is used than --memory-limit allows, because the control group leaves less",
			"memory_limit", cfg.memoryLimit, "control_group", group, "used", m.All)
	}
	if a.env["GOGC"] != "" {
		stop() // how much garbage there may be is the operator's business then
	}
	return m.Bodies, stop
}

// serve runs a server until ctx ends, which is a good end, or a part of it breaks.
func (a *app) serve(ctx context.Context, cfg config) error {
	a.tune()
	log := a.aside(cfg)
	cfg.out = a.stdout
	bodies, unlimit := a.limitMemory(cfg, log)
	defer unlimit()
	cfg.bodies = bodies
	s, err := start(ctx, cfg, log)
	if err != nil {
		return err
	}
	s.warnOfAccess()
	fmt.Fprintf(a.stdout, "outrider: listening on %s (database %s)\n", s.url, cfg.db)
	select {
	case <-ctx.Done():
		log.Info("stopping")
		err = s.drain(cfg.grace)
	case err = <-s.broken:
		if exitCode(err) == exitStore {
			log.Info("stopping because nothing can be written any more") // the store has said why
		} else {
			log.Error("a part of the server failed, so the server stops", "err", err)
		}
	}
	closing := s.close()
	if err == nil {
		err = s.fault()
	}
	if err == nil {
		err = closing
	} else if closing != nil && exitCode(closing) != exitStore {
		log.Error("stop", "err", closing)
	}
	if err == nil {
		log.Info("stopped", slog.String("db", cfg.db))
	}
	return err
}
