package main

import (
	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var orders int
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch an app's own transactions become jobs that a worker finishes",
		Args:  noArgs,
	}
	cmd.Flags().IntVar(&orders, "orders", 8, "how many orders to place; every fourth is rolled back")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the folder with the two databases")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if orders < 4 || orders > 10_000 {
			return usage("--orders must be from 4 to 10000, got %d", orders)
		}
		return demo.Run(cmd.Context(), a.stdout, orders, keep)
	}
	return cmd
}

// demoWorkerCommand is the other process of the demo.
func (a *app) demoWorkerCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{Use: "demo-worker", Hidden: true, Args: noArgs}
	cmd.Flags().StringVar(&url, "url", "", "address of the server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return demo.Work(cmd.Context(), url, a.stdout) }
	return cmd
}
