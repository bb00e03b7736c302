package outbox_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// latin1World is an outbox in a database of PostgreSQL that keeps 256 characters.
func latin1World(t *testing.T) *world {
	t.Helper()
	w := postgresWorld(t)
	name := "outrider_latin1_" + strings.ToLower(rand.Text())
	w.exec("CREATE DATABASE " + name + " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	admin := w.app
	t.Cleanup(func() { _, _ = admin.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(w.path)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/"+name, "client_encoding=UTF8"
	w.path = u.String()
	w.app, w.relayDB = openPGX(t, w.path), openPGX(t, w.path)
	w.init()
	return w
}

// TestTicksThatADatabaseInLatin1CannotKeep are written in escapes: they come as
// they were meant, and stop no others.
func TestTicksThatADatabaseInLatin1CannotKeep(t *testing.T) {
	for kind, w := range map[string]*world{"LATIN1": latin1World(t), "UTF8": postgresWorld(t)} {
		t.Run(kind, func(t *testing.T) {
			all := []job.Tick{tick("plain", minute(0), job.OverlapSkip)}
			for name, text := range map[string]string{"euro": "€", "far": "😀𐀀\U0010ffff", "near": "ü\u007f\u0080\uffff", "escaped": `\u20ac\\u20ac\"é`} {
				args, meta := tick(name, minute(0), job.OverlapSkip), tick(name+"-meta", minute(0), job.OverlapSkip)
				asking(&args, func(e *job.Envelope) { e.Args = json.RawMessage(`["` + text + `",{"` + text + `":"` + text + `"}]`) })
				asking(&meta, func(e *job.Envelope) { e.Meta = json.RawMessage(`{"` + text + `":"` + text + `"}`) })
				all = append(all, args, meta)
			}
			ticks := outbox.NewTicks(w.relayDB, w.d)
			fire(t, ticks, nil, "", all...)
			fire(t, ticks, nil, "", all...) // its own, told once more
			w.drain(w.relay(outbox.RelayOptions{}))
			if got := len(w.server.order); got != len(all) {
				t.Fatalf("%d jobs, want %d", got, len(all))
			}
			for _, a := range all {
				j, e := w.server.jobs[a.Envelope.ID()], a.Envelope.Envelope()
				same(t, a.Name, j.Args, e.Args)
				same(t, a.Name, j.Meta, e.Meta)
			}
		})
	}
}

// same compares JSON by its value.
func same(t *testing.T, what string, got, want json.RawMessage) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}
