package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
)

// Most handlers do the same three things: they read the request, ask the service
// and write its answer. The functions below put such a handler together, so that
// a route names the three steps. What does more has a function of its own.

// handle makes the handler that reads a request, asks, and writes the answer.
func handle[In, Out any](read func(echo.Context) (In, error), ask func(context.Context, In) (Out, error),
	write func(dst []byte, out Out) []byte) echo.HandlerFunc {
	return handleBoth(read, ask, func(dst []byte, _ In, out Out) []byte { return write(dst, out) })
}

// handleBoth is handle for an answer that repeats something of the request.
func handleBoth[In, Out any](read func(echo.Context) (In, error), ask func(context.Context, In) (Out, error),
	write func(dst []byte, in In, out Out) []byte) echo.HandlerFunc {
	return func(c echo.Context) error {
		in, err := read(c)
		if err != nil {
			return err
		}
		out, err := ask(c.Request().Context(), in)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return write(dst, in, out) })
	}
}

// handleList makes the handler of a list whose query has a filter.
func handleList[Filter, Page any](decode func(url.Values) (Filter, wire.Paging, error), ask func(context.Context, Filter) (Page, error),
	write func(dst []byte, page Page, p wire.Paging) []byte) echo.HandlerFunc {
	return func(c echo.Context) error {
		f, p, err := listed(c, decode)
		if err != nil {
			return err
		}
		page, err := ask(c.Request().Context(), f)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return write(dst, page, p) })
	}
}

// handleAll makes the handler of a list without a filter, which the service gives
// whole.
func handleAll[T any](ask func(context.Context) ([]T, error), write func(dst []byte, all []T, p wire.Paging) []byte) echo.HandlerFunc {
	return handleBoth(fromQuery(wire.DecodePages),
		func(ctx context.Context, _ wire.Paging) ([]T, error) { return ask(ctx) },
		func(dst []byte, p wire.Paging, all []T) []byte { return write(dst, all, p) })
}

// reply answers with what write makes.
func reply(c echo.Context, status int, write func(dst []byte) []byte) error {
	b := buffer()
	*b = write(*b)
	return send(c, status, b)
}

// fromBody reads a body of at most limit bytes.
func fromBody[T any](limit int64, decode func([]byte) (T, error)) func(echo.Context) (T, error) {
	return func(c echo.Context) (T, error) { return decoded(c, limit, decode) }
}

func decoded[T any](c echo.Context, limit int64, decode func([]byte) (T, error)) (v T, err error) {
	raw, err := body(c, limit)
	if err != nil {
		return v, err
	}
	return decode(raw)
}

// fromQuery reads the query.
func fromQuery[T any](decode func(url.Values) (T, error)) func(echo.Context) (T, error) {
	return func(c echo.Context) (v T, err error) {
		q, err := query(c)
		if err != nil {
			return v, err
		}
		return decode(q)
	}
}

// listed reads the query of a list: its filter, and which part of it is asked for.
func listed[Filter any](c echo.Context, decode func(url.Values) (Filter, wire.Paging, error)) (f Filter, p wire.Paging, err error) {
	q, err := query(c)
	if err != nil {
		return f, p, err
	}
	return decode(q)
}

// fromPath reads a path parameter that may be any text.
func fromPath(name string) func(echo.Context) (string, error) {
	return func(c echo.Context) (string, error) { return param(c, name), nil }
}
