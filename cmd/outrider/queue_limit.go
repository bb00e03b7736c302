package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) queueLimitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "limit NAME",
		SuggestFor: []string{"throttle", "rate", "concurrency"},
		Short:      "Show or set how many jobs of a queue run at once, and how many start in a time",
		Long: "Show how many jobs of a queue may run at once, and how many may start in a time; or set it. What is not named\n" +
			"stays as it is. Jobs that run already go on.",
		Example: "  outrider queue limit mail --concurrency 20 --rate 100/1m\n" +
			"  outrider queue limit mail --off",
	}
	fresh := bindFresh(cmd)
	concurrency := cmd.Flags().Int("concurrency", 0, "how many run at once, over all workers; 0 is no limit")
	rate := cmd.Flags().String("rate", "", "how many start in any such time, as in `100/1m`; off is no limit")
	off := cmd.Flags().Bool("off", false, "take both limits away")
	return a.aboutQueue(cmd, fresh, a.asks, func(ctx context.Context, q *question, was job.Queue) error {
		patch := map[string]any{}
		if cmd.Flags().Changed("concurrency") {
			if *concurrency < 0 {
				return usage("--concurrency must be 0 or more, got %d", *concurrency)
			}
			patch["concurrency"] = *concurrency
			if *concurrency == 0 {
				patch["concurrency"] = nil
			}
		}
		if *rate != "" {
			limit, err := rateOf(*rate)
			if err != nil {
				return err
			}
			patch["rate_limit"] = limit
		}
		if *off {
			if len(patch) > 0 {
				return usage("--off takes both limits away; give it alone")
			}
			patch["concurrency"], patch["rate_limit"] = nil, nil
		}
		return q.limit(ctx, was.Name, patch)
	})
}

// limit changes what patch names, and prints what holds then.
func (q *question) limit(ctx context.Context, name string, patch map[string]any) error {
	path := "/queues/" + url.PathEscape(name) + "/config"
	if len(patch) == 0 && q.format.data() {
		return q.raw(ctx, http.MethodGet, path, "")
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if q.format.data() {
		return q.show(ctx, http.MethodPatch, path, body, "", nil, nil)
	}
	var c job.QueueConfig
	if len(patch) == 0 {
		c, err = q.client.QueueConfig(ctx, name)
	} else {
		c, err = q.client.SetQueueConfig(ctx, name, body, true)
	}
	if err != nil {
		return asked(err)
	}
	_, err = fmt.Fprintf(q.out, "limits of %s: %s\n", name, limitsOf(c))
	return err
}

// rateOf reads 100/1m, 100/m or 100/minute, and off.
func rateOf(text string) (any, error) {
	if text == "off" || text == "none" {
		return nil, nil
	}
	wrong := usage("--rate %.60q: write how many in which time, as in 100/1m or 5/s, or off", text)
	many, of, two := strings.Cut(text, "/")
	n, err := strconv.Atoi(strings.TrimSpace(many))
	if !two || err != nil || n < 1 {
		return nil, wrong
	}
	of = strings.TrimSpace(of)
	for _, unit := range []string{"second", "minute", "hour", "day"} {
		if of == unit {
			of = unit[:1]
		}
	}
	if of != "" && strings.Trim(of, "0123456789.") == of {
		of = "1" + of
	}
	period, err := sift.Span(of)
	if err != nil || period < time.Millisecond {
		return nil, wrong
	}
	return map[string]any{"limit": n, "period": isoSeconds(period)}, nil
}

// isoSeconds is a length of time as ISO 8601 has it.
func isoSeconds(d time.Duration) string {
	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}
