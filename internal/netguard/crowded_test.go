package netguard

import (
	"context"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts warnings, and what is below them.
type counted struct{ warnings, infos atomic.Int64 }

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }
func (c *counted) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counted) WithGroup(string) slog.Handler            { return c }
func (c *counted) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.warnings.Add(1)
	} else {
		c.infos.Add(1)
	}
	return nil
}

// Each time it is told once when it begins and once when it is over, and not
// while it lasts.
func TestEachCrowdIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log counted
		c := &fileLimit{log: slog.New(&log)}
		told := func(began, over int64) {
			t.Helper()
			if b, o := log.warnings.Load(), log.infos.Load(); b != began || o != over {
				t.Fatalf("the log tells %d times of a crowd and %d times of its end, want %d and %d", b, o, began, over)
			}
		}
		for n := range int64(3) {
			for range 10 {
				c.report(syscall.EMFILE)
				time.Sleep(crowdedFor / 2)
			}
			told(n+1, n)
			time.Sleep(2 * crowdedFor)
			told(n+1, n+1)
		}
	})
}
