//go:build unix

package handwork

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAGuardEndsWhatIsLeft: of the groups it was told of, those that have not ended, and
// never what is no group of a command.
func TestAGuardEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]struct{ ends, wrong bool }{
		"+PID\n":             {true, false},
		"+PID\n-PID\n":       {false, false},
		"+PID\n-PID\n+PID\n": {true, false},
		"-PID\n":             {false, false},
		"":                   {false, false},
		"+PID\n+1\n":         {true, true},
		"+PID\n+0\n":         {true, true},
		"+PID\n+-1\n":        {true, true},
		"+PID\nx\n":          {true, true},
		"+PID\n\n":           {true, true},
		"+1\n":               {false, true},
	} {
		cmd := exec.Command("/bin/sh", "-c", "sleep 300 & wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := Guard(strings.NewReader(strings.ReplaceAll(told, "PID", fmt.Sprint(cmd.Process.Pid))))
		if (err != nil) != want.wrong {
			t.Errorf("%q: %v", told, err)
		}
		gone := make(chan error, 1)
		go func() { gone <- cmd.Wait() }()
		if want.ends {
			select {
			case <-gone:
			case <-time.After(patience):
				t.Errorf("%q: the group goes on", told)
			}
			continue
		}
		select {
		case <-gone:
			t.Errorf("%q: the group was ended", told)
		case <-time.After(50 * time.Millisecond):
			endGroup(cmd.Process.Pid)
			<-gone
		}
	}
}
