// Package schemas holds args of jobs to JSON Schemas, draft 2020-12. It compiles them
// and says where args do not fit. It may import job and nothing else of ours, and
// decides neither which schema a job has nor where schemas are kept. It never reads a
// schema from anywhere: what refers to another document is refused.
package schemas
