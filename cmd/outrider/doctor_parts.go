package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// What is worth a word.
const (
	clockSlack = 2 * time.Second // between two machines
	lagSlack   = time.Minute     // of rows that wait in an outbox
	logSlack   = 256 << 20       // bytes of the log beside the file of jobs
	lookLimit  = 5 * time.Second // for each part that has to answer
)

// server asks the server at --url how it is.
func (d *doctor) server(ctx context.Context) {
	const part = "server"
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	c, err := d.cfg.client(d.cfg.url)
	if err != nil {
		d.bad(part, err.Error(), "give the token in a file that can be read")
		return
	}
	defer c.Close()
	asked := d.clock()
	h, err := c.Health(ctx)
	if err != nil && job.KindOf(err) == job.Unavailable && h.Time.IsZero() {
		d.odd(part, fmt.Sprintf("none answers at %s", d.cfg.url), "start one with outrider serve; if it runs elsewhere, give --url")
		return
	}
	if err != nil {
		d.bad(part, err.Error(), "if it wants a token, set OJS_AUTH_TOKEN")
		return
	}
	d.reached = true
	switch {
	case !h.OK:
		d.bad(part, fmt.Sprintf("%s answers, and cannot work: %s", d.cfg.url, h.Problem), "its log says more")
	case h.Degraded:
		d.odd(part, fmt.Sprintf("%s answers, and is not as it should be: %s", d.cfg.url, h.Problem), "its log says more")
	case h.StaleNow > 0:
		d.odd(part, fmt.Sprintf("%s is well; %s silent for %v and more", d.cfg.url, count(int64(h.StaleNow), "worker is", "workers are"), h.StaleAfter), "outrider worker ls names them; their jobs go to others")
	default:
		d.well(part, "%s is well, and up for %v; %s", d.cfg.url, h.Uptime.Round(time.Second), count(int64(h.Workers), "worker", "workers"))
	}
	if name, v, err := c.Implementation(ctx); err == nil && (name != "outrider" || v != version()) {
		d.odd("version", fmt.Sprintf("the server is %s %s, and this program outrider %s", name, v, version()), "restart the server if it was upgraded; otherwise use the program that belongs to it")
	}
	if off := h.Time.Sub(asked); h.Time.IsZero() || off > -clockSlack && off < clockSlack {
		d.well("clock", "as that of the server")
	} else {
		d.odd("clock", fmt.Sprintf("this machine's and the server's are %v apart", off.Abs().Round(time.Second)), "set them by NTP: delays and schedules go by the server's")
	}
}

// address looks whether serve could listen where it is told to.
func (d *doctor) address(ctx context.Context) {
	const part = "address"
	where := d.cfg.listen
	if where.Network == "unix" {
		if _, err := os.Stat(where.Where); err == nil && !d.reached {
			d.odd(part, fmt.Sprintf("the socket %s is there, and nobody was reached", where.Where), "if a server uses it, give --url unix://"+where.Where)
			return
		}
		d.well(part, "unix://%s", where.Where)
		return
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, where.Network, where.Where)
	switch {
	case err == nil:
		_ = ln.Close() // it was only tried
		d.well(part, "%s is free", where.Where)
	case d.reached:
		d.well(part, "%s is in use, and the server answers", where.Where)
	default:
		d.bad(part, fmt.Sprintf("%s cannot be listened on: %v", where.Where, err), "end what uses it, or give another --listen")
	}
}

// store looks at the file of jobs, without going through it: db verify does.
func (d *doctor) store(ctx context.Context) {
	const part = "database"
	name := d.cfg.db
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(name); !isDir(dir) {
			d.bad(part, fmt.Sprintf("there is no folder %s for %s", dir, name), "make it, and let the user of the server write to it")
			return
		}
		d.odd(part, fmt.Sprintf("there is no %s yet", name), "outrider serve makes it; if there should be one, check --db")
		return
	case err != nil:
		d.bad(part, err.Error(), "let this user read it, or check --db")
		return
	case !st.Mode().IsRegular():
		what, other := "not a plain file", "give another --db"
		if st.IsDir() {
			what, other = "a folder", "give a file in it: --db "+filepath.Join(name, "outrider.db")
		}
		d.bad(part, fmt.Sprintf("%s is %s", name, what), other)
		return
	case st.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		d.odd(part, fmt.Sprintf("other users of this machine may read %s (mode %04o)", name, st.Mode().Perm()), "chmod 600 "+name)
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	f, err := sqlitestore.Look(ctx, name)
	if err != nil {
		d.bad(part, err.Error(), "if it is the right file, outrider db verify "+name+" looks at all of it")
		return
	}
	if f.Held && !d.reached {
		d.odd(part, fmt.Sprintf("a server %s has %s, and none answers at %s", processOf(f), name, d.cfg.url), "give the address where it listens: --url")
	}
	d.well(part, "%s: %s, %s, schema %d", name, jobCount(f.Jobs), megabytes(f.Bytes), f.Schema)
	if f.Log > logSlack {
		d.odd("log", fmt.Sprintf("%s-wal has %s: something reads an old state of the file, or the disk is slow", name, megabytes(f.Log)), "end backups and tools that have the file open; outrider db stats shows it again")
	}
	switch free := int64(f.Disk); {
	case f.Disk == 0: // it is not known
	case free < f.Bytes/2+f.Log || free < 128<<20:
		d.bad("disk", fmt.Sprintf("%s are free beside %s, which has %s", megabytes(free), name, megabytes(f.Bytes)), "make room: a server whose disk is full takes no more jobs")
	default:
		d.well("disk", "%s are free", megabytes(free))
	}
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// limits looks at what this machine allows a server that is started here.
func (d *doctor) limits(context.Context) {
	files := netguard.FilesAllowed()
	switch need := d.cfg.connections + 64; {
	case files == 0: // it is not known
	case files < need:
		d.odd("limits", fmt.Sprintf("a process may open %d files, and --max-connections %d wants %d", files, d.cfg.connections, need), "raise it (ulimit -n, LimitNOFILE=), or lower --max-connections")
	default:
		d.well("limits", "a process may open %d files", files)
	}
}

// outbox looks at one outbox of an app.
func (d *doctor) outbox(ctx context.Context, dsn appdb.DSN) {
	const part = "outbox"
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	src, err := openSource(ctx, dsn, d.cfg.table, false)
	if err != nil {
		d.bad(part, err.Error(), "check the address; outrider outbox init makes the tables")
		return
	}
	defer src.DB.Close()
	if err := src.Check(ctx, d.cfg.cronWith == withOutbox); err != nil {
		do := "do what it says; outrider outbox check looks again"
		if job.KindOf(err) == job.Unavailable {
			do = "see whether the database runs, and whether this machine, user and password may use it"
		}
		d.bad(part, err.Error(), do)
		return
	}
	is, err := outbox.Inspect(ctx, src.DB, src.Dialect, time.Now())
	if err != nil {
		d.bad(part, err.Error(), "outrider outbox status asks again")
		return
	}
	switch {
	case len(is.Strays) > 0:
		d.bad(part, fmt.Sprintf("%s: rows with a status that no relay knows", dsn), "outrider outbox status names them")
	case is.Lag > lagSlack && len(is.Relays) == 0:
		d.bad(part, fmt.Sprintf("%s: %s, and no relay was there for a day", dsn, waits(is)), "start outrider serve or relay with this --outbox")
	case is.Lag > lagSlack:
		d.odd(part, fmt.Sprintf("%s: %s", dsn, waits(is)), "the log of the server that relays says why; outrider outbox status shows who does")
	default:
		d.well(part, "%s: the tables and rights are right; %d pending", dsn, is.Pending)
	}
	if is.Parked > 0 {
		d.odd(part, fmt.Sprintf("%s: %s", dsn, count(is.Parked, "row is parked and cannot become a job", "rows are parked and cannot become jobs")), "outrider outbox ls says why; then outbox replay or outbox discard")
	}
	d.journal(ctx, src)
}

func waits(is outbox.Status) string {
	return fmt.Sprintf("%s, the oldest for %v", count(is.Pending, "row waits", "rows wait"), is.Lag.Round(time.Second))
}

// journal looks how the SQLite file of an app keeps its journal.
func (d *doctor) journal(ctx context.Context, src *appdb.Source) {
	if src.DSN.Scheme() != appdb.SQLite {
		return
	}
	var mode string
	if err := src.DB.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err == nil && mode != "wal" {
		d.odd("journal", fmt.Sprintf("%s is in journal mode %s: the app and the relay wait for each other", src.DSN, mode),
			"have the app run PRAGMA journal_mode = WAL once")
	}
}
