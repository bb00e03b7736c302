package httpapi

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// fakeSchemas is a job.SchemaService made of functions, as fake is.
type fakeSchemas struct {
	put     func(context.Context, job.Schema) (job.Schema, error)
	schemas func(context.Context, job.SchemaFilter) ([]job.Schema, error)
}

func (f *fakeSchemas) PutSchema(ctx context.Context, s job.Schema) (job.Schema, error) {
	if f.put == nil {
		return s, nil
	}
	return f.put(ctx, s)
}

func (f *fakeSchemas) Schemas(ctx context.Context, sf job.SchemaFilter) ([]job.Schema, error) {
	if f.schemas == nil {
		return nil, nil
	}
	return f.schemas(ctx, sf)
}

func (f *fakeSchemas) Schema(ctx context.Context, name string) (job.Schema, error) {
	all, err := f.Schemas(ctx, job.SchemaFilter{})
	if err != nil {
		return job.Schema{}, err
	}
	return job.Latest(all, name)
}

func (f *fakeSchemas) DeleteSchema(ctx context.Context, uri string) (job.Schema, error) {
	return f.Schema(ctx, uri)
}
