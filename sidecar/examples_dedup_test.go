package sidecar_test

import "testing"

// What asyncmq-deduplication.md and contract §4.11 say of deduplication.

// asyncmq-deduplication.md: its three calls, and every sentence about them.
func TestDedupExamples(t *testing.T) { t.Parallel(); playFile(t, "dedup/examples.txt") }

// contract §2.6: what are no options is refused with the name of the field, and leaves nothing.
func TestDedupOptionsByRule(t *testing.T) { t.Parallel(); playFile(t, "dedup/options.txt") }

// contract §4.11, asyncmq-deduplication.md: what its retention leaves of a custom
// id, and of a window.
func TestDedupWindowAndRetention(t *testing.T) { t.Parallel(); playFile(t, "dedup/retention.txt") }
