package client

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Explain says what a unique policy comes to; see [job.KeyService].
func (c *Client) Explain(ctx context.Context, e job.Checked) (job.Explanation, error) {
	return ask(ctx, c, post("/unique/explain", wire.PushBody(&e)), wire.ReadExplanation)
}

// HeldKeys lists the unique keys that are held; see [job.KeyService]. A page of
// more than 200 is read in several requests, so it is not a snapshot.
func (c *Client) HeldKeys(ctx context.Context, f job.Filter) (job.HeldKeys, error) {
	want := min(max(cmp.Or(f.Limit, 50), 1), maxList)
	f = job.Filter{Dedup: f.Dedup, Queue: f.Queue, Type: f.Type, States: f.States, Offset: f.Offset, Cursor: f.Cursor}
	var all job.HeldKeys
	for first := true; ; first = false {
		f.Limit = min(want-len(all.Keys), wire.PageMax)
		page, err := ask(ctx, c, get("/unique-jobs?"+wire.JobsQuery(f).Encode()), wire.ReadHeldKeys)
		if err != nil {
			return job.HeldKeys{}, err
		}
		if first {
			all.Total, all.AtLeast = page.Total, page.AtLeast
		}
		all.Keys, all.Next = append(all.Keys, page.Keys...), page.Next
		if page.Next == "" || len(page.Keys) == 0 || len(all.Keys) >= want {
			return all, nil
		}
		f.Cursor, f.Offset = page.Next, 0
	}
}

// ReleaseKey takes a unique key off its jobs; see [job.KeyService].
func (c *Client) ReleaseKey(ctx context.Context, fingerprint string) (int, error) {
	if !job.ValidKey(fingerprint) {
		return 0, nil // no job carries it, and its path would lead elsewhere
	}
	return ask(ctx, c, remove("/unique-jobs/"+fingerprint), wire.ReadReleasedKey)
}

// DedupOwner reads who holds a deduplication key; see [job.KeyService].
func (c *Client) DedupOwner(ctx context.Context, queue, id string) (*job.Job, error) {
	if queue == "" || id == "" {
		return nil, job.NoDedupOwner(queue, id)
	}
	return ask(ctx, c, get(dedupPath(queue, id)), wire.ReadDedupOwner)
}

// ReleaseDedup takes a deduplication key off its owner; see [job.KeyService].
func (c *Client) ReleaseDedup(ctx context.Context, queue, id string) (bool, error) {
	if queue == "" || id == "" {
		return false, nil
	}
	return ask(ctx, c, remove(dedupPath(queue, id)), wire.ReadReleasedDedup)
}

// dedupPath is the path of a deduplication key. Its id may be any text.
func dedupPath(queue, id string) string {
	return "/queues/" + segment(queue) + "/deduplication/" + segment(id)
}

// segment is text as one segment of a path, also where it is "." or "..", which
// would lead elsewhere (contract §3.13).
func segment(s string) string {
	switch s {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return strings.ReplaceAll(url.PathEscape(s), ":", "%3A")
}
