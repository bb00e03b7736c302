package netguard

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

const crowdedFor = 5 * time.Second // without a failed accept before it counts as over

// fileLimit is a listener that logs when it cannot accept because too many files are
// open: once when it begins, and once when it is over. net/http waits a little and
// tries again, and logs that at debug only.
type fileLimit struct {
	net.Listener
	log *slog.Logger

	mu   sync.Mutex
	calm *time.Timer // ends it; nil while it is not crowded
}

// Accept waits for the next connection.
func (c *fileLimit) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		c.report(err)
	}
	return conn, err
}

func (c *fileLimit) report(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calm != nil && c.calm.Stop() { // it goes on; a timer that has ended must not be reset, as it would log a second time
		c.calm.Reset(crowdedFor)
		return
	}
	c.log.Warn("no more connections can be accepted because too many files are open; new callers wait, and health cannot be checked. Raise the limit (ulimit -n, LimitNOFILE=) or open fewer connections", "limit", FilesAllowed(), "err", err)
	c.calm = time.AfterFunc(crowdedFor, func() { c.log.Info("connections are accepted again") })
}
