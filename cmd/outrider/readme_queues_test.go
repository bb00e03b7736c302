package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTheQueuesOfREADME does what the commands say, word for word but for the address.
func TestTheQueuesOfREADME(t *testing.T) {
	server, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	ran := 0
	for command := range strings.SplitSeq(strings.ReplaceAll(block(t, "Queues", "sh"), "\\\n", " "), "\n") {
		if command == "" {
			continue
		}
		var words []string
		for i, part := range strings.Split(command, "'") { // what is quoted is one word
			if i%2 == 1 {
				words = append(words, part)
			} else {
				words = append(words, strings.Fields(part)...)
			}
		}
		method, path, body, header := "", "", "", http.Header{}
		for i := 1; i < len(words); i++ {
			switch words[i] {
			case "-s":
			case "-X":
				i++
				method = words[i]
			case "-H":
				i++
				name, value, _ := strings.Cut(words[i], ": ")
				header.Set(name, value)
			case "-d":
				i++
				body = words[i]
			default:
				_, path, _ = strings.Cut(words[i], "http://127.0.0.1:8080")
			}
		}
		if method == "" && body != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequest(method, server+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Errorf("%s: %d %s", command, resp.StatusCode, answer)
		}
		ran++
	}
	if ran != 7 {
		t.Errorf("%d commands were run", ran)
	}
}
