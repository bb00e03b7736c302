package netguard

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// LeastConnections is how many connections are always allowed, even if this process
// may hardly open a file.
const LeastConnections = 8

const (
	filesOfStore = 64                     // that are kept free for the store, the outboxes and the log
	idleLeast    = time.Second            // before a connection that is idle may be closed for another
	refusals     = 16                     // that are answered at the same time; further connections are closed without an answer
	refusalTime  = 200 * time.Millisecond // that a caller has to read one
)

// refusal is the answer on a connection that is one too many (contract §1.3).
func refusal(setting string) []byte {
	return lastAnswer("503 Service Unavailable\r\nRetry-After: 1", "backend_error", true,
		"the server has reached its limit of connections, and none of them is idle; close some, or raise "+setting, "Try again after the time in Retry-After.")
}

// lastAnswer is the answer on a connection that no request is read from (contract §1.3).
func lastAnswer(status, code string, retryable bool, message, hint string) []byte {
	const docs = "https://openjobspec.org/spec/v1/ojs-core"
	unique, _ := uuid.NewV7() // the system's randomness never fails
	id := "req_" + unique.String()
	w := rawjson.Object(nil)
	w.Object("error").Str("code", code).Str("message", message).Bool("retryable", retryable)
	w.Str("hint", hint).Str("docs_url", docs).Str("doc_url", docs)
	w.Str("request_id", id).End()
	body := append(w.Close(), "\r\n"...)
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: application/openjobspec+json\r\nX-Request-Id: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, id, len(body), body)
}

// connections bounds how many there are at once, in all and per process where the
// system can tell whose they are: over a unix socket. Over TCP all callers are
// 127.0.0.1, and nothing tells them apart.
type connections struct {
	net.Listener
	most    int
	setting string // raises most
	log     *slog.Logger
	answer  chan struct{} // has room for each refusal that is being answered

	open sync.Map // net.Conn to *connection
	n    atomic.Int64

	mu       sync.Mutex // of what follows
	peers    map[int]int
	loggedAt time.Time // when it was last told that there are too many
}

// connection is what is known of one.
type connection struct {
	idle atomic.Int64 // since when, in nanoseconds since 1970; 0 while it is in use
	peer int          // id of the process at its other end; 0 if not known
}

// limit bounds the connections that ln accepts. allowed is how many files this process
// may open, 0 if not known.
func limit(ln net.Listener, most, allowed int, setting string, log *slog.Logger) *connections {
	if room := max(allowed-filesOfStore, LeastConnections); allowed > 0 && room < most {
		log.Warn("fewer connections are accepted than "+setting+" allows, because this process may not open more files; raise its limit (ulimit -n, LimitNOFILE=)",
			"max_connections", most, "open_files", allowed, "taken", room)
		most = room
	}
	return &connections{Listener: ln, most: most, setting: setting, log: log, answer: make(chan struct{}, refusals), peers: map[int]int{}}
}

// Accept waits for a connection that there is room for.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit(c) {
			return c, nil
		}
		l.refuse(c)
	}
}

// admit takes a connection in, if necessary in place of the one that has been idle
// longest.
func (l *connections) admit(c net.Conn) bool {
	k := &connection{peer: peerOf(c)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.peer != 0 && l.peers[k.peer] >= max(l.most/2, 1) {
		l.logFull("one process has half of all connections and gets no more; "+l.setting+" sets the limit", "process", k.peer)
		return false
	}
	if l.n.Load() >= int64(l.most) && !l.displace() {
		l.logFull("the limit of connections is reached and none is idle: new ones are refused; "+l.setting+" sets the limit", "connections", l.most)
		return false
	}
	if k.peer != 0 {
		l.peers[k.peer]++
	}
	l.n.Add(1)
	l.open.Store(c, k)
	return true
}

// logFull logs at most once a minute that connections are refused. The caller holds
// mu.
func (l *connections) logFull(what string, args ...any) {
	if time.Since(l.loggedAt) > time.Minute {
		l.loggedAt = time.Now()
		l.log.Warn(what, args...)
	}
}

// displace closes the connection that has been idle longest, if that is long enough.
func (l *connections) displace() bool {
	var oldest net.Conn
	since := time.Now().Add(-idleLeast).UnixNano()
	l.open.Range(func(c, k any) bool {
		if idle := k.(*connection).idle.Load(); idle != 0 && idle < since {
			oldest, since = c.(net.Conn), idle
		}
		return true
	})
	if oldest == nil {
		return false
	}
	l.forget(oldest)
	_ = oldest.Close() // no request is under way on it
	return true
}

// forget no longer counts a connection. The caller holds mu.
func (l *connections) forget(c net.Conn) {
	k, ok := l.open.LoadAndDelete(c)
	if !ok {
		return // displaced before
	}
	l.n.Add(-1)
	if peer := k.(*connection).peer; peer != 0 {
		if l.peers[peer]--; l.peers[peer] == 0 {
			delete(l.peers, peer)
		}
	}
}

func (l *connections) gone(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(c)
}

// state is for [http.Server.ConnState]. A connection that a handler has taken over counts,
// and is in use, until it is closed.
func (l *connections) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateHijacked:
		if f, ok := c.(*framedConn); ok {
			f.taken(func() { l.gone(c) })
			return
		}
		l.gone(c) // nobody tells when it is closed
	case http.StateClosed:
		l.gone(c)
	case http.StateIdle, http.StateActive:
		if k, ok := l.open.Load(c); ok {
			since := int64(0)
			if s == http.StateIdle {
				since = time.Now().UnixNano()
			}
			k.(*connection).idle.Store(since)
		}
	}
}

// refuse says why and closes, in the background: the next connection does not wait for
// it.
func (l *connections) refuse(c net.Conn) {
	select {
	case l.answer <- struct{}{}:
	default:
		_ = c.Close() // too many are being told already
		return
	}
	go func() {
		defer func() { <-l.answer }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(refusalTime))
		if _, err := c.Write(refusal(l.setting)); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = c.Read(make([]byte, 4<<10)) // closing with the request unread would reset the connection, and the answer would be lost
		}
	}()
}
