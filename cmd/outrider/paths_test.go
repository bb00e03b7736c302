package main

import (
	"encoding/json"
	"os"

	"github.com/outrider-jobs/outrider/internal/self"
)

// The paths of the API that these tests ask at.
const (
	pathPush  = "/ojs/v1/jobs"
	pathFetch = "/ojs/v1/workers/fetch"
	pathAck   = "/ojs/v1/workers/ack"
	pathNext  = "/ojs/v1/workers/next"
)

// fetchedJob is what a worker must name to acknowledge a job.
type fetchedJob struct{ id, token string }

// appendClaims adds the jobs of an answer to FETCH.
func appendClaims(to []fetchedJob, answer []byte) ([]fetchedJob, error) {
	var fetched struct {
		Jobs []struct {
			ID    string `json:"id"`
			Token string `json:"lease_token"`
		} `json:"jobs"`
	}
	err := json.Unmarshal(answer, &fetched)
	for _, j := range fetched.Jobs {
		to = append(to, fetchedJob{j.ID, j.Token})
	}
	return to, err
}

// bare is the environment of this process without the settings of outrider.
func bare() []string { return self.WithoutSettings(os.Environ()) }
