package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch an app's own transactions become jobs that a worker finishes",
		Long: "Places orders in transactions of a small shop, each with its row in the outbox, has a server and a worker\n" +
			"of its own make and do their jobs, and compares at the end what was committed with what was done.\n\n" +
			"With --keep the shop then stays open: new orders, payments that fail, e-mails, workflows, schedules, on\n" +
			"127.0.0.1:8080 where that port is free. Ctrl-C ends it all, and removes its folder.",
		Args: noArgs,
	}
	cmd.Flags().IntVar(&o.Orders, "orders", 8, "how many orders to place; every fourth is rolled back")
	cmd.Flags().BoolVar(&o.Stay, "keep", false, "keep the server and a living shop until Ctrl-C")
	cmd.Flags().BoolVar(&o.Files, "keep-files", false, "keep the folder with the two databases")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Orders < 4 || o.Orders > 10_000 {
			return usage("--orders must be from 4 to 10000, got %d", o.Orders)
		}
		ctx := cmd.Context()
		if o.Stay && !signal.Ignored(syscall.SIGHUP) {
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
			defer stop()
		}
		return demo.Run(ctx, a.stdout, o)
	}
	return cmd
}

// demoWorkerCommand is the other process of the demo.
func (a *app) demoWorkerCommand() *cobra.Command {
	var url string
	var shop bool
	cmd := &cobra.Command{Use: "demo-worker", Hidden: true, Args: noArgs}
	cmd.Flags().StringVar(&url, "url", "", "address of the server")
	cmd.Flags().BoolVar(&shop, "shop", false, "do all the jobs of the living shop")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return demo.Work(cmd.Context(), url, shop, a.stdout) }
	return cmd
}
