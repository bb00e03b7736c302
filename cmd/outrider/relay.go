package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/outbox"
)

func (a *app) relayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Relay outboxes to another job server",
		Long: "Sends the rows of your outboxes to any Open Job Spec server over HTTP, until SIGTERM or SIGINT. It then\n" +
			"marks what it has sent and exits with 0. Any number may run side by side. A row is deleted as soon as the\n" +
			"server has its job (on_relay): only a server that relays for itself can wait until jobs have ended.",
		Args: noArgs,
	}
	bind(cmd, relaySettings...)
	bind(cmd, "to", "token-file", "log-level", "log-format")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		if len(cfg.outboxes) == 0 {
			return usage("%s needs an outbox, as in: %[1]s --outbox sqlite:./shop.db --to http://127.0.0.1:8080", cmd.CommandPath())
		}
		if cfg.relay.Release != outbox.OnRelay {
			return usage("%s supports only --outbox-release on_relay: on_complete needs the jobs in the same process, as in outrider serve", cmd.CommandPath())
		}
		return a.relayAlone(cmd.Context(), cfg)
	}
	return cmd
}

// relayAlone relays until ctx ends, which is a good end, or a part breaks.
func (a *app) relayAlone(ctx context.Context, cfg config) error {
	log := a.aside(cfg)
	to, err := cfg.client(cfg.to)
	if err != nil {
		return err
	}
	rs, err := openRelays(ctx, cfg, log)
	if err == nil {
		err = rs.aim(ctx, to, nil)
	}
	if err != nil {
		_ = rs.close() // err is why we are here
		if ctx.Err() != nil {
			return nil // it was told to stop before it had begun
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	rs.start(func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); ctx.Err() == nil {
				cancel(fmt.Errorf("%s ended: %w", name, cmp.Or(err, errors.New("unexpectedly"))))
			}
		})
	})
	for _, src := range rs.sources {
		fmt.Fprintf(a.stdout, "outrider: relaying %s to %s\n", src.DSN, cfg.to)
	}
	<-ctx.Done()
	parts.Wait()
	closing := rs.close()
	if why := context.Cause(ctx); why != ctx.Err() {
		return why
	}
	if closing == nil {
		log.Info("stopped")
	}
	return closing
}
