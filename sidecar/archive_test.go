package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// A server whose store is exported and imported into a new file goes on as if nothing had happened: any sequence of
// verbs and of time leads where the documents say, with moves between them.
func TestMovedStoresFollowTheModel(t *testing.T) {
	chooseSequences(t, 60, 8)
	dir := t.TempDir()
	var serial atomic.Int64
	playSequences(t, func(_ *testing.T, r *rapid.T, _ *sqlitestore.Store) {
		path := func() string { return filepath.Join(dir, fmt.Sprint(serial.Add(1), ".db")) }
		from := path()
		at, err := sqlitestore.Open(context.Background(), from, sqlitestore.Options{})
		if err != nil {
			r.Fatal(err)
		}
		x := &machine{now: genesis, disk: at}
		x.restart(r)
		move := func(r *rapid.T) {
			if err := at.Close(); err != nil {
				r.Fatal(err)
			}
			to := path()
			if at, err = moveStore(from, to); err != nil {
				r.Fatal(err)
			}
			from, x.disk = to, at
			x.restart(r)
		}
		defer func() {
			if at != nil {
				_ = at.Close()
			}
		}()
		r.Repeat(map[string]func(*rapid.T){
			"": x.check, "push": x.push, "fetch": x.fetch, "ack": x.ack, "fail": x.failJob, "requeue": x.requeue,
			"beat": x.beat, "cancel": x.cancel, "activate": x.activate, "revive": x.revive, "retry": x.retry, "delete": x.remove,
			"time": x.pass, "fetch again": x.fetch, "more time": x.pass, "move": move,
		})
		storetest.Audit(r, at)
	})
}

// moveStore exports a store and imports it into a new file, which must export the same lines, and opens that.
func moveStore(from, to string) (*sqlitestore.Store, error) {
	ctx := context.Background()
	var first, second bytes.Buffer
	o := sqlitestore.ExportOptions{Webhooks: true, Now: genesis}
	if _, err := sqlitestore.Export(ctx, from, &first, o); err != nil {
		return nil, err
	}
	if _, err := sqlitestore.Import(ctx, to, bytes.NewReader(first.Bytes()), sqlitestore.ImportOptions{}); err != nil {
		return nil, err
	}
	if _, err := sqlitestore.Verify(ctx, to); err != nil {
		return nil, err
	}
	if _, err := sqlitestore.Export(ctx, to, &second, o); err != nil {
		return nil, err
	}
	if err := sameLines(first.Bytes(), second.Bytes()); err != nil {
		return nil, err
	}
	return sqlitestore.Open(ctx, to, sqlitestore.Options{})
}

// sameLines compares two archives but for their first lines, which say when and of which store they are.
func sameLines(first, second []byte) error {
	a, b := bytes.Split(first, []byte("\n")), bytes.Split(second, []byte("\n"))
	for i := 1; i < max(len(a), len(b)); i++ {
		switch {
		case i >= len(a) || i >= len(b):
			return fmt.Errorf("the one has %d lines and the other %d", len(a), len(b))
		case !bytes.Equal(a[i], b[i]):
			return fmt.Errorf("line %d was\n%s\nand became\n%s", i+1, a[i], b[i])
		}
	}
	return nil
}
