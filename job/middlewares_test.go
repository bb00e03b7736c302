package job

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestChainKeepsOrder(t *testing.T) {
	t.Parallel()
	var c Middlewares[func()]
	m := func() {}
	for _, step := range []struct {
		do   func() error
		want string
		kind Kind // of the error, if fails
		fail string
	}{
		{do: func() error { return c.Add("b", m) }, want: "b"},
		{do: func() error { return c.Add("d", m) }, want: "b d"},
		{do: func() error { return c.InsertBefore("b", "a", m) }, want: "a b d"},
		{do: func() error { return c.InsertAfter("b", "c", m) }, want: "a b c d"},
		{do: func() error { return c.InsertAfter("d", "e", m) }, want: "a b c d e"},
		{do: func() error { return c.InsertBefore("c", "bb", m) }, want: "a b bb c d e"},
		{do: func() error { return c.Add("c", m) }, want: "a b bb c d e", kind: Duplicate, fail: `middleware "c" is in the chain already`},
		{do: func() error { return c.InsertAfter("a", "e", m) }, want: "a b bb c d e", kind: Duplicate, fail: `middleware "e" is in the chain already`},
		{do: func() error { return c.InsertBefore("a", "a", m) }, want: "a b bb c d e", kind: Duplicate, fail: `middleware "a" is in the chain already`},
		{do: func() error { return c.InsertAfter("x", "f", m) }, want: "a b bb c d e", kind: NotFound, fail: `there is no middleware "x" in the chain`},
		{do: func() error { return c.InsertBefore("x", "f", m) }, want: "a b bb c d e", kind: NotFound, fail: `there is no middleware "x" in the chain`},
		{do: func() error { return c.Remove("x") }, want: "a b bb c d e", kind: NotFound, fail: `there is no middleware "x" in the chain`},
		{do: func() error { return c.Add("", m) }, want: "a b bb c d e", kind: Invalid, fail: `middleware "": it needs a name and a function`},
		{do: func() error { return c.Add("f", nil) }, want: "a b bb c d e", kind: Invalid, fail: `middleware "f": it needs a name and a function`},
		{do: func() error { return c.Remove("a") }, want: "b bb c d e"},
		{do: func() error { return c.Remove("e") }, want: "b bb c d"},
		{do: func() error { return c.Remove("c") }, want: "b bb d"},
		{do: func() error { return c.Add("c", m) }, want: "b bb d c"},
	} {
		err := step.do()
		var e *Error
		if errors.As(err, &e); e == nil && step.fail != "" || e != nil && (e.Message != step.fail || e.Kind != step.kind) {
			t.Errorf("at %q: got %v, want %q", step.want, err, step.fail)
		}
		if got := strings.Join(c.Names(), " "); got != step.want {
			t.Fatalf("got %q, want %q", got, step.want)
		}
	}
}

func TestChainOfNobodyIsEmpty(t *testing.T) {
	t.Parallel()
	var none *Middlewares[func()]
	if len(none.Links()) != 0 || len(none.Names()) != 0 || len(new(Middlewares[func()]).Links()) != 0 {
		t.Error("a chain nobody made has links")
	}
}

// What was read of a chain stays as it was, whatever becomes of the chain.
func TestChainLinksDoNotChange(t *testing.T) {
	t.Parallel()
	var c Middlewares[func() string]
	for _, name := range []string{"a", "b", "c"} {
		if err := c.Add(name, func() string { return name }); err != nil {
			t.Fatal(err)
		}
	}
	before := c.Links()
	for _, err := range []error{c.Remove("a"), c.InsertBefore("b", "x", func() string { return "x" }), c.Remove("c"), c.Add("y", func() string { return "y" })} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(links []Link[func() string]) (out []string) {
		for _, l := range links {
			out = append(out, l.Name+l.Func())
		}
		return out
	}
	if got, want := read(before), []string{"aa", "bb", "cc"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the old list is %v, want %v", got, want)
	}
	if got, want := read(c.Links()), []string{"xx", "bb", "yy"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the new list is %v, want %v", got, want)
	}
}

func TestChainIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var c Middlewares[func()]
	if err := c.Add("fixed", func() {}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 200 {
				name := fmt.Sprint(n, "-", i)
				for _, err := range []error{c.InsertBefore("fixed", name, func() {}), c.InsertAfter(name, name+"+", func() {}), c.Remove(name)} {
					if err != nil {
						t.Error(err)
					}
				}
				_ = c.Names()
			}
		})
	}
	wg.Wait()
	if got := len(c.Names()); got != 8*200+1 {
		t.Errorf("%d links, want %d", got, 8*200+1)
	}
}
