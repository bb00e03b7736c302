//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestADamagedLog: after a kill -9 and one flipped bit the server does not start
// with less than it has acknowledged. It says what is wrong and what to do, with
// an exit code of its own, and changes nothing; told to go on, it keeps copies.
func TestADamagedLog(t *testing.T) {
	t.Parallel()
	db, addr := filepath.Join(t.TempDir(), "jobs.db"), freePort(t)
	url := "http://" + addr
	args := []string{"serve", "--listen", addr, "--db", db}
	k := keep(t, "server", args...)
	up(t, k, url)
	const jobs = 20
	var ids []string
	for i := range jobs {
		id := fmt.Sprintf("01900000-0000-7000-8000-%012d", i)
		if code, body := ask(t, http.DefaultClient, "POST", url+"/ojs/v1/jobs", fmt.Sprintf(`{"id":%q,"type":"a.b","args":[]}`, id)); code != 201 {
			t.Fatal(code, body)
		}
		ids = append(ids, id)
	}
	k.kill()
	log, err := os.ReadFile(db + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	log[len(log)/2] ^= 4
	if err := os.WriteFile(db+"-wal", log, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(bare(), asProgram)
	started := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	out, _ := cmd.CombinedOutput()
	started.Stop()
	if code := cmd.ProcessState.ExitCode(); code != exitDamage {
		t.Errorf("the exit code is %d, want %d:\n%s", code, exitDamage, out)
	}
	for _, want := range []string{db + "-wal is damaged at byte ", "acknowledged", db + "-shm", "backup", "--accept-damage"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%q is not in what it says:\n%s", want, out)
		}
	}
	if now, err := os.ReadFile(db + "-wal"); err != nil || !bytes.Equal(now, log) {
		t.Errorf("the log was changed, %v", err)
	}
	k.args = append(args, "--accept-damage")
	k.start()
	up(t, k, url)
	there := 0
	for _, id := range ids {
		if code, _ := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/jobs/"+id, ""); code == 200 {
			there++
		}
	}
	if there == 0 || there == jobs {
		t.Errorf("of %d jobs are %d there; half of the log was good", jobs, there)
	}
	if words := k.words(40); !strings.Contains(words, "level=WARN") || !strings.Contains(words, "damaged at byte") {
		t.Errorf("what was lost is not told:\n%s", words)
	}
	copies, err := filepath.Glob(db + ".damaged-*-wal")
	if err != nil || len(copies) != 1 {
		t.Fatal(copies, err)
	}
	if kept, err := os.ReadFile(copies[0]); err != nil || !bytes.Equal(kept, log) {
		t.Errorf("the copy is not the damaged log, %v", err)
	}
	k.kill()
	k.args = args
	k.start()
	up(t, k, url)
	eventually(t, "the health tells of the check", time.Minute, func() bool {
		_, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/health", "")
		return strings.Contains(body, `"check":"passed"`)
	})
}
