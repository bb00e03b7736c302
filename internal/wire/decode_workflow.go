package wire

import "github.com/outrider-jobs/outrider/job"

var callbackNames = []string{job.OnComplete, job.OnSuccess, job.OnFailure}

// DecodeWorkflow reads the body of POST /ojs/v1/workflows.
func DecodeWorkflow(raw []byte) (job.WorkflowSpec, error) { return job.ParseWorkflow(raw) }

// WorkflowBody is the body of POST /ojs/v1/workflows. The workflow must be valid.
func WorkflowBody(s job.WorkflowSpec) []byte { return s.AppendBody(make([]byte, 0, 256)) }
