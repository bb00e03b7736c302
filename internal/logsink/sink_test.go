package logsink

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var errFull = errors.New("no space left on device")

// reader is the far end of a log: it takes, stands still or refuses.
type reader struct {
	mu    sync.Mutex
	still chan struct{} // what is written waits for it
	err   error
	part  int // how much of a write that fails is taken
	took  bytes.Buffer
	each  []int // the length of each write
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	still := r.still
	r.mu.Unlock()
	if still != nil {
		<-still
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		n := min(r.part, len(p)-1)
		for n > 0 && p[n-1] == ';' {
			n-- // a line that lacks no more than its end would look whole
		}
		r.took.Write(p[:n])
		return n, r.err
	}
	r.each = append(r.each, len(p))
	return r.took.Write(p)
}

// halt makes the reader stand still, until go on is called.
func (r *reader) halt() (goOn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	still := make(chan struct{})
	r.still = still
	return func() {
		r.mu.Lock()
		r.still = nil
		r.mu.Unlock()
		close(still)
	}
}

// refuse makes the reader refuse what is written, with nil no more.
func (r *reader) refuse(err error, part int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.part = err, part
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.took.String()
}

func note(n int, err error) []byte { return fmt.Appendf(nil, "-%d %v;\n", n, err) }

func send(s *Sink, text string) { _, _ = s.Write([]byte(text)) }

func TestWhatIsWrittenComesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		s := New(r, Options{Note: note})
		var want strings.Builder
		for i := range 1000 {
			line := fmt.Sprintf("line %d\n", i)
			if i%3 == 0 {
				_, _ = s.Important().Write([]byte(line))
			} else {
				send(s, line)
			}
			want.WriteString(line)
		}
		if !s.Flush(time.Second) || r.text() != want.String() {
			t.Errorf("got %.100q", r.text())
		}
		s.Close(time.Second)
		s.Close(time.Second)
		send(s, "too late\n")
		if r.text() != want.String() {
			t.Error("a closed sink writes")
		}
	})
}

// TestAReaderThatStandsStill: what finds room comes, what does not is counted
// where it is missing, and what is grave is kept for longer.
func TestAReaderThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		s := New(r, Options{Limit: 80, Note: note})
		goOn := r.halt()
		send(s, "in flight\n")
		synctest.Wait()
		for i := range 8 {
			send(s, fmt.Sprintf("line %d...\n", i)) // 10 bytes, and 70 are for them
		}
		send(s, "\n")
		_, _ = s.Important().Write([]byte("grave....\n"))
		_, _ = s.Important().Write([]byte("too much.\n"))
		if s.Flush(time.Minute) {
			t.Error("flushed into a reader that stands still")
		}
		goOn()
		synctest.Wait()
		send(s, "after\n")
		synctest.Wait()
		want := "in flight\nline 0...\nline 1...\nline 2...\nline 3...\nline 4...\nline 5...\nline 6...\ngrave....\n-3 <nil>;\nafter\n"
		if r.text() != want {
			t.Errorf("got  %q\nwant %q", r.text(), want)
		}
		s.Close(time.Second)
	})
}

// TestAReaderThatRefuses: the missing lines are told when it takes something
// again, also if nothing else is to be said, and a line that broke off stands alone.
func TestAReaderThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		var failed []error
		s := New(r, Options{Note: note, Failed: func(err error) { failed = append(failed, err) }})
		for range 2 {
			r.refuse(errFull, 9)
			send(s, "first\nsecond\n")
			synctest.Wait()
			r.refuse(errFull, 0)
			send(s, "third\n")
			time.Sleep(10 * time.Second)
			r.refuse(nil, 0)
			time.Sleep(again)
			synctest.Wait()
		}
		send(s, "fourth\n")
		synctest.Wait()
		one := "first\nsec\n-2 no space left on device;\n"
		if want := one + one + "fourth\n"; r.text() != want {
			t.Errorf("got  %q\nwant %q", r.text(), want)
		}
		if len(failed) != 2 || !errors.Is(failed[0], errFull) {
			t.Errorf("told of %v", failed)
		}
		s.Close(time.Second)
	})
}

// TestAWriterThatDoesNotWait: it is asked again for the rest.
func TestAWriterThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		s := New(r, Options{Note: note})
		r.refuse(syscall.EAGAIN, 3)
		send(s, "a long line\n")
		time.Sleep(50 * time.Millisecond)
		r.refuse(nil, 0)
		if !s.Flush(time.Second) || r.text() != "a long line\n" {
			t.Errorf("got %q", r.text())
		}
		r.refuse(syscall.EAGAIN, 0)
		send(s, "never\n")
		s.Close(time.Second)
	})
}

// TestLinesStayWhole: what is written at once are whole lines, no more than a
// pipe takes in one piece.
func TestLinesStayWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		s := New(r, Options{})
		goOn := r.halt()
		line, long := strings.Repeat("x", 299)+"\n", strings.Repeat("y", 9999)+"\n"
		for range 50 {
			send(s, line)
		}
		send(s, long)
		send(s, line)
		goOn()
		synctest.Wait()
		sum := 0
		for _, n := range r.each {
			sum += n
			if n > together && n != len(long) || n%len(line) != 0 && n != len(long) {
				t.Errorf("%d bytes were written at once", n)
			}
		}
		if sum != 51*len(line)+len(long) {
			t.Errorf("%d bytes came", sum)
		}
		s.Close(time.Second)
	})
}

// TestTheRoomIsGivenBack: a flood leaves no large buffer behind.
func TestTheRoomIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		s := New(r, Options{})
		for range 3 {
			goOn := r.halt()
			for range 100 {
				send(s, strings.Repeat("x", 10_000)+"\n")
			}
			goOn()
			synctest.Wait()
		}
		send(s, "small\n")
		synctest.Wait()
		send(s, "small\n")
		synctest.Wait()
		if n := cap(s.next); n > spare {
			t.Errorf("%d bytes are kept", n)
		}
		s.Close(time.Second)
	})
}

// walk reads what came as the lines of a model, each of which is its number, and
// returns how many are accounted for.
func walk(took string) (int, error) {
	next := 0
	for line := range strings.Lines(took) {
		var n int
		if !strings.HasSuffix(line, ";\n") {
			continue // it broke off
		}
		if strings.HasPrefix(line, "-") {
			if _, err := fmt.Sscanf(line, "-%d", &n); err != nil || n < 1 {
				return 0, fmt.Errorf("%q is no note", line)
			}
			next += n
			continue
		}
		if _, err := fmt.Sscanf(line, "%d", &n); err != nil || n != next {
			return 0, fmt.Errorf("line %d came where %d was due:\n%.2000s", n, next, took)
		}
		next++
	}
	return next, nil
}

// TestSinkModel: whatever the reader does, each line comes once and in order, or
// is counted exactly where it is missing; and no write waits.
func TestSinkModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{64, 300, 5000, 20_000}).Draw(rt, "limit")
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 80).Draw(rt, "steps")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 700), 8, 8).Draw(rt, "sizes")
		part := rapid.IntRange(0, 3000).Draw(rt, "part")
		var err error
		synctest.Test(t, func(*testing.T) { err = play(limit, part, sizes, steps) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// play takes the steps and says what is wrong with what came.
func play(limit, part int, sizes, steps []int) error {
	r := &reader{}
	s := New(r, Options{Limit: limit, Note: note})
	goOn, n := func() {}, 0
	for i, step := range steps {
		switch step {
		case 0:
			goOn()
			goOn = r.halt()
		case 1:
			goOn()
			goOn = func() {}
		case 2:
			r.refuse(errFull, part)
		case 3:
			r.refuse(nil, 0)
		case 4:
			synctest.Wait()
		case 5:
			time.Sleep(again)
		default:
			began := time.Now()
			for range step {
				send(s, fmt.Sprintf("%d %s;\n", n, strings.Repeat("x", sizes[(i+n)%len(sizes)])))
				n++
			}
			if time.Since(began) > 0 {
				return errors.New("a write has waited")
			}
		}
	}
	goOn()
	r.refuse(nil, 0)
	time.Sleep(2 * again)
	if !s.Flush(time.Second) {
		return errors.New("not everything is carried")
	}
	s.Close(time.Second)
	got, err := walk(r.text())
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d lines came or were told:\n%.2000s", got, n, r.text())
	}
	return err
}

// TestManyWriters: each has its lines in order, and none waits.
func TestManyWriters(t *testing.T) {
	r := &reader{}
	s := New(r, Options{Limit: 20_000, Note: note})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			to := s.Important()
			if w%2 == 0 {
				to = s
			}
			for i := range 500 {
				fmt.Fprintf(to, "%d %d\n", w, i)
			}
		})
	}
	writers.Wait()
	s.Close(10 * time.Second)
	last, total := map[int]int{}, 0
	for line := range strings.Lines(r.text()) {
		var w, i int
		if _, err := fmt.Sscanf(line, "-%d", &i); err == nil {
			total += i
			continue
		}
		if _, err := fmt.Sscanf(line, "%d %d", &w, &i); err != nil || i < last[w] {
			t.Fatalf("%q after %d", line, last[w])
		}
		last[w] = i + 1
		total++
	}
	if total != 8*500 {
		t.Errorf("%d lines came or were told", total)
	}
}
