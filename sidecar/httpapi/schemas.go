package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// deleteSchemaVersion removes one version of a schema.
func (a *api) deleteSchemaVersion(c echo.Context) error {
	f, err := schemaVersion(c)
	if err != nil {
		return err
	}
	find := func(ctx context.Context, _ string) (job.Schema, error) { return a.versioned(ctx, f) }
	return handle(fromPath("name"), a.deleteSchema(find), wire.AppendSchemaDeleted)(c)
}

// putSchema makes the handler that registers a schema, whose type and version the path
// may name.
func (a *api) putSchema(write func([]byte, job.Schema) []byte, named bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		var s job.Schema
		if named {
			s.Type, s.Version = param(c, "name"), wire.PathVersion(param(c, "version"))
		}
		raw, err := body(c, wire.MaxSchemaBytes)
		if err != nil {
			return err
		}
		if s, err = wire.DecodeSchema(raw, s); err != nil {
			return err
		}
		if s, err = a.svc.PutSchema(c.Request().Context(), s); err != nil {
			return err
		}
		c.Response().Header().Set("Location", "/ojs/v1/schemas/"+url.PathEscape(s.URI))
		return reply(c, http.StatusCreated, func(dst []byte) []byte { return write(dst, s) })
	}
}

// schemaVersion is the type and the version that a path names.
func schemaVersion(c echo.Context) (job.SchemaFilter, error) {
	return job.SchemaFilter{Type: param(c, "name"), Version: param(c, "version")}, nil
}

// versioned reads the schema of a type and a version.
func (a *api) versioned(ctx context.Context, f job.SchemaFilter) (job.Schema, error) {
	all, err := a.svc.Schemas(ctx, f)
	if err == nil && len(all) == 0 {
		err = job.NoSchema(f.Type + " " + f.Version)
	}
	if err != nil {
		return job.Schema{}, err
	}
	return all[0], nil
}

// schemaVersions lists the schemas of one type.
func (a *api) schemaVersions(write func([]byte, []job.Schema, wire.Paging) []byte) echo.HandlerFunc {
	return func(c echo.Context) error {
		decode := func(q url.Values) (job.SchemaFilter, wire.Paging, error) {
			f, p, err := wire.DecodeSchemaFilter(q)
			f.Type = param(c, "name")
			return f, p, err
		}
		return handleList(decode, a.svc.Schemas, write)(c)
	}
}

// deleteSchema makes the step that deletes what find finds.
func (a *api) deleteSchema(find func(context.Context, string) (job.Schema, error)) func(context.Context, string) (job.Schema, error) {
	return func(ctx context.Context, name string) (job.Schema, error) {
		s, err := find(ctx, name)
		if err != nil {
			return s, err
		}
		return a.svc.DeleteSchema(ctx, s.URI)
	}
}
