package job

import (
	"errors"
	"fmt"
	"testing"
)

func TestOutsideLeavesForeignCausesOut(t *testing.T) {
	t.Parallel()
	sqlite := errors.New("disk I/O error: /var/lib/secret.db (10)")
	busy := Errorf(Unavailable, "write: the disk failed; nothing of this call was acknowledged: %w", sqlite)
	named := &Error{Kind: Unavailable, Message: "/var/lib/secret.db was removed; put it back", Public: "the database was removed; put it back"}
	for name, tt := range map[string]struct {
		err  *Error
		want string
	}{
		"without a cause":       {Errorf(Unavailable, "the store is closed"), "the store is closed"},
		"at its end":            {busy, "write: the disk failed; nothing of this call was acknowledged"},
		"in its middle":         {Errorf(Unavailable, "a row cannot be read: %w, and whoever runs this is told", sqlite), "a row cannot be read, and whoever runs this is told"},
		"wrapped before":        {Errorf(Unavailable, "open: %w", fmt.Errorf("once more: %w", sqlite)), "open"},
		"one of its own":        {Errorf(Unavailable, "jobs[3]: %w", busy), "jobs[3]: write: the disk failed; nothing of this call was acknowledged"},
		"one with another text": {Errorf(Unavailable, "it is not known if this was kept: %w", named), "it is not known if this was kept: the database was removed; put it back"},
		"nothing else":          {&Error{Kind: Unavailable, Message: sqlite.Error(), Err: sqlite}, "the server cannot answer this now; its log says why"},
		"a text that says all":  {&Error{Kind: Unavailable, Message: busy.Error(), Err: busy}, "write: the disk failed; nothing of this call was acknowledged"},
	} {
		if got := tt.err.Outside(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
