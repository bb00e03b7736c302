//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestKillsDuringTheFirstStart: whenever a first start is killed, the next one
// works. OUTRIDER_KILLS says how many, 36 by itself.
func TestKillsDuringTheFirstStart(t *testing.T) {
	t.Parallel()
	kills := 36
	if s := os.Getenv("OUTRIDER_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	serve := func() (k *keeper, url string) {
		addr := freePort(t)
		return keep(t, "server", "serve", "--listen", addr, "--db", filepath.Join(t.TempDir(), "jobs.db")), "http://" + addr
	}
	began := time.Now()
	k, url := serve()
	up(t, k, url)
	whole := time.Since(began)
	k.kill()
	for killed := 0; killed < kills; {
		k, url := serve()
		for range 1 + rand.IntN(3) {
			time.Sleep(rand.N(whole))
			k.kill()
			killed++
			k.start()
		}
		up(t, k, url)
		k.kill()
	}
}
