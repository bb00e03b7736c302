package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/internal/tokens"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// tokenVariable has the token that a command sends, as it has for the public clients.
const tokenVariable = "OJS_AUTH_TOKEN"

// tokenGiven is the token that the environment holds, or a file that it names.
func (a *app) tokenGiven() (string, error) {
	file := a.env[tokenVariable+"_FILE"]
	if a.env[tokenVariable] != "" || file == "" {
		return a.env[tokenVariable], nil
	}
	token, err := tokens.Own(file)
	if err != nil {
		return "", usage("%s_FILE: %w", tokenVariable, err)
	}
	return token, nil
}

// client is a client of the server at an address, with the token that it is told to send.
func (c config) client(address string) (*client.Client, error) {
	token, err := c.ownToken()
	if err != nil {
		return nil, err
	}
	return client.New(address, client.Options{Token: token, Timeout: c.patience})
}

// ownToken is the token that a command sends, empty for none.
func (c config) ownToken() (string, error) {
	if c.token != "" || c.tokenFile == "" {
		return c.token, nil
	}
	token, err := tokens.Own(c.tokenFile)
	if err != nil {
		return "", usage("--token-file: %w", err)
	}
	return token, nil
}

// ownToken is the token of a command that takes no other setting.
func (a *app) ownToken(cmd *cobra.Command) (string, error) {
	c, err := a.configure(cmd)
	if err != nil {
		return "", err
	}
	return c.ownToken()
}

// setOrigin reads an origin as a browser writes it.
func setOrigin(c *config, v string) error {
	u, err := url.Parse(v)
	if v == "*" {
		return errors.New("must name an origin: any page that you visit could use the server then")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be scheme, host and port of a page, such as https://dashboard.example or http://localhost:3000")
	}
	host := strings.ToLower(u.Host)
	if name, port, err := net.SplitHostPort(host); err == nil && (u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443") {
		if host = name; strings.Contains(name, ":") {
			host = "[" + name + "]"
		}
	}
	c.origins = append(c.origins, u.Scheme+"://"+host)
	return nil
}

// exposed says why the server must not listen where it is told to.
func (c config) exposed() error {
	switch {
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return usage("--tls-cert and --tls-key belong together; give both, or none")
	case c.tlsCert != "" && c.listen.Network == "unix":
		return usage("--tls-cert is for an address that other machines reach, and --listen is a socket; leave one of them out")
	case c.queryToken && c.tokenFile == "":
		return usage("--allow-query-token needs --token-file: without it nobody shows a token")
	case !c.listen.Remote:
		return nil
	case c.tokenFile == "":
		return usage("--listen %s is open to other machines, so callers need tokens: give --token-file (outrider token --help), or use 127.0.0.1:8080, or unix:///path for a socket", c.listen.Where)
	case c.tlsCert == "" && !c.allowRemote:
		return usage("--listen %s is open to other machines, and without TLS whoever is on the way reads jobs and tokens: give --tls-cert and --tls-key, or --allow-remote if the network is trusted", c.listen.Where)
	}
	return nil
}

// loadAccess reads who may ask what, and the certificate.
func (s *server) loadAccess() error {
	if s.cfg.tokenFile != "" {
		held, err := s.credentials()
		if err != nil {
			return usage("--token-file: %w", err)
		}
		s.access = httpapi.NewAccess(held)
	}
	if s.cfg.tlsCert != "" {
		if err := s.loadCertificate(); err != nil {
			return usage("--tls-cert and --tls-key: %w", err)
		}
	}
	return nil
}

// credentials are those of the file. Who runs the server may do everything over a socket,
// as may root: either can read the database.
func (s *server) credentials() (httpapi.Credentials, error) {
	held, err := tokens.Load(s.cfg.tokenFile)
	if err != nil {
		return held, err
	}
	if held.Users == nil {
		held.Users = map[int]httpapi.Role{}
	}
	held.Users[os.Getuid()] |= httpapi.Operator
	held.Users[0] |= httpapi.Operator
	return held, nil
}

// loadPair reads a certificate and its key.
func loadPair(cert, key string) (pair tls.Certificate, err error) {
	pair, err = tls.LoadX509KeyPair(cert, key)
	if err == nil && pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return pair, err
}

func (s *server) loadCertificate() error {
	pair, err := loadPair(s.cfg.tlsCert, s.cfg.tlsKey)
	if err != nil {
		return err
	}
	if left := time.Until(pair.Leaf.NotAfter); left < 7*24*time.Hour {
		s.log.Warn("the certificate of --tls-cert ends soon, and clients refuse the server then; replace it, and send SIGHUP", "not_after", pair.Leaf.NotAfter)
	}
	if st, err := os.Stat(s.cfg.tlsKey); err == nil && st.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		s.log.Warn("every user of this machine may read the key of --tls-key, and speak as this server with it; chmod 600 it", "file", s.cfg.tlsKey, "mode", fmt.Sprintf("%04o", st.Mode().Perm()))
	}
	s.certificate.Store(&pair)
	return nil
}

// openSocket lets every user connect to the socket where each is asked for its role.
// Without roles the socket is for one user, as it was made.
func (s *server) openSocket() error {
	if s.access == nil || s.cfg.listen.Network != "unix" {
		return nil
	}
	return os.Chmod(s.cfg.listen.Where, 0o666)
}

// encrypted is the listener that speaks TLS, where there is a certificate.
func (s *server) encrypted(ln net.Listener) net.Listener {
	if s.certificate.Load() == nil {
		return ln
	}
	return netguard.TLS(ln, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
	})
}

// warnOfAccess says once who may use the server.
func (s *server) warnOfAccess() {
	switch {
	case s.access == nil && s.cfg.listen.Network == "tcp":
		s.log.Info("every user of this machine may use the server; --token-file gives roles, and --listen unix:///path lets one user in", "listen", s.url)
	case s.cfg.listen.Remote && s.cfg.tlsCert == "":
		s.log.Warn("--allow-remote is on without TLS: jobs and tokens can be read on the way to other machines", "listen", s.url)
	}
}

// watchHangups are the SIGHUPs from now on; nil without a file to read again. One
// that comes while the server starts is not lost.
func (s *server) watchHangups() <-chan os.Signal {
	if !slices.ContainsFunc([]string{s.cfg.cronFile, s.cfg.tokenFile, s.cfg.tlsCert}, func(file string) bool { return file != "" }) {
		return nil
	}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	s.closers = append(s.closers, func() error {
		signal.Stop(ch)
		return nil
	})
	return ch
}

// reload reads the files again at each SIGHUP. What is wrong with one of them is logged,
// and what it said before holds.
func (s *server) reload(ctx context.Context, hangups <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
		}
		if s.cfg.cronFile != "" {
			s.log.Info("SIGHUP: reading the file of schedules again", "file", s.cfg.cronFile)
			s.applyCronFile(ctx)
		}
		if s.access != nil {
			if held, err := s.credentials(); err != nil {
				s.log.Error("the file of tokens was not read again; those from before hold", "err", err)
			} else {
				s.access.Set(held)
				s.log.Info("SIGHUP: the file of tokens was read again", "file", s.cfg.tokenFile, "tokens", len(held.Tokens))
			}
		}
		if s.cfg.tlsCert != "" {
			if err := s.loadCertificate(); err != nil {
				s.log.Error("the certificate was not read again; the one from before is served", "err", err)
			} else {
				s.log.Info("SIGHUP: the certificate was read again", "file", s.cfg.tlsCert)
			}
		}
	}
}
