package tokens

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

const plain = "a-token-that-no-error-repeats"

func users(name string) (int, error) {
	switch name {
	case "app":
		return 1001, nil
	case "0":
		return 0, nil
	}
	return 0, errors.New("there is no user")
}

func TestFilesOfTokens(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(plain)))
	both := httpapi.Producer | httpapi.Worker
	for _, tt := range []struct {
		name, text string
		tokens     []httpapi.Role
		users      map[int]httpapi.Role
		plain      bool
	}{
		{"a hash", "operator sha256:" + sum, []httpapi.Role{httpapi.Operator}, nil, false},
		{"a token", "producer,worker " + plain + "\n", []httpapi.Role{both}, nil, true},
		{"comments and space", "# none\n\n  # shop\n\tread-only\t" + plain + "   the shop, since May\r\n", []httpapi.Role{httpapi.ReadOnly}, nil, true},
		{"several of a role", "worker sha256:" + sum + "\nworker sha256:" + strings.Repeat("0", 64) + " # the old one", []httpapi.Role{httpapi.Worker, httpapi.Worker}, nil, false},
		{"users", "worker user:app\nproducer user:app\noperator user:0", nil, map[int]httpapi.Role{1001: both, 0: httpapi.Operator}, false},
		{"a mark of an editor", "\ufeffworker " + plain, []httpapi.Role{httpapi.Worker}, nil, true},
		{"capitals in a hash", "operator sha256:" + strings.ToUpper(sum), []httpapi.Role{httpapi.Operator}, nil, false},
	} {
		c, isPlain, err := parse([]byte(tt.text), users)
		if err != nil || isPlain != tt.plain || len(c.Tokens) != len(tt.tokens) || fmt.Sprint(c.Users) != fmt.Sprint(tt.users) && len(c.Users)+len(tt.users) > 0 {
			t.Errorf("%s: got %+v, %v, %v", tt.name, c, isPlain, err)
			continue
		}
		for i, roles := range tt.tokens {
			if c.Tokens[i].Roles != roles {
				t.Errorf("%s: got the roles %s, want %s", tt.name, c.Tokens[i].Roles, roles)
			}
		}
		if len(tt.tokens) > 0 && c.Tokens[0].Hash != sha256.Sum256([]byte(plain)) {
			t.Errorf("%s: another hash", tt.name)
		}
	}
}

// A file that is wrong says where and why, and never repeats a token.
func TestBadFilesOfTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "no credential",
		"# nothing\n":                          "no credential",
		plain:                                  "line 1: want ROLE",
		"operator":                             "line 1: want ROLE",
		"\n" + plain + " operator":             "line 2: ",
		"admin " + plain:                       "line 1: \"admin\" is no role",
		"operator short":                       "16 to 512",
		"operator " + strings.Repeat("x", 513): "16 to 512",
		"operator tokén-" + plain:              "ASCII",
		"operator sha256:12":                   "64 hexadecimal",
		"operator sha256:" + strings.Repeat("g", 64): "64 hexadecimal",
		"operator sha256:" + strings.Repeat("0", 66): "64 hexadecimal",
		"operator user:nobody-here":                  "no user",
		"operator user:-5":                           "no user",
	} {
		_, _, err := parse([]byte(text), users)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), plain[:8]) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestWhoMayReadAFileOfTokens(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are no modes there")
	}
	line, err := Line(httpapi.Worker, plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"worker " + plain, 0o600, ""}, {"worker " + plain, 0o400, ""}, {"worker " + plain, 0o640, "chmod 600"}, {"worker " + plain, 0o604, "chmod 600"},
		{line, 0o644, ""}, {line, 0o440, ""}, {line, 0o664, "chmod go-w"}, {line, 0o602, "chmod go-w"},
	} {
		name := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(name, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(name)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%q with mode %o: got %v, want %q", tt.text, tt.mode, err, tt.want)
		}
	}
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		name := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(name, []byte("# shop\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		err := Append(name, line)
		if raw, _ := os.ReadFile(name); err == nil || !strings.Contains(err.Error(), "chmod go-w") || string(raw) != "# shop\n" {
			t.Errorf("a line for a file of mode %o: %v, %q", mode, err, raw)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "token new") {
		t.Errorf("no file: %v", err)
	}
}

// What is made is taken, by a server and by a client, and a file grows by whole lines.
func TestMadeTokensAreTaken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	seen := map[string]bool{}
	for i, roles := range []httpapi.Role{httpapi.Operator, httpapi.Worker | httpapi.ReadOnly} {
		token := New()
		if seen[token] || len(token) < 40 {
			t.Errorf("made %q", token)
		}
		seen[token] = true
		line, err := Line(roles, token)
		if err == nil {
			err = Append(name, line)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := Load(name)
		if err != nil || len(c.Tokens) != i+1 || c.Tokens[i].Roles != roles || c.Tokens[i].Hash != sha256.Sum256([]byte(token)) {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the file has mode %v, %v", st.Mode(), err)
	}
	if _, err := Own(name); err == nil || !strings.Contains(err.Error(), "itself") {
		t.Errorf("a client took a hash: %v", err)
	}
	if err := os.WriteFile(name, []byte("# cut"), 0o600); err != nil { // without a line feed
		t.Fatal(err)
	}
	if err := Append(name, "worker "+plain); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", plain, plain + "\n", "# mine\n\n  " + plain + "  \n", "\ufeff" + plain, plain + " # of the shop", plain + " and-a-long-remark", "worker user:app\r\nworker,producer " + plain + " # of the shop\r\n"} {
		if text != "" {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if token, err := Own(name); token != plain || err != nil {
			t.Errorf("%q: got %q, %v", text, token, err)
		}
	}
}
