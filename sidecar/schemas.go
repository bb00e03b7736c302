package sidecar

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar/schemas"
)

// registry are the schemas that args are held to, ready for use. What is stored is the
// truth; the service is the only one that writes it. It is safe for concurrent use.
type registry struct {
	count     atomic.Int64 // of byURI; -1 before they have been read
	mu        sync.RWMutex
	byURI     map[string]*schemas.Schema
	byVersion map[[2]string]*schemas.Schema // of a type and a version
}

// PutSchema registers a schema; see [job.SchemaService].
func (s *Sidecar) PutSchema(ctx context.Context, sc job.Schema) (job.Schema, error) {
	sc, err := sc.Normalize()
	if err != nil {
		return job.Schema{}, err
	}
	ready, err := schemas.Compile(sc)
	if err != nil {
		return job.Schema{}, err
	}
	if err := s.loadSchemas(ctx); err != nil {
		return job.Schema{}, err
	}
	sc.CreatedAt = s.now()
	s.schemas.mu.Lock() // a PUSH that comes after the answer must see it, and none before the commit
	defer s.schemas.mu.Unlock()
	if err := s.update(ctx, func(t *turn) error {
		all, err := t.Schemas()
		if err == nil && len(all) >= job.MaxSchemas {
			err = job.Errorf(job.TooLarge, "%d schemas are registered, and no more are kept; delete versions that no producer sends any more", len(all)).
				With(map[string]any{"size": len(all), "limit": job.MaxSchemas})
		}
		if err != nil {
			return err
		}
		return t.InsertSchema(sc)
	}); err != nil {
		return job.Schema{}, err
	}
	s.schemas.add(sc, ready)
	return sc, nil
}

func (r *registry) add(sc job.Schema, ready *schemas.Schema) {
	if r.byURI == nil {
		r.byURI, r.byVersion = map[string]*schemas.Schema{}, map[[2]string]*schemas.Schema{}
	}
	r.byURI[sc.URI], r.byVersion[[2]string{sc.Type, sc.VersionText()}] = ready, ready
	r.count.Store(int64(len(r.byURI)))
}

// DeleteSchema removes a schema; see [job.SchemaService].
func (s *Sidecar) DeleteSchema(ctx context.Context, uri string) (job.Schema, error) {
	if err := s.loadSchemas(ctx); err != nil {
		return job.Schema{}, err
	}
	s.schemas.mu.Lock()
	defer s.schemas.mu.Unlock()
	var gone job.Schema
	err := s.update(ctx, func(t *turn) error {
		all, err := t.Schemas()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(sc job.Schema) bool { return sc.URI == uri })
		if at < 0 {
			return job.NoSchema(uri)
		}
		gone = all[at]
		return t.DeleteSchema(uri)
	})
	if err != nil {
		return job.Schema{}, err
	}
	delete(s.schemas.byURI, uri)
	delete(s.schemas.byVersion, [2]string{gone.Type, gone.VersionText()})
	s.schemas.count.Store(int64(len(s.schemas.byURI)))
	return gone, nil
}

// Schema reads a schema; see [job.SchemaService].
func (s *Sidecar) Schema(ctx context.Context, name string) (job.Schema, error) {
	all, err := view(ctx, s, job.ReadTx.Schemas)
	if err != nil {
		return job.Schema{}, err
	}
	return job.Latest(all, name)
}

// Schemas lists schemas; see [job.SchemaService].
func (s *Sidecar) Schemas(ctx context.Context, f job.SchemaFilter) ([]job.Schema, error) {
	all, err := view(ctx, s, job.ReadTx.Schemas)
	all = slices.DeleteFunc(all, func(sc job.Schema) bool {
		return f.Type != "" && sc.Type != f.Type || f.Version != "" && sc.VersionText() != f.Version
	})
	slices.SortFunc(all, func(a, b job.Schema) int { return strings.Compare(a.URI, b.URI) })
	return all, err
}

// loadSchemas reads what is stored, once.
func (s *Sidecar) loadSchemas(ctx context.Context) error {
	r := &s.schemas
	if r.count.Load() >= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count.Load() >= 0 {
		return nil
	}
	all, err := view(ctx, s, job.ReadTx.Schemas)
	if err != nil {
		return err
	}
	for _, sc := range all {
		ready, err := schemas.Compile(sc)
		if err != nil { // it was compiled when it was registered, by another version of this program
			s.log.Error("a registered schema cannot be used any more; its jobs are not held to it", "schema", sc.URI, "error", err)
			continue
		}
		r.add(sc, ready)
	}
	r.count.Store(int64(len(r.byURI)))
	return nil
}

// fits holds jobs to their schemas, if any are registered, and to the check that they ask
// for themselves (contract §4.20). The first that does not fit refuses all.
func (s *Sidecar) fits(ctx context.Context, cs []job.Checked) error {
	if err := s.loadSchemas(ctx); err != nil {
		return err
	}
	some := s.schemas.count.Load() > 0
	for i := range cs {
		if some {
			if err := s.schemas.check(&cs[i]); err != nil {
				return atIndex(err, i, len(cs))
			}
		}
		if err := cs[i].SelfCheck(); err != nil {
			return atIndex(err, i, len(cs))
		}
	}
	return nil
}

// check is nil for a job that has no schema, or fits it.
func (r *registry) check(c *job.Checked) error {
	e := c.Envelope()
	if sc := r.of(&e); sc != nil {
		return sc.Check(e.Args)
	}
	return nil
}

// of is the schema of a job: the one that it names, else that of its type and version.
func (r *registry) of(e *job.Envelope) *schemas.Schema {
	uri, version := e.SchemaNames()
	if uri == "" && version == "" {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if sc := r.byURI[uri]; sc != nil {
		return sc
	}
	return r.byVersion[[2]string{e.Type, version}]
}
