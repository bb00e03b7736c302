package job

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// Middlewares is an ordered list of named middleware (ojs-core.md §9): the first is
// the outermost. M is the function type of a chain: package sidecar has one
// around PUSH, package client one around handlers.
//
// The zero value is an empty chain, and so is a nil *Middlewares for who reads it.
// It is safe for concurrent use: what walks it sees it as it was when the
// walk began. It must not be copied.
type Middlewares[M any] struct {
	mu    sync.Mutex // held by who changes links
	links atomic.Pointer[[]Link[M]]
}

// Link is one middleware of a chain.
type Link[M any] struct {
	Name string
	Func M
}

// Add puts a middleware at the end, nearest to what the chain is around.
// Duplicate when the name is taken, Invalid when it is empty or m is nil.
func (c *Middlewares[M]) Add(name string, m M) error {
	return c.insert(name, m, func(links []Link[M]) (int, error) { return len(links), nil })
}

// InsertBefore puts a middleware directly outside the one named mark. NotFound
// when there is no such, otherwise as Add.
func (c *Middlewares[M]) InsertBefore(mark, name string, m M) error {
	return c.insert(name, m, func(links []Link[M]) (int, error) { return place(links, mark) })
}

// InsertAfter puts a middleware directly inside the one named mark. NotFound
// when there is no such, otherwise as Add.
func (c *Middlewares[M]) InsertAfter(mark, name string, m M) error {
	return c.insert(name, m, func(links []Link[M]) (int, error) {
		i, err := place(links, mark)
		return i + 1, err
	})
}

// Remove takes a middleware out, or returns NotFound.
func (c *Middlewares[M]) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	links := c.Links()
	i, err := place(links, name)
	if err != nil {
		return err
	}
	c.set(slices.Concat(links[:i], links[i+1:]))
	return nil
}

// Names lists the middleware, the outermost first.
func (c *Middlewares[M]) Names() []string {
	links := c.Links()
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.Name
	}
	return names
}

// Links is the chain as it is now, the outermost first. It never changes, and
// the caller must not change it either.
func (c *Middlewares[M]) Links() []Link[M] {
	if c == nil {
		return nil
	}
	if links := c.links.Load(); links != nil {
		return *links
	}
	return nil
}

// insert puts a middleware where at says. Who reads the old list keeps it whole:
// every change makes a new one.
func (c *Middlewares[M]) insert(name string, m M, at func([]Link[M]) (int, error)) error {
	if v := reflect.ValueOf(m); name == "" || !v.IsValid() || v.Kind() == reflect.Func && v.IsNil() {
		return Errorf(Invalid, "middleware %q: it needs a name and a function", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	links := c.Links()
	if _, err := place(links, name); err == nil {
		return Errorf(Duplicate, "middleware %q is in the chain already", name)
	}
	i, err := at(links)
	if err != nil {
		return err
	}
	c.set(slices.Concat(links[:i], []Link[M]{{name, m}}, links[i:]))
	return nil
}

func (c *Middlewares[M]) set(links []Link[M]) { c.links.Store(&links) }

// place is where a middleware stands.
func place[M any](links []Link[M], name string) (int, error) {
	i := slices.IndexFunc(links, func(l Link[M]) bool { return l.Name == name })
	if i < 0 {
		return 0, Errorf(NotFound, "there is no middleware %q in the chain", name)
	}
	return i, nil
}
