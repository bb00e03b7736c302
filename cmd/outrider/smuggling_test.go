package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawAnswers writes what is given to a server as it is, reads what comes until
// the server closes the connection or says nothing more, and returns the status
// lines, the words of the refusals, and whether the connection was closed.
func rawAnswers(where string, parts ...string) string {
	c, err := net.Dial("tcp", where)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	for i, part := range parts {
		if i > 0 {
			time.Sleep(50 * time.Millisecond) // so that it comes alone
		}
		if _, err := io.WriteString(c, part); err != nil {
			break // the answer says why
		}
	}
	var said strings.Builder
	for in := bufio.NewReader(c); ; {
		_ = c.SetReadDeadline(time.Now().Add(700 * time.Millisecond))
		if _, err := in.Peek(1); err != nil {
			if err == io.EOF {
				said.WriteString("closed")
			} else if os.IsTimeout(err) {
				said.WriteString("open")
			} else {
				said.WriteString("cut off")
			}
			return said.String()
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return said.String() + err.Error()
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Fprintf(&said, "%d ", resp.StatusCode)
		if resp.StatusCode >= 400 {
			if at := bytes.Index(body, []byte(`"message":"`)); at >= 0 {
				body, _, _ = bytes.Cut(body[at+len(`"message":"`):], []byte(`"`))
			}
			fmt.Fprintf(&said, "(%s) ", bytes.TrimSpace(body))
		}
	}
}

// TestSmuggling holds what becomes of requests that two servers would part in
// two ways, word for word.
func TestSmuggling(t *testing.T) {
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	where := strings.TrimPrefix(url, "http://")
	const (
		job   = `{"type":"a.b","args":[]}`
		lines = "{\n\"type\":\"a.b\",\n\n\"args\":[]\n}" // bare line feeds belong in a body
	)
	post := func(headers, body string) string {
		return "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body
	}
	sized := func(body string) string { return post(fmt.Sprintf("Content-Length: %d\r\n", len(body)), body) }
	chunked := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	const get = "GET /ojs/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	bare := strings.ReplaceAll(get, "\r\n", "\n")
	cases := []struct {
		name  string
		parts []string
	}{
		{"plain", []string{sized(job)}},
		{"plain, twice", []string{sized(job), sized(job)}},
		{"pipelined", []string{sized(job) + sized(lines) + get + sized(job)}},
		{"line feeds in the body", []string{sized(lines)}},
		{"line feeds in the body, in parts", []string{sized(lines)[:60], sized(lines)[60:80], sized(lines)[80:], sized(lines) + get}},
		{"a long body with line feeds", []string{sized(`{"type":"a.b","args":["` + strings.Repeat("x", 30_000) + `"` + strings.Repeat("\n\n", 3000) + "]}"), sized(job)}},
		{"a body that nobody reads", []string{strings.Replace(sized(lines), "/jobs", "/nothing", 1), sized(job)}},
		{"a body for GET", []string{"GET /ojs/v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n\n\n" + get}},
		{"empty lines after a POST", []string{sized(job) + "\r\n" + sized(job) + "\r\n\r\n" + get}},
		{"100-continue", []string{post(fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n", len(lines)), ""), lines, get}},
		{"OPTIONS *", []string{"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" + get}},
		{"chunked", []string{post("Transfer-Encoding: chunked\r\n", chunked(lines))}},
		{"chunked, and another one behind it", []string{post("Transfer-Encoding: chunked\r\n", chunked(job)) + get}},
		{"chunked that nobody reads", []string{strings.Replace(post("Transfer-Encoding: chunked\r\n", chunked(lines)), "/jobs", "/nothing", 1)}},
		{"HTTP/1.0", []string{strings.Replace(sized(job), "1.1", "1.0", 1)}},

		{"Content-Length and Transfer-Encoding", []string{post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked(job)+get)}},
		{"Transfer-Encoding and Content-Length", []string{post("Transfer-Encoding: chunked\r\ncontent-length: 5\r\n", chunked(job)+get)}},
		{"both, after a request that is right", []string{sized(job) + post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked(job))}},
		{"both, in HTTP/1.0", []string{strings.Replace(post("Content-Length: 24\r\nTransfer-Encoding: chunked\r\n", job), "1.1", "1.0", 1)}},
		{"Transfer-Encoding in HTTP/1.0", []string{strings.Replace(post("Transfer-Encoding: chunked\r\n", chunked(job)), "1.1", "1.0", 1)}},
		{"two lengths", []string{post("Content-Length: 24\r\nContent-Length: 25\r\n", job)}},
		{"one length twice", []string{post("Content-Length: 24\r\nContent-Length: 24\r\n", job)}},
		{"a list of lengths", []string{post("Content-Length: 24, 24\r\n", job)}},
		{"a length with a sign", []string{post("Content-Length: +24\r\n", job)}},
		{"a negative length", []string{post("Content-Length: -1\r\n", job)}},
		{"a length in hexadecimal", []string{post("Content-Length: 0x18\r\n", job)}},
		{"an empty length", []string{post("Content-Length:\r\n", "")}},
		{"a length that is too large", []string{post("Content-Length: 99999999999999999999\r\n", job)}},
		{"two encodings", []string{post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked(job))}},
		{"a list of encodings", []string{post("Transfer-Encoding: gzip, chunked\r\n", chunked(job))}},
		{"identity", []string{post("Transfer-Encoding: identity\r\n", job)}},
		{"xchunked", []string{post("Transfer-Encoding: xchunked\r\n", chunked(job))}},
		{"chunked with a vertical tab", []string{post("Transfer-Encoding: \x0bchunked\r\n", chunked(job))}},
		{"a space before the colon", []string{post("Transfer-Encoding : chunked\r\n", chunked(job))}},
		{"a space before the name", []string{post("X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 24\r\n", job)}},
		{"a folded line", []string{post("Content-Length: 24\r\nX: a\r\n b\r\n", job)}},
		{"a NUL", []string{post("X: a\x00b\r\n", "")}},
		{"a carriage return in a value", []string{post("X: a\rTransfer-Encoding: chunked\r\n", "")}},
		{"a carriage return in the first line", []string{"GET /ojs/v1/health\rX HTTP/1.1\r\nHost: localhost\r\n\r\n"}},
		{"two carriage returns", []string{strings.Replace(get, "localhost\r", "localhost\r\r", 1)}},
		{"no Host", []string{"GET /ojs/v1/health HTTP/1.1\r\n\r\n"}},
		{"two Hosts", []string{strings.Replace(get, "Host: localhost\r\n", "Host: localhost\r\nHost: localhost\r\n", 1)}},
		{"HTTP/0.9", []string{"GET /ojs/v1/health\r\n\r\n"}},
		{"HTTP/2", []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}},

		{"bare line feeds", []string{bare}},
		{"one bare line feed, in the first line", []string{strings.Replace(get, "\r\n", "\n", 1)}},
		{"one bare line feed, behind a header", []string{strings.Replace(get, "localhost\r\n", "localhost\n", 1)}},
		{"one bare line feed, at the end", []string{strings.TrimSuffix(get, "\r\n") + "\n"}},
		{"a bare line feed that comes late", []string{get, bare}},
		{"a bare line feed that is pipelined", []string{sized(job) + bare}},
		{"a bare line feed that comes in parts", []string{bare[:20], bare[20:40], bare[40:]}},
		{"a bare line feed before the request", []string{sized(job) + "\n" + get}},
		{"a bare line feed behind a long body", []string{sized(`{"type":"a.b","args":["`+strings.Repeat("x", 30_000)+`"]}`) + bare}},
		{"a bare line feed in a chunk's size", []string{post("Transfer-Encoding: chunked\r\n", strings.ReplaceAll(chunked(job), "\r\n", "\n"))}},
		{"a header that only a bare line feed parts", []string{post("X: a\nTransfer-Encoding: chunked\r\nContent-Length: 24\r\n", job)}},
	}
	answers := make([]string, len(cases))
	var asking sync.WaitGroup
	for i, tt := range cases {
		asking.Go(func() { answers[i] = rawAnswers(where, tt.parts...) })
	}
	asking.Wait()
	var b strings.Builder
	for i, tt := range cases {
		fmt.Fprintf(&b, "%s: %s\n", tt.name, answers[i])
	}
	golden := filepath.Join("testdata", "smuggling.golden")
	if *update {
		writeFile(t, golden, b.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
