//go:build unix

package netguard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// ListenSocket makes a unix socket that only this user may use. Its mode is
// set between bind and listen: before listen nobody can connect, so the umask never
// decides who may, and need not be changed under other goroutines. A path that is
// taken is a [TakenError].
func ListenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("make a unix socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // FileListener works on a copy
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		if errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("the folder of the socket %s does not exist: create it first, with mode 0700", path)
		}
		return nil, fmt.Errorf("bind the socket %s: %w", path, err)
	}
	ln, err := openSocket(fd, file, path)
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("listen on the socket %s: %w", path, err)
	}
	return ln, nil
}

func newSocket() (int, error) {
	syscall.ForkLock.RLock() // no child may inherit it before it is marked
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, err
}

func openSocket(fd int, file *os.File, path string) (net.Listener, error) {
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Listen(fd, syscall.SOMAXCONN); err != nil {
		return nil, err
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return &socket{ln, path, made}, nil
}

// socket removes its file when it is closed, unless another server has put its own there.
type socket struct {
	net.Listener
	path string
	made fs.FileInfo
}

// Close ends the listener and removes its file.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		os.Remove(s.path)
	}
	return s.Listener.Close()
}

// removeStale removes a socket that a killed server left behind: only if it is
// ours and nobody listens on it.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &TakenError{Text: path + " exists and is not a socket: choose another path"}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return &TakenError{Text: "another server listens on " + path + ": stop it, or choose another path", InUse: true}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out who listens on %s: %w", path, err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s was left by another user: remove it, or choose another path in %s", path, filepath.Dir(path))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// FilesAllowed is how many files this process may have open; 0 if not known.
func FilesAllowed() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<30)) // signed on some systems
}
