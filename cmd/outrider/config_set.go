package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/memory"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/webhooks"
)

// What the settings are held to: each setter reads the text of one, and says what
// it must be if it is not that.

func setDB(c *config, v string) error {
	if c.db = v; strings.Contains(v, "://") {
		return fmt.Errorf("must be a file on this machine; use --outbox for your app's database")
	}
	return nil
}

func setLogLevel(c *config, v string) error {
	if err := c.logLevel.UnmarshalText([]byte(v)); err != nil {
		return fmt.Errorf("must be debug, info, warn or error")
	}
	return nil
}

func setGrace(c *config, v string) (err error) {
	if c.grace, err = time.ParseDuration(v); err != nil || c.grace < 0 {
		return fmt.Errorf("must be a duration such as 30s or 2m")
	}
	return nil
}

func setTimeout(c *config, v string) (err error) {
	if c.timeout, err = time.ParseDuration(v); err != nil || c.timeout < 0 {
		return fmt.Errorf("must be a duration such as 30m or 2h, or 0 for no limit")
	}
	if c.timeout == 0 {
		c.timeout = -1
	}
	return nil
}

func setSilence(c *config, v string) (err error) {
	c.silence, err = time.ParseDuration(v)
	if err != nil || c.silence < sidecar.MinSilence || c.silence > sidecar.MaxSilence {
		return fmt.Errorf("must be a duration from %gs to %gh, such as 45s or 2m", sidecar.MinSilence.Seconds(), sidecar.MaxSilence.Hours())
	}
	return nil
}

// setExhaustion reads the end of jobs that have failed for good, of all or of one queue.
func setExhaustion(c *config, v string) error {
	queue, end, one := strings.Cut(v, "=")
	if !one {
		end = v
	}
	if end != job.OnExhaustionDiscard && end != job.OnExhaustionDeadLetter {
		return fmt.Errorf("must be discard or dead_letter, or QUEUE=discard or QUEUE=dead_letter")
	}
	if !one {
		c.rules.OnExhaustion = end
		return nil
	}
	if !job.ValidQueue(queue) {
		return fmt.Errorf("must name a queue before the =, and %q cannot be one", queue)
	}
	if c.rules.OnExhaustionOf == nil {
		c.rules.OnExhaustionOf = map[string]string{}
	}
	c.rules.OnExhaustionOf[queue] = end
	return nil
}

func setRequeues(c *config, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("must be a number of 0 or more")
	}
	if c.rules.Releases = n; n == 0 {
		c.rules.Releases = -1 // 0 is the default there
	}
	return nil
}

func setMemoryLimit(c *config, v string) (err error) {
	if c.memoryLimit, err = memory.ParseSize(v); err != nil || c.memoryLimit < memory.Least {
		return fmt.Errorf("must be a size of %dMB or more, such as 256MB, 1GB or a number of bytes", memory.Least>>20)
	}
	return nil
}

// How servers with the same schedules agree on who makes the job of a tick.
const (
	withNone   = "none"
	withOutbox = "outbox"
)

// setWord takes one of some words.
func setWord(into func(c *config, word string), words ...string) func(*config, string) error {
	return func(c *config, v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("must be %s", strings.Join(words, " or "))
		}
		into(c, v)
		return nil
	}
}

func setBool(into func(*config) *bool) func(*config, string) error {
	return func(c *config, v string) (err error) {
		if *into(c), err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("must be true or false")
		}
		return nil
	}
}

// setNumber reads a number between two others.
func setNumber(least, most int, into func(*config) *int) func(*config, string) error {
	return func(c *config, v string) (err error) {
		if *into(c), err = strconv.Atoi(v); err != nil || *into(c) < least || *into(c) > most {
			return fmt.Errorf("must be a number from %d to %d", least, most)
		}
		return nil
	}
}

// hostAndPort is an address without the scheme, as people write it.
var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):[0-9]+/?$`)

// setServer takes the address of a job server.
func setServer(into func(*config) *string) func(*config, string) error {
	return func(c *config, v string) error {
		if hostAndPort.MatchString(v) {
			v = "http://" + v
		}
		if _, err := client.New(v, client.Options{}); err != nil {
			return fmt.Errorf("must be http://host:port, https://host:port or unix:///path")
		}
		*into(c) = v
		return nil
	}
}

// setDuration reads a duration of at least least; empty is none.
func setDuration(least time.Duration, into func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, v string) (err error) {
		if v == "" {
			return nil
		}
		d, err := time.ParseDuration(v)
		if err != nil || d < least {
			return fmt.Errorf("must be a duration such as 30s or 200ms, %v or more", least)
		}
		*into(c) = d
		return nil
	}
}

// setWebhookTarget takes one place more where events may be sent.
func setWebhookTarget(c *config, v string) (err error) {
	c.allowed = append(c.allowed, strings.TrimSpace(v))
	c.webhooks, err = webhooks.ParseAllowed(c.allowed...)
	return err
}

func setPokeSocket(c *config, v string) error {
	path, err := filepath.Abs(strings.TrimPrefix(v, "unix://"))
	if err != nil {
		return err
	}
	a, err := netguard.ParseSocket(path)
	c.pokeSocket = a.Where
	return err
}

// coherent refuses settings that are right one by one and wrong together.
func (c config) coherent() error {
	if c.relay.Keep > 0 && c.relay.Release == outbox.OnComplete {
		return usage("--outbox-keep does not work with --outbox-release on_complete, which keeps a row until its job has ended; leave out --outbox-keep, or use --outbox-release on_relay")
	}
	if err := c.exposed(); err != nil {
		return err
	}
	for i, d := range c.outboxes {
		if n := slices.IndexFunc(c.outboxes[:i], d.Same); n >= 0 {
			return usage("the outbox %s is given twice, first as %s; two relays of one server on one outbox would take each other's rows, so leave one out", d, c.outboxes[n])
		}
	}
	return nil
}
