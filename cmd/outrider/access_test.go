//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/tokens"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// roleFile makes a file of tokens, and the tokens by their roles.
func roleFile(t *testing.T, sets ...string) (file string, made map[string]string) {
	t.Helper()
	file, made = filepath.Join(t.TempDir(), "tokens"), map[string]string{}
	for _, roles := range sets {
		o := try(t, nil, "token", "new", roles, "--file", file)
		if o.code != exitOK {
			t.Fatalf("token new: %+v", o)
		}
		made[roles] = strings.TrimSpace(o.stdout)
	}
	return file, made
}

// The commands send their token, from the variable or from a file, and say what to do
// when it is not enough. Nothing that the server or a command prints has a token in it.
func TestCommandsSendTheirToken(t *testing.T) {
	file, made := roleFile(t, "operator", "producer", "read-only,worker")
	own := filepath.Join(t.TempDir(), "own")
	writeFile(t, own, made["read-only,worker"]+"\n")
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--token-file", file, "--log-level", "debug")
	url := "OUTRIDER_URL=" + readyURL(t, p.stdout)
	var said strings.Builder
	for _, tt := range []struct {
		token string
		args  string
		code  int
		want  string
	}{
		{"", "workers ls", exitFailed, "needs a token, and the request has none; set OJS_AUTH_TOKEN, or --token-file"},
		{"wrong-token-with-enough-letters", "workers ls", exitFailed, "not one of this server's; set OJS_AUTH_TOKEN"},
		{made["producer"], "workers ls", exitFailed, "needs the role read-only or operator, and the caller has producer"},
		{made["producer"], "workers ls --token-file " + own, exitOK, ""},
		{made["read-only,worker"], "workers ls", exitOK, ""},
		{made["operator"], "workers ls", exitOK, ""},
		{made["read-only,worker"], "workers quiet --all", exitFailed, "needs the role operator"},
		{made["operator"], "workers quiet --all", exitOK, ""},
		{made["operator"], "workers ls --token-file " + own + "x", exitUsage, "there is no file"},
		{made["operator"] + "\n", "workers ls", exitFailed, "characters that no token has"},
	} {
		env := []string{url}
		if tt.token != "" {
			env = append(env, tokenVariable+"="+tt.token)
		}
		o := try(t, env, strings.Fields(tt.args)...)
		said.WriteString(o.stdout + o.stderr)
		if o.code != tt.code || !strings.Contains(o.stderr, tt.want) {
			t.Errorf("%s with %.12s…: got %+v, want %d and %q", tt.args, tt.token, o, tt.code, tt.want)
		}
	}
	p.signal(t)
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("got exit %d", code)
	}
	log := p.stderr.rest()
	said.WriteString(log + p.stdout.rest())
	for roles, token := range made {
		if strings.Contains(said.String(), token) || strings.Contains(said.String(), token[5:20]) {
			t.Errorf("the token of %s was printed", roles)
		}
	}
	if strings.Contains(said.String(), "wrong-token-with") || !strings.Contains(log, "a request was refused") {
		t.Errorf("the log:\n%s", log)
	}
}

// A relay that runs alone sends its token, and a row waits while it is not known.
func TestARelaySendsItsToken(t *testing.T) {
	file, made := roleFile(t, "producer", "read-only")
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--token-file", file)
	shop := filepath.Join(t.TempDir(), "shop.db")
	if o := try(t, nil, "outbox", "init", "sqlite:"+shop); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	db, err := sql.Open("sqlite", shop)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('mail.send', '[]')`); err != nil {
		t.Fatal(err)
	}
	read, err := client.New(url, client.Options{Token: made["read-only"]})
	if err != nil {
		t.Fatal(err)
	}
	refused := startProcess(t, "relay", "--outbox", "sqlite:"+shop, "--to", url)
	refused.stderr.until(t, "needs a token")
	refused.signal(t)
	refused.end(t, 20*time.Second)
	if page, err := read.Jobs(t.Context(), job.Filter{}); err != nil || len(page.Jobs) != 0 {
		t.Fatalf("got %+v, %v", page, err)
	}
	t.Setenv(tokenVariable, made["producer"])
	startProcess(t, "relay", "--outbox", "sqlite:"+shop, "--to", url)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		page, err := read.Jobs(t.Context(), job.Filter{})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no job came: %v", err)
		}
		if len(page.Jobs) == 1 {
			return
		}
	}
}

// An address that other machines reach is never listened on without tokens and a word
// about who may listen on the way.
func TestNobodyIsExposedByAccident(t *testing.T) {
	file, made := roleFile(t, "operator")
	free := func() string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		return port
	}
	port := free()
	for _, args := range []string{"", "--allow-remote", "--token-file " + file, "--token-file " + file + " --tls-cert x", "--token-file " + file + " --tls-cert x --tls-key y", "--token-file none --allow-remote"} {
		for _, host := range []string{"0.0.0.0", "", "[::]"} {
			o := try(t, nil, append([]string{"serve", "--listen", host + ":" + port, "--db", tempDB(t)}, strings.Fields(args)...)...)
			if o.code != exitUsage || o.stdout != "" {
				t.Errorf("%q on %q: %+v", args, host, o)
			}
			if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				c.Close()
				t.Errorf("%q on %q: something listens", args, host)
			}
		}
	}
	p := startProcess(t, "serve", "--listen", "0.0.0.0:"+port, "--db", tempDB(t), "--token-file", file, "--allow-remote")
	p.stderr.until(t, "without TLS")
	readyURL(t, p.stdout)
	c, err := client.New("http://127.0.0.1:"+port, client.Options{Token: made["operator"]})
	if err == nil {
		_, err = c.Queues(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// certificate writes a key and a certificate for this machine, and returns who trusts it.
func certificate(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}

func overTLS(t *testing.T, url, token string, trusted *x509.CertPool) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{Token: token, HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The server speaks TLS, and its checks of a request hold there, too. SIGHUP reads the
// tokens and the certificate again; a file that is wrong then changes nothing.
func TestTLSAndRotation(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := certificate(t, cert, key, 1)
	file, made := roleFile(t, "operator")
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--token-file", file, "--tls-cert", cert, "--tls-key", key)
	url := readyURL(t, p.stdout)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("got %s", url)
	}
	first := overTLS(t, url, made["operator"], trusted)
	jobs, err := first.Enqueue(t.Context(), job.Envelope{Type: "mail.send", Args: []byte(`[]`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := first.Fetch(t.Context(), job.FetchRequest{Queues: []string{"default"}}); err != nil || len(got) != 1 || got[0].ID != jobs[0].ID {
		t.Errorf("got %v, %v", got, err)
	}
	host := strings.TrimPrefix(url, "https://")
	raw, err := tls.Dial("tcp", host, &tls.Config{RootCAs: trusted, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(raw, "GET /live HTTP/1.1\r\nHost: %s\nX: a line feed alone\r\n\r\n", host) // the heads of requests are looked at inside of TLS
	answer, err := io.ReadAll(raw)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") || raw.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("got %q, %v", answer, err)
	}
	for origin, want := range map[string]int{url: 200, "http://" + host: 403} {
		req, _ := http.NewRequest("GET", url+"/live", nil)
		req.Header.Set("Origin", origin)
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}).Do(req)
		if err != nil || resp.StatusCode != want {
			t.Errorf("from %s: %v, %v", origin, resp, err)
		}
	}
	if c, err := client.New("http://"+host, client.Options{Token: made["operator"]}); err != nil {
		t.Fatal(err)
	} else if _, err := c.Queues(t.Context()); job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), "speaks https") {
		t.Errorf("without TLS: %v", err)
	}

	token := tokens.New()
	line, err := tokens.Line(httpapi.Operator, token)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, line)
	next := certificate(t, cert, key, 2)
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.stderr.until(t, "every user of this machine may read the key of --tls-key")
	p.stderr.until(t, "the certificate was read again")
	second := overTLS(t, url, token, next)
	if _, err := second.Queues(t.Context()); err != nil {
		t.Errorf("the new token and the new certificate: %v", err)
	}
	if _, err := overTLS(t, url, token, trusted).Queues(t.Context()); err == nil {
		t.Error("the old certificate is served still")
	}
	if _, err := overTLS(t, url, made["operator"], next).Queues(t.Context()); job.KindOf(err) != job.Unauthenticated {
		t.Errorf("the old token: %v", err)
	}
	writeFile(t, file, "operator\n")
	writeFile(t, cert, "nonsense")
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.stderr.until(t, "the file of tokens was not read again")
	p.stderr.until(t, "the certificate was not read again")
	if _, err := second.Queues(t.Context()); err != nil {
		t.Errorf("after files that are wrong: %v", err)
	}
	p.signal(t)
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("got exit %d\n%s", code, p.stderr.rest())
	}
}

func TestOriginsOfTheCommandLine(t *testing.T) {
	for v, want := range map[string]string{"https://dash.example": "https://dash.example", "https://Dash.Example:443/": "https://dash.example", "http://localhost:3000": "http://localhost:3000",
		"http://[::1]:80": "http://[::1]", "http://[::1]:81": "http://[::1]:81"} {
		var c config
		if err := setOrigin(&c, v); err != nil || len(c.origins) != 1 || c.origins[0] != want {
			t.Errorf("%s: got %v, %v", v, c.origins, err)
		}
	}
	for _, v := range []string{"*", "", "null", "dash.example", "ftp://x", "https://x/path", "https://user@x", "https://x?y", "https://"} {
		if err := setOrigin(&config{}, v); err == nil {
			t.Errorf("%q was taken", v)
		}
	}
}

// Over a socket the system says who asks: who runs the server may do everything, the
// users of the file what it says, and others nothing without a token.
func TestUsersOverASocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can ask as another user")
	}
	dir, err := os.MkdirTemp("/tmp", "o") // the path of a socket must be short, and others must come to it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tokens")
	token := tokens.New()
	line, err := tokens.Line(httpapi.ReadOnly, token)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, line+"\nworker user:4001\noperator user:4002\n")
	socket := filepath.Join(dir, "s")
	p := startProcess(t, "serve", "--listen", "unix://"+socket, "--db", filepath.Join(t.TempDir(), "o.db"), "--token-file", file)
	readyURL(t, p.stdout)
	for _, tt := range []struct {
		user         uint32
		token        string
		list, update string
	}{
		{0, "", "200", "200"}, {4001, "", "403", "403"}, {4002, "", "200", "200"}, {4003, "", "401", "401"}, {4003, token, "200", "403"}, {4002, token, "200", "403"},
	} {
		for i, path := range []string{"GET /ojs/v1/queues", "POST /ojs/v1/queues/mail/pause"} {
			method, path, _ := strings.Cut(path, " ")
			cmd := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket, "-X", method, "http://localhost"+path, "-H", "Authorization: Bearer "+tt.token)
			if tt.token == "" {
				cmd.Args = cmd.Args[:len(cmd.Args)-2]
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.user, Gid: tt.user}}
			out, err := cmd.CombinedOutput()
			if want := []string{tt.list, tt.update}[i]; string(out) != want {
				t.Errorf("%+v, %s: got %s, %v, want %s", tt, path, out, err, want)
			}
		}
	}
}
