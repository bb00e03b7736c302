package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// conn is one keep-alive connection that speaks just enough HTTP/1.1 to send
// load. The generator shares the machine with the server that it measures, so
// it must cost little: net/http's client costs about as much as the server.
type conn struct {
	net.Conn
	r    *bufio.Reader
	host string
	out  []byte // the request
	body []byte // the answer; the next one overwrites it
	sent int
}

// ParseTarget reads the URL of a server: http://host:port or unix:///path.
func ParseTarget(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || !strings.HasPrefix(s, "unix:///") && (u.Scheme != "http" || strings.ContainsAny(s, "@?#")):
		return nil, errors.New("must be http://host:port or unix:///path, without a user or a password")
	case u.Scheme == "http" && u.Port() == "":
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	return u, nil
}

// ErrUnreachable is that nothing listens where the server should be.
var ErrUnreachable = errors.New("no server answers")

// dialConn connects to a server, to which each request shows the token, if there is one.
// Whatever happens on the connection ends by then.
func dialConn(ctx context.Context, u *url.URL, token string, by time.Time) (*conn, error) {
	network, where, host := "tcp", u.Host, u.Host
	if u.Scheme == "unix" {
		network, where, host = "unix", u.Path, "localhost"
	}
	if token != "" {
		host += "\r\nAuthorization: Bearer " + token
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	nc, err := d.DialContext(ctx, network, where)
	if err != nil {
		return nil, fmt.Errorf("%w at %s (%w); start one with: outrider serve", ErrUnreachable, u, err)
	}
	if err := nc.SetDeadline(by); err != nil {
		nc.Close()
		return nil, err
	}
	return &conn{Conn: nc, r: bufio.NewReaderSize(nc, 16<<10), host: host}, nil
}

// post sends body and returns the answer's, which is valid until the next call.
// An answer that is no 2xx is an error.
func (c *conn) post(path string, body []byte) ([]byte, error) {
	c.out = append(append(c.out[:0], "POST "...), path...)
	c.out = append(append(c.out, " HTTP/1.1\r\nHost: "...), c.host...)
	c.out = append(c.out, "\r\nContent-Type: application/openjobspec+json\r\nContent-Length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	c.sent++
	status, err := c.readAnswer()
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", path, err)
	}
	if status < 200 || status > 299 {
		return nil, &refusal{path, status, fmt.Sprintf("%.300s", c.body)}
	}
	return c.body, nil
}

// refusal is an answer that is no 2xx.
type refusal struct {
	path   string
	status int
	says   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the server answered %s with %d: %s", r.path, r.status, r.says)
}

// readAnswer reads one response into c.body.
func (c *conn) readAnswer() (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("%q is not HTTP/1.1", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("%q holds no status", line)
	}
	length, chunked := 0, false
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		if v, ok := header(line, "Content-Length"); ok {
			if length, err = strconv.Atoi(string(v)); err != nil {
				return 0, err
			}
		} else if v, ok := header(line, "Transfer-Encoding"); ok {
			chunked = bytes.EqualFold(v, []byte("chunked"))
		}
	}
	c.body = c.body[:0]
	if chunked {
		return status, c.readChunks()
	}
	return status, c.readBody(length)
}

// line is the next line without its end; valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// header is the line's value if it is the named header.
func header(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}

// readBody appends n bytes to c.body.
func (c *conn) readBody(n int) error {
	have := len(c.body)
	if n < 0 || have+n > 64<<20 {
		return errors.New("the answer is too long")
	}
	if cap(c.body) < have+n {
		c.body = append(make([]byte, 0, 2*(have+n)), c.body...)
	}
	c.body = c.body[:have+n]
	_, err := io.ReadFull(c.r, c.body[have:])
	return err
}

func (c *conn) readChunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return err
		}
		if err := c.readBody(int(size)); err != nil {
			return err
		}
		if _, err := c.line(); err != nil { // the end of the chunk, or of the trailer, which is empty
			return err
		}
		if size == 0 {
			return nil
		}
	}
}
