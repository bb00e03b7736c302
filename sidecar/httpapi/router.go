package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// router serves the table, each row behind what it asks of its caller.
func (a *api) router() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = a.fail
	e.Pre(a.enter)
	table := a.routes()
	a.named = endpoints(table)
	words := fixedWords(table)
	for _, r := range table {
		h := a.only(r, r.handle)
		h = unswallowed(words, r, h)
		e.Add(r.Method, r.Path, h)
		if r.Method == http.MethodGet {
			e.Add(http.MethodHead, r.Path, h)
		}
	}
	return e
}

// endpoints are the paths that are read without a parameter, by names, for the manifest.
func endpoints(table []Route) (named [][2]string) {
	for _, r := range table {
		name, below := strings.CutPrefix(r.Path, v1+"/")
		if below && r.Method == http.MethodGet && !strings.Contains(name, ":") {
			named = append(named, [2]string{strings.NewReplacer("/", "_", "-", "_").Replace(name), r.Path})
		}
	}
	return named
}

// fixedWords are the last words of the paths of a table, by what stands before them, and
// with the methods of each: where another row has a parameter, they are no value of it.
func fixedWords(table []Route) map[string]map[string][]string {
	words := map[string]map[string][]string{}
	for _, r := range table {
		parent, word := cutLast(r.Path)
		if strings.HasPrefix(word, ":") {
			continue
		}
		if words[parent] == nil {
			words[parent] = map[string][]string{}
		}
		words[parent][word] = append(words[parent][word], r.Method)
	}
	return words
}

func cutLast(path string) (parent, word string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// unswallowed refuses what a parameter at the end of a path would swallow: the word of
// another endpoint, asked with a method that it does not have (contract §1.1).
func unswallowed(words map[string]map[string][]string, r Route, h echo.HandlerFunc) echo.HandlerFunc {
	parent, parameter := cutLast(r.Path)
	fixed := words[parent]
	if !strings.HasPrefix(parameter, ":") || len(fixed) == 0 {
		return h
	}
	return func(c echo.Context) error {
		if methods := fixed[param(c, parameter[1:])]; methods != nil {
			c.Response().Header().Set(echo.HeaderAllow, strings.Join(append(methods, http.MethodOptions), ", "))
			return echo.ErrMethodNotAllowed
		}
		return h(c)
	}
}
