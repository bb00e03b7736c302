//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mysqloutbox "github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/outbox"
)

// The tests of chaos run the program as processes of its own against databases
// of the user's, kill them, and compare what the app has committed with what the
// job server has. They assert what is true at the end and never how long it
// took; figures are logged. OUTRIDER_CHAOS_ROWS makes them as large as one likes.

// chaosRows is how many rows a test is to have.
func chaosRows(t *testing.T, standard int) int {
	t.Helper()
	v := os.Getenv("OUTRIDER_CHAOS_ROWS")
	if v == "" && raced {
		return max(standard/10, min(standard/4, 500))
	}
	if v == "" {
		return standard
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("OUTRIDER_CHAOS_ROWS: %q is no number of rows", v)
	}
	return n
}

// chaosSeed is what a test draws its orders and faults from: OUTRIDER_CHAOS_SEED
// draws those of another run again.
func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	v := os.Getenv("OUTRIDER_CHAOS_SEED")
	if v == "" {
		return mathrand.Uint64()
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("OUTRIDER_CHAOS_SEED: %q is no seed", v)
	}
	return n
}

// chaosShop is an app's database with orders and an outbox.
type chaosShop struct {
	t   *testing.T
	d   outbox.Dialect
	dsn string  // as outrider is told
	app *sql.DB // as an app opens it
}

// onShops runs a test on a shop of each database.
func onShops(t *testing.T, test func(t *testing.T, s *chaosShop)) {
	for _, name := range []string{"postgres", "mysql", "sqlite"} {
		t.Run(name, func(t *testing.T) { test(t, newShop(t, name)) })
	}
}

// onShopsAtOnce is onShops for tests that mostly wait, unless they are large: they
// run beside each other.
func onShopsAtOnce(t *testing.T, test func(t *testing.T, s *chaosShop)) {
	if os.Getenv("OUTRIDER_CHAOS_ROWS") == "" {
		t.Parallel()
	}
	onShops(t, func(t *testing.T, s *chaosShop) {
		if os.Getenv("OUTRIDER_CHAOS_ROWS") == "" {
			t.Parallel()
		}
		test(t, s)
	})
}

// newShop makes a shop that is gone behind the test.
func newShop(t *testing.T, database string) *chaosShop {
	t.Helper()
	s := &chaosShop{t: t}
	switch database {
	case "postgres":
		s.inPostgres()
	case "mysql":
		s.inMySQL()
	default:
		s.inSQLite(filepath.Join(t.TempDir(), "shop.db"))
	}
	s.app.SetMaxOpenConns(16)
	s.app.SetMaxIdleConns(16)
	if err := outbox.Init(t.Context(), s.app, s.d); err != nil {
		t.Fatal(err)
	}
	s.exec(ordersTable)
	s.exec(`CREATE INDEX orders_akey ON orders (akey)`)
	return s
}

func (s *chaosShop) inPostgres() {
	s.t.Helper()
	s.dsn = testdb.Postgres(s.t).String()
	s.app = testdb.Open(s.t, "pgx", s.dsn)
	var err error
	s.d, err = postgres.Dialect("")
	s.must(err)
}

func (s *chaosShop) inMySQL() {
	s.t.Helper()
	c := testdb.MySQL(s.t)
	s.dsn = testdb.MySQLURL(c).String()
	s.app = testdb.Open(s.t, "mysql", c.FormatDSN())
	var err error
	s.d, err = mysqloutbox.Dialect("")
	s.must(err)
}

func (s *chaosShop) inSQLite(path string) {
	s.t.Helper()
	s.dsn = "sqlite:" + path
	s.app = testdb.Open(s.t, "sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	var err error
	s.d, err = sqlite.Dialect("")
	s.must(err)
}

func (s *chaosShop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *chaosShop) exec(query string) {
	s.t.Helper()
	if _, err := s.app.Exec(query); err != nil {
		s.t.Fatalf("%.200s: %v", query, err)
	}
}

func (s *chaosShop) status() outbox.Status {
	s.t.Helper()
	st, err := outbox.Inspect(context.Background(), s.app, s.d, time.Now())
	s.must(err)
	return st
}

// committed are the orders that are really there.
func (s *chaosShop) committed() (ids []int64) {
	s.t.Helper()
	rows, err := s.app.Query(`SELECT id FROM orders ORDER BY id`)
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		s.must(rows.Scan(&id))
		ids = append(ids, id)
	}
	s.must(rows.Err())
	return ids
}

const chaosOptions = `{"retry":` + chaosRetry + `}`

// placeOrders writes orders and the rows of their jobs; what an order is named says all of it.
func placeOrders(tx *sql.Tx, ids ...int64) error {
	orders, rows := make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		orders[i] = fmt.Sprintf("(%d,'ada-%[1]d@example.com')", id)
		rows[i] = fmt.Sprintf("('order.confirm','[%d]','%s')", id, chaosOptions)
	}
	if _, err := tx.Exec(`INSERT INTO orders (id, email) VALUES ` + strings.Join(orders, ",")); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ` + strings.Join(rows, ","))
	return err
}

// load is an app under load: writers that place orders until so many have
// committed. Each waits at random before its commits and takes back one
// transaction in ten.
type load struct {
	shop   *chaosShop
	target int64
	size   int           // orders of a transaction, on average
	delay  time.Duration // the longest a transaction stays open
	seed   uint64
	kinds  []*keyKind // of the orders that share a key

	alone      sync.Mutex // SQLite has one writer, and the app knows that
	next       atomic.Int64
	committed  atomic.Int64
	rolledBack atomic.Int64
	commits    atomic.Int64

	mu     sync.Mutex // guards what is below
	errors []error    // that the app has seen
}

const chaosWriters = 8

// run writes until the target is reached or ctx ends.
func (l *load) run(ctx context.Context) {
	var writers sync.WaitGroup
	for i := range chaosWriters {
		d := &drawer{r: mathrand.New(mathrand.NewPCG(l.seed, uint64(i))), name: fmt.Sprintf("k%d", i), kinds: l.kinds}
		writers.Go(func() {
			for ctx.Err() == nil && l.committed.Load() < l.target {
				if err := l.transaction(d); err != nil {
					l.mu.Lock()
					l.errors = append(l.errors, err)
					l.mu.Unlock()
				}
			}
		})
	}
	writers.Wait()
}

// transaction is one of the app's. Its rows come in several statements with
// pauses, so that the ids of many transactions lie among each other.
func (l *load) transaction(d *drawer) error {
	n := 1 + d.r.IntN(2*l.size)
	back := d.r.IntN(10) == 0
	native := d.r.IntN(2) == 0
	delay := time.Duration(d.r.Int64N(int64(l.delay) + 1))
	if l.shop.d.Name() == "sqlite" {
		// While it is open nobody else writes, the relay neither: an app of
		// SQLite makes its mind up before it begins.
		time.Sleep(delay * 19 / 20)
		delay /= 20
		l.alone.Lock()
		defer l.alone.Unlock()
	}
	err := l.shop.transact(native, func(tx orderTx) (bool, error) {
		const parts = 4
		for from, part := 0, 0; from < n; part++ {
			to := min(n, from+max(1, (n+parts-1)/parts))
			orders := make([]*placed, 0, to-from)
			for range to - from {
				orders = append(orders, d.draw(l.next.Add(1)))
			}
			if err := placeMixed(tx, orders); err != nil {
				return false, fmt.Errorf("place orders: %w", err)
			}
			time.Sleep(delay / parts)
			from = to
		}
		return !back, nil
	})
	switch {
	case err != nil:
		return err
	case back:
		l.rolledBack.Add(int64(n))
	default:
		l.commits.Add(1)
		l.committed.Add(int64(n))
	}
	return nil
}

// keeper keeps one process of the program running, as a supervisor would.
type keeper struct {
	t    *testing.T
	name string
	args []string
	log  string // file with all it says

	cmd   *exec.Cmd
	ended chan struct{}
	meant atomic.Bool // its end is ours
	kills int
	hwm   int64 // kB, the most memory that any of its lives had
}

// keep starts the program; it is gone when the test ends.
func keep(t *testing.T, name string, args ...string) *keeper {
	t.Helper()
	k := &keeper{t: t, name: name, args: args, log: filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-")+".log")}
	k.start()
	t.Cleanup(func() {
		k.kill()
		if t.Failed() {
			t.Logf("the last words of the %s:\n%s", name, k.words(40))
		}
	})
	return k
}

func (k *keeper) start() {
	k.t.Helper()
	log, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(os.Args[0], k.args...)
	cmd.Env = append(bare(), asProgram, "OUTRIDER_SHUTDOWN_GRACE=2s")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan struct{})
	k.cmd, k.ended = cmd, ended
	k.meant.Store(false)
	go func() {
		defer close(ended)
		if err := cmd.Wait(); !k.meant.Load() {
			k.t.Errorf("the %s ended by itself: %v\n%s", k.name, err, k.words(20))
		}
	}()
}

// kill is kill -9.
func (k *keeper) kill() {
	k.look()
	k.meant.Store(true)
	_ = k.cmd.Process.Kill() // it may have ended
	<-k.ended
}

// crash kills the process, does what happens meanwhile, and starts it again.
func (k *keeper) crash(meanwhile func()) {
	k.t.Helper()
	k.kill()
	k.kills++
	if meanwhile != nil {
		meanwhile()
	}
	k.start()
}

// stop asks the process to end, and waits.
func (k *keeper) stop() {
	k.t.Helper()
	k.look()
	k.meant.Store(true)
	_ = k.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-k.ended:
	case <-time.After(time.Minute):
		k.t.Errorf("the %s does not stop:\n%s", k.name, k.words(20))
		k.kill()
	}
}

// look notes how much memory the process has had; nothing without a /proc.
func (k *keeper) look() {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.cmd.Process.Pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseInt(f[1], 10, 64) // no number: 0
			k.hwm = max(k.hwm, n)
		}
	}
}

// cpu is the time that the process has worked; nothing without a /proc.
func (k *keeper) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11]) // no number: 0
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// words are the last lines of the log.
func (k *keeper) words(n int) string {
	b, err := os.ReadFile(k.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// said counts the lines of the log that hold a text.
func (k *keeper) said(text string) int {
	b, err := os.ReadFile(k.log)
	if err != nil {
		return 0
	}
	return bytes.Count(b, []byte(text))
}

var (
	firstPort = mathrand.Uint32N(10_000)
	ports     atomic.Uint32 // that were given out
)

// freePort is one that no outgoing connection takes while its server is dead,
// and no other test.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+(firstPort+ports.Add(1))%10_000)
		if ln, err := net.Listen("tcp", addr); err == nil {
			_ = ln.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// up waits until a server answers.
func up(t *testing.T, k *keeper, url string) {
	t.Helper()
	c, err := client.New(url, client.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 600 {
		if _, err := c.Health(t.Context()); err == nil {
			return
		}
		select {
		case <-k.ended:
			t.Fatalf("the %s has ended:\n%s", k.name, k.words(20))
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("the %s does not answer:\n%s", k.name, k.words(20))
}

// settles waits until left is 0. It gives up when left has not fallen for longer
// than any lease, and returns what is left then.
func settles(left func() int64) int64 {
	least, since := left(), time.Now()
	for least > 0 && time.Since(since) < 45*time.Second {
		time.Sleep(50 * time.Millisecond)
		if n := left(); n < least {
			least, since = n, time.Now()
		}
	}
	return least
}

// some is the first of many ids, for a message.
func some(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, such as %v", len(ids), ids[:min(len(ids), 10)])
}

// percentile of times, which it sorts.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

// through is the shop's DSN with another host, made from the one it has.
func (s *chaosShop) through(other func(host string) *cutter) (string, *cutter) {
	s.t.Helper()
	u, err := url.Parse(s.dsn)
	s.must(err)
	c := other(u.Host)
	u.Host = c.addr
	if s.d.Name() == "postgres" {
		q := u.Query()
		q.Set("sslmode", "disable") // nobody could see a COMMIT
		u.RawQuery = q.Encode()
	}
	return u.String(), c
}
