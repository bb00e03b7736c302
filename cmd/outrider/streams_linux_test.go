//go:build !race

package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A thousand streams on which nothing happens take little memory.
func TestIdleStreamsTakeLittle(t *testing.T) {
	const n, most = 1000, 60 << 20
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--max-connections", "2000")
	url := readyURL(t, p.stdout)
	before := held(p, "VmRSS")
	for i := range n {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /ojs/v1/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", []string{"events/stream", "queues/mail/events", "admin/stats/stream"}[i%3])
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Fatalf("stream %d: %q, %v", i, line, err)
		}
	}
	took := held(p, "VmRSS") - before
	t.Logf("%d streams take %d MB beside %d MB", n, took>>20, before>>20)
	if took > most {
		t.Errorf("%d idle streams take %d MB, at most %d are meant", n, took>>20, most>>20)
	}
}
