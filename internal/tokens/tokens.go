// Package tokens reads and makes the tokens by which a server knows its callers
// (contract §1.10).
//
// It imports the roles of sidecar/httpapi. It must never decide what a role may do,
// and no error of its repeats a token.
package tokens

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// A file has one credential a line, ROLE[,ROLE] and then one of
//
//	sha256:HEX     the SHA-256 of a token
//	user:NAME      who asks over a unix socket, by name or number
//	TOKEN          the token itself
//
// and behind that whatever a person wants to remember of it. Lines that begin with #
// are comments.
const (
	hashed   = "sha256:"
	ofUser   = "user:"
	shortest = 16      // characters of a token
	longest  = 512     // characters
	maxFile  = 1 << 20 // bytes
)

// Load reads the credentials of a server's file. A file that others than its owner may
// read must have no token itself, only hashes; one that others may write to is refused.
func Load(name string) (httpapi.Credentials, error) {
	raw, mode, err := read(name)
	if err != nil {
		return httpapi.Credentials{}, err
	}
	c, plain, err := parse(raw, userNumber)
	switch {
	case err != nil:
		return httpapi.Credentials{}, fmt.Errorf("%s: %w", name, err)
	case writable(name, mode) != nil:
		return httpapi.Credentials{}, writable(name, mode)
	case plain && mode&0o077 != 0:
		return httpapi.Credentials{}, fmt.Errorf("%s has tokens in it, and others than its owner may read it (mode %04o); chmod 600 %[1]s, or replace the tokens by their hashes (outrider token hash)", name, mode)
	}
	return c, nil
}

// Own is the token that a client sends: the first in a file, which may be that of a
// server, or have nothing but the token.
func Own(name string) (string, error) {
	raw, _, err := read(name)
	if err != nil {
		return "", err
	}
	for n, line := range lines(raw) {
		fields := strings.Fields(line)
		token := fields[0]
		if _, err := httpapi.ParseRoles(token); err == nil && len(fields) > 1 {
			token = fields[1] // of a server's file
		}
		switch {
		case strings.HasPrefix(token, hashed), strings.HasPrefix(token, ofUser):
			continue
		case wrong(token) != nil:
			return "", fmt.Errorf("%s: line %d: %w", name, n, wrong(token))
		}
		return token, nil
	}
	return "", fmt.Errorf("%s has no token in it; a client needs the token itself, and not its hash", name)
}

func read(name string) ([]byte, fs.FileMode, error) {
	st, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("there is no file %s; outrider token new ROLE --file %[1]s makes one", name)
	} else if err != nil {
		return nil, 0, err
	}
	raw, err := readfile.File(name, readfile.How{Limit: maxFile + 1, Again: true})
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return raw, permissions(st), err
}

// permissions are those of a file. Those of Windows are no modes.
func permissions(st fs.FileInfo) fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0o600
	}
	return st.Mode().Perm()
}

// writable is nil for a file that nobody but its owner may write to.
func writable(name string, mode fs.FileMode) error {
	if mode&0o022 == 0 {
		return nil
	}
	return fmt.Errorf("%s may be written by others than its owner (mode %04o), who could let themselves in; chmod go-w %[1]s", name, mode)
}

// mark is what some editors put before the first line of a file.
var mark = []byte("\ufeff")

// lines are those that say something, by their numbers.
func lines(raw []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		in := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(raw, mark)))
		in.Buffer(nil, maxFile+1)
		for n := 1; in.Scan(); n++ {
			line := strings.TrimSpace(in.Text())
			if line == "" || line[0] == '#' {
				continue
			}
			if !yield(n, line) {
				return
			}
		}
	}
}

// parse reads credentials, and reports whether tokens themselves are among them. number
// finds the number of a user.
func parse(raw []byte, number func(string) (int, error)) (c httpapi.Credentials, plain bool, err error) {
	for n, line := range lines(raw) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return c, false, fmt.Errorf("line %d: want ROLE[,ROLE] and a token, its hash (sha256:…) or a user (user:NAME), got one word", n)
		}
		roles, err := httpapi.ParseRoles(fields[0])
		if err != nil && wrong(fields[0]) == nil {
			err = errors.New("the first word is none of the roles producer, worker, read-only and operator; it looks like a token, which comes behind them")
		}
		if err != nil {
			return c, false, fmt.Errorf("line %d: %w", n, err)
		}
		sum, isHash := strings.CutPrefix(fields[1], hashed)
		name, isUser := strings.CutPrefix(fields[1], ofUser)
		held := httpapi.Credential{Roles: roles}
		switch {
		case isUser:
			id, err := number(name)
			if err != nil {
				return c, false, fmt.Errorf("line %d: %w", n, err)
			}
			if c.Users == nil {
				c.Users = map[int]httpapi.Role{}
			}
			c.Users[id] |= roles
			continue
		case isHash:
			if b, err := hex.DecodeString(sum); err != nil || copy(held.Hash[:], b) != sha256.Size || len(b) != sha256.Size {
				return c, false, fmt.Errorf("line %d: behind sha256: stand 64 hexadecimal digits, as outrider token hash prints them", n)
			}
		default:
			if err := wrong(fields[1]); err != nil {
				return c, false, fmt.Errorf("line %d: %w", n, err)
			}
			held.Hash, plain = sha256.Sum256([]byte(fields[1])), true
		}
		c.Tokens = append(c.Tokens, held)
	}
	if len(c.Tokens)+len(c.Users) == 0 {
		return c, false, errors.New("there is no credential in it, so nobody could ask anything; outrider token new ROLE makes one")
	}
	return c, plain, nil
}

// wrong says what is wrong with a token, and does not repeat it.
func wrong(token string) error {
	if n := len(token); n < shortest || n > longest {
		return fmt.Errorf("a token has %d to %d characters, this one has %d; outrider token new ROLE makes one", shortest, longest, n)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return errors.New("a token has visible ASCII characters only")
		}
	}
	return nil
}

func userNumber(name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil && id >= 0 {
		return id, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no user %q on this machine; its number will do, too", name)
	}
	return strconv.Atoi(u.Uid)
}

// New makes a token of 256 random bits.
func New() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return "ort_" + base64.RawURLEncoding.EncodeToString(b[:])
}

// Line is what a server's file has for a token: its roles and its hash. It is wrong for a
// token that no file may have.
func Line(roles httpapi.Role, token string) (string, error) {
	if err := wrong(token); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s%x", roles, hashed, sha256.Sum256([]byte(token))), nil
}

// Append adds a line to a file, which is made if it is not there, for its owner alone. It is
// not added to one that a server would refuse because others may write to it.
func Append(name, line string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = writable(name, permissions(st))
	}
	if err == nil && st.Size() > 0 { // the last line may have no end
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
