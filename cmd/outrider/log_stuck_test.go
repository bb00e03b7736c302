//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// loose is a server whose output nobody looks after.
type loose struct {
	*process
	client *http.Client
}

// startLoose starts the server with the given outputs; nil is one that is read.
func startLoose(t *testing.T, stdout, stderr *os.File, args ...string) *loose {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "o.sock")
	p := &process{exec.Command(os.Args[0], append([]string{"serve", "--listen", "unix://" + socket, "--db", tempDB(t)}, args...)...), newLines(), newLines()}
	p.Env = append(os.Environ(), asProgram)
	p.Stdout, p.Stderr = p.stdout, p.stderr
	if stdout != nil {
		p.Stdout = stdout
	}
	if stderr != nil {
		p.Stderr = stderr
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	s := &loose{p, overSocket(socket)}
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
		if resp, err := s.client.Get("http://localhost/ojs/v1/health"); err == nil {
			resp.Body.Close()
			s.says(t, 201, "POST", pathPush, duplicate)
			return s
		}
	}
	t.Fatal("the server never answered")
	return nil
}

// says sends a request and wants an answer with the status, soon.
func (s *loose) says(t *testing.T, status int, method, path, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s is not answered: %v", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		t.Fatalf("%s %s: got %d %s (%v)", method, path, resp.StatusCode, answer, err)
	}
	return string(answer)
}

// duplicate is a job that is stored once; each other time it is a line of the log at debug.
const duplicate = `{"type":"a.b","queue":"other","args":[1],"options":{"unique":{"keys":["type"],"on_conflict":"ignore"}}}`

// chatter makes the server log n lines at debug.
func (s *loose) chatter(t *testing.T, n int) {
	t.Helper()
	const batch = 100
	for n > 0 {
		k := min(n, batch)
		s.says(t, 201, "POST", pathPush+"/batch", `{"jobs":[`+strings.Repeat(duplicate+",", k-1)+duplicate+`]}`)
		n -= k
	}
}

// works sends the server each kind of request once.
func (s *loose) works(t *testing.T) {
	t.Helper()
	s.says(t, 201, "POST", pathPush, `{"type":"a.c","args":[]}`)
	s.says(t, 200, "POST", pathPush, duplicate)
	claims, err := appendClaims(nil, []byte(s.says(t, 200, "POST", pathFetch, `{"queues":["default"]}`)))
	if err != nil || len(claims) != 1 {
		t.Fatalf("fetch: %v, %v", claims, err)
	}
	s.says(t, 200, "POST", pathAck, fmt.Sprintf(`{"job_id":%q,"lease_token":%q}`, claims[0].id, claims[0].token))
	s.says(t, 200, "GET", "/ojs/v1/health", "")
}

// stops ends the server and wants exit code 0.
func (s *loose) stops(t *testing.T) {
	t.Helper()
	s.signal(t)
	if code := s.end(t, 20*time.Second); code != exitOK {
		t.Errorf("got exit %d, want 0", code)
	}
}

// fullPipe is a pipe that is full, and its end that nobody reads.
func fullPipe(t *testing.T) (w, r *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	for size := 4096; size > 0; size /= 2 {
		for {
			if _, err := syscall.Write(fds[1], []byte(strings.Repeat("\n", size))); err != nil {
				break
			}
		}
	}
	if err := syscall.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	w, r = os.NewFile(uintptr(fds[1]), "full pipe"), os.NewFile(uintptr(fds[0]), "full pipe")
	t.Cleanup(func() { w.Close(); r.Close() })
	return w, r
}

// pipe is an empty pipe.
func pipe(t *testing.T) (w, r *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); r.Close() })
	return w, r
}

// TestALogThatNobodyReadsStopsNothing: a full pipe holds up no request and no stop.
func TestALogThatNobodyReadsStopsNothing(t *testing.T) {
	for _, level := range []string{"debug", "info"} {
		for name, make := range map[string]func(*testing.T) (w, r *os.File){"it fills": pipe, "it was full": fullPipe} {
			t.Run(level+", "+name, func(t *testing.T) {
				w, _ := make(t)
				s := startLoose(t, nil, w, "--log-level", level, "--db", filepath.Join(t.TempDir(), strings.Repeat("long", 40)))
				for range 2 {
					s.chatter(t, 200)
					s.works(t)
				}
				s.stops(t)
			})
		}
	}
}

// TestWhatIsPrintedIsAwaitedByNobody: the line which says where the server listens
// may find nobody who reads it, or nobody any more.
func TestWhatIsPrintedIsAwaitedByNobody(t *testing.T) {
	full, _ := fullPipe(t)
	gone, r := pipe(t)
	r.Close()
	disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("skipped: no /dev/full here")
	}
	defer disk.Close()
	for name, w := range map[string]*os.File{"full": full, "gone": gone, "a full disk": disk} {
		t.Run(name, func(t *testing.T) {
			s := startLoose(t, w, nil)
			s.works(t)
			s.stops(t)
			if told := strings.Contains(s.stderr.rest(), "output cannot be written"); told != (name != "full") {
				t.Errorf("told: %v", told)
			}
		})
	}
}

// TestALogWhoseReaderHasGone: a closed pipe and a full disk end nothing, and
// the exit code is that of the server.
func TestALogWhoseReaderHasGone(t *testing.T) {
	t.Run("a pipe", func(t *testing.T) {
		w, r := pipe(t)
		s := startLoose(t, nil, w, "--log-level", "debug")
		s.works(t)
		r.Close()
		w.Close()
		for range 3 {
			s.chatter(t, 150)
			s.works(t)
		}
		s.stops(t)
	})
	t.Run("a full disk", func(t *testing.T) {
		disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("skipped: no /dev/full here")
		}
		defer disk.Close()
		s := startLoose(t, disk, disk, "--log-level", "debug")
		s.chatter(t, 150)
		s.works(t)
		s.stops(t)
	})
}

// droppedIn adds up what a log says was dropped.
func droppedIn(log string) (lines, told int) {
	for _, m := range regexp.MustCompile(`"?msg"?[=:]"log lines were dropped because nobody read the log",? ?"?lines"?[=:](\d+)`).FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(m[1])
		lines, told = lines+n, told+1
	}
	return lines, told
}

// TestDroppedLinesAreCounted: who reads the log again hears how much is missing,
// in the log's own format, and reads what came before and after in one piece.
func TestDroppedLinesAreCounted(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			w, r := pipe(t)
			s := startLoose(t, nil, w, "--log-level", "debug", "--log-format", format)
			w.Close()
			const chatter = 5500
			s.chatter(t, chatter)
			var log strings.Builder
			read := make(chan error, 1)
			go func() {
				_, err := io.Copy(&log, r)
				read <- err
			}()
			time.Sleep(500 * time.Millisecond) // so that some of what follows is logged again
			s.works(t)
			s.stops(t)
			if err := <-read; err != nil {
				t.Fatal(err)
			}
			whole := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
			kept := 0
			for _, line := range whole {
				switch {
				case format == "json" && !strings.HasPrefix(line, `{"time":`) || format == "json" && !strings.HasSuffix(line, "}"),
					format == "text" && !strings.HasPrefix(line, "time="):
					t.Fatalf("no whole line: %.300s", line)
				case strings.Contains(line, "msg=unique") || strings.Contains(line, `"msg":"unique"`):
					kept++
				}
			}
			dropped, told := droppedIn(log.String())
			if told != 1 || dropped == 0 || kept == 0 || kept+dropped != chatter+1 {
				t.Errorf("kept %d, dropped %d as told %d times, of %d", kept, dropped, told, chatter+1)
			}
			if last := whole[len(whole)-1]; !strings.Contains(last, "stopped") {
				t.Errorf("the last line is %s", last)
			}
		})
	}
}

// TestASecondSignalDoesNotWaitForTheLog: it ends a server at once that still
// waits for a worker, also if what it says finds nobody.
func TestASecondSignalDoesNotWaitForTheLog(t *testing.T) {
	w, _ := fullPipe(t)
	s := startLoose(t, nil, w)
	s.says(t, 201, "POST", pathPush, `{"type":"a.b","args":[]}`)
	s.says(t, 200, "POST", pathFetch, `{"queues":["default"]}`)
	s.signal(t)
	s.says(t, 200, "POST", pathFetch, `{"queues":["default"],"block_ms":15000}`) // answered when the first signal is taken
	s.signal(t)
	if code := s.end(t, 10*time.Second); code != exitInterrupted {
		t.Errorf("got exit %d, want %d", code, exitInterrupted)
	}
}

// TestTheLastWordIsWaitedFor: an error that ends the server is read by who reads
// late, and is not waited for where nobody does.
func TestTheLastWordIsWaitedFor(t *testing.T) {
	taken := tempDB(t)
	inProcess(t, "--listen", "127.0.0.1:0", "--db", taken)
	for _, reads := range []bool{true, false} {
		w, r := fullPipe(t)
		cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "--db", taken)
		cmd.Env, cmd.Stderr = append(os.Environ(), asProgram), w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		var log strings.Builder
		read := make(chan error, 1)
		if reads {
			time.AfterFunc(300*time.Millisecond, func() {
				_, err := io.Copy(&log, r)
				read <- err
			})
		} else {
			read <- nil
		}
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !kill.Stop() {
			t.Fatal("it never ended")
		}
		if err := <-read; err != nil || reads && !strings.Contains(log.String(), "error: "+taken+" is in use") {
			t.Errorf("got %q, %v", log.String(), err)
		}
		r.Close()
	}
}

// TestARelayDoesNotWaitForItsLog: it is a server, too.
func TestARelayDoesNotWaitForItsLog(t *testing.T) {
	db := sqliteDB(t)
	db.init(t)
	out, _ := fullPipe(t)
	w, _ := fullPipe(t)
	cmd := exec.Command(os.Args[0], "relay", "--outbox", db.dsn, "--to", "http://127.0.0.1:9", "--log-level", "debug")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram), out, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	time.Sleep(500 * time.Millisecond)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if !kill.Stop() || cmd.ProcessState.ExitCode() != exitOK {
		t.Errorf("got %v", cmd.ProcessState)
	}
}
