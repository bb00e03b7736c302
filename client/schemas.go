package client

import (
	"context"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// PutSchema registers a schema; see [job.SchemaService].
func (c *Client) PutSchema(ctx context.Context, s job.Schema) (job.Schema, error) {
	s, err := s.Normalize() // only a valid one can be encoded
	if err != nil {
		return job.Schema{}, err
	}
	return ask(ctx, c, post("/schemas", wire.SchemaBody(s)), wire.ReadSchema)
}

// Schema reads a schema; see [job.SchemaService].
func (c *Client) Schema(ctx context.Context, name string) (job.Schema, error) {
	return ask(ctx, c, get(schemaPath(name)).unless(noSchema(name)), wire.ReadSchema)
}

// Schemas lists schemas; see [job.SchemaService]. More than 200 are read in several
// requests.
func (c *Client) Schemas(ctx context.Context, f job.SchemaFilter) ([]job.Schema, error) {
	return listedWith(ctx, c, "/schemas", wire.SchemasQuery(f), wire.ReadSchemas)
}

// DeleteSchema removes a schema; see [job.SchemaService].
func (c *Client) DeleteSchema(ctx context.Context, uri string) (job.Schema, error) {
	s, err := c.Schema(ctx, uri)
	if err == nil && s.URI != uri {
		err = job.NoSchema(uri) // it is a type
	}
	if err != nil {
		return job.Schema{}, err
	}
	_, err = ask(ctx, c, remove(schemaPath(uri)), wire.ReadSchemaDeleted)
	return s, err
}

func schemaPath(name string) string { return "/schemas/" + url.PathEscape(name) }

// noSchema is the NotFound for what is neither a URI nor a type.
func noSchema(name string) error {
	if name != "" && name != "." && name != ".." {
		return nil
	}
	return job.NoSchema(name)
}
