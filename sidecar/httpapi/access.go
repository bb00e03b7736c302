package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/job"
)

// Role is what a caller may do, a set of the four below.
type Role uint8

// The roles (contract §1.10).
const (
	Producer Role = 1 << iota // enqueues, reads what became of it, and cancels it
	Worker                    // fetches and ends jobs
	ReadOnly                  // reads everything, and changes nothing
	Operator                  // may do everything
)

const (
	everybody = Role(0)
	producers = Producer | Operator
	workers   = Worker | Operator
	readers   = ReadOnly | Operator
	operators = Operator
	anyRole   = Producer | Worker | ReadOnly | Operator
)

var roleNames = []struct {
	role Role
	name string
}{{Producer, "producer"}, {Worker, "worker"}, {ReadOnly, "read-only"}, {Operator, "operator"}}

// ParseRoles reads role[,role], as String writes it.
func ParseRoles(s string) (Role, error) {
	var all Role
	for _, word := range strings.Split(s, ",") {
		found := Role(0)
		for _, r := range roleNames {
			if r.name == word {
				found = r.role
			}
		}
		if found == 0 {
			return 0, job.Errorf(job.Invalid, "%.40q is no role; the roles are producer, worker, read-only and operator", word)
		}
		all |= found
	}
	return all, nil
}

// String is the names of the roles, with commas between them.
func (r Role) String() string {
	var names []string
	for _, n := range roleNames {
		if r&n.role != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// Access knows who may ask what. It may be used, and changed, by many goroutines at once.
type Access struct {
	held    atomic.Pointer[Credentials]
	missing atomic.Int64 // requests that were refused because they had no token,
	wrong   atomic.Int64 // because they had one that is not known,
	role    atomic.Int64 // because theirs has another role
	paying  atomic.Int64 // callers with a wrong token that are made to wait
	mu      sync.Mutex
	logged  time.Time // when a refusal was last logged
	silent  int       // refusals since then
}

// Credentials are those that callers may show.
type Credentials struct {
	Tokens []Credential
	Users  map[int]Role // by their number, over a unix socket
}

// Credential is a token, of which only the SHA-256 is kept, and its roles.
type Credential struct {
	Hash  [sha256.Size]byte
	Roles Role
}

// NewAccess makes an Access that lets in who shows one of the credentials.
func NewAccess(c Credentials) *Access {
	a := &Access{}
	a.Set(c)
	return a
}

// Set replaces the credentials. Requests that have been let in go on.
func (a *Access) Set(c Credentials) { a.held.Store(&c) }

// Refused is how many requests were refused since the start: without a token, with one
// that is not known, and with one of another role.
func (a *Access) Refused() (missing, wrong, role int64) {
	return a.missing.Load(), a.wrong.Load(), a.role.Load()
}

// rolesOf are the roles of a token. It looks at every token that is known, whichever it
// is, so that the time tells nothing.
func (c *Credentials) rolesOf(token string) (roles Role) {
	sum := sha256.Sum256([]byte(token))
	for i := range c.Tokens {
		same := subtle.ConstantTimeCompare(sum[:], c.Tokens[i].Hash[:])
		roles |= c.Tokens[i].Roles & Role(-same)
	}
	return roles
}

// penalty is how long a caller with a wrong token waits for its answer, and payers how
// many do so at the same time: others get theirs at once, and lose their connection.
const (
	penalty = 250 * time.Millisecond
	payers  = 32
)

// only lets those in who may ask r.
func (a *api) only(r Route, h echo.HandlerFunc) echo.HandlerFunc {
	if a.Access == nil || r.Who == everybody {
		return h
	}
	return func(c echo.Context) error {
		if err := a.mayAsk(c, r); err != nil {
			return err
		}
		return h(c)
	}
}

// mayAsk is nil for a caller with one of the roles of a route.
func (a *api) mayAsk(c echo.Context, r Route) error {
	roles, shown := a.rolesOf(c.Request(), r.Stream)
	switch {
	case roles&r.Who != 0:
		return nil
	case roles == 0 && shown:
		if !a.Access.pay(c.Request().Context()) {
			c.Response().Header().Set("Connection", "close")
		}
		return a.refuse(c, &a.Access.wrong, job.Errorf(job.Unauthenticated, "the token is not one of this server's"))
	case roles == 0:
		return a.refuse(c, &a.Access.missing, job.Errorf(job.Unauthenticated, "%s needs a token, and the request has none", r))
	}
	return a.refuse(c, &a.Access.role, job.Errorf(job.Forbidden, "%s needs the role %s, and the caller has %s", r, strings.ReplaceAll(r.Who.String(), ",", " or "), roles).
		With(map[string]any{"needed": strings.Split(r.Who.String(), ","), "roles": strings.Split(roles.String(), ","), "hint": "Use a token that has one of the needed roles."}))
}

// rolesOf are the roles of who asks, and whether it has shown a token: then the user at
// the other end of a socket does not count.
func (a *api) rolesOf(req *http.Request, stream bool) (roles Role, shown bool) {
	held := a.Access.held.Load()
	token, shown := bearer(req)
	if !shown && stream && a.QueryToken {
		token, shown = queryToken(req)
	}
	if shown {
		return held.rolesOf(token), true
	}
	if a.PeerUser != nil {
		if user, ok := a.PeerUser(req); ok {
			roles = held.Users[user]
		}
	}
	return roles, false
}

// isOperator reports whether who asks may do everything, as anybody may where there are no roles.
func (a *api) isOperator(c echo.Context) bool {
	if a.Access == nil {
		return true
	}
	roles, _ := a.rolesOf(c.Request(), false)
	return roles&Operator != 0
}

// pay makes a caller with a wrong token wait. It returns false at once where too many do.
func (a *Access) pay(ctx context.Context) bool {
	defer a.paying.Add(-1)
	if a.paying.Add(1) > payers {
		return false
	}
	t := time.NewTimer(penalty)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return true
}

// refuse counts a refusal, and logs it, at most once in ten seconds. The log has nothing
// of what the caller has sent but the route that it meant.
func (a *api) refuse(c echo.Context, count *atomic.Int64, err error) error {
	if job.KindOf(err) == job.Unauthenticated {
		c.Response().Header()["Www-Authenticate"] = challenge
	}
	count.Add(1)
	s := a.Access
	s.mu.Lock()
	defer s.mu.Unlock()
	now := a.Now()
	if now.Sub(s.logged) < 10*time.Second {
		s.silent++
		return err
	}
	a.Log.LogAttrs(c.Request().Context(), slog.LevelWarn, "a request was refused: "+err.Error(),
		slog.String("from", c.Request().RemoteAddr), slog.String("route", c.Request().Method+" "+c.Path()),
		slog.String("request_id", requestID(c)), slog.Int("count", s.silent+1))
	s.logged, s.silent = now, 0
	return err
}

var challenge = []string{`Bearer realm="outrider"`}

// bearer is the token in the header of a request. One of several headers is none: a proxy
// might have looked at another than the server does.
func bearer(r *http.Request) (token string, shown bool) {
	if len(r.Header["Authorization"]) > 1 {
		return "", true
	}
	sent := first(r.Header, "Authorization")
	if len(sent) < 7 || !strings.EqualFold(sent[:7], "bearer ") {
		return "", sent != "" // another scheme is as good as a wrong token
	}
	return strings.TrimSpace(sent[7:]), true
}

// queryToken is the token in the query of a request: a browser's EventSource and
// WebSocket can set no header.
func queryToken(r *http.Request) (token string, shown bool) {
	q := r.URL.Query()
	return q.Get("token"), q.Has("token")
}
