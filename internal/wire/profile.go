package wire

import "github.com/outrider-jobs/outrider/job"

// Profile is one of the three dialects of an answer. The OJS-Version header of
// the request chooses it (contract §1.1).
type Profile int

// The three profiles. [Bare], the zero value, is for requests without the header.
const (
	Bare Profile = iota
	RC1          // OJS-Version: 1.0.0-rc.1
	V1           // OJS-Version: 1.0
)

// MediaType is the content type of every body (contract §1.1).
const MediaType = "application/openjobspec+json"

// ProfileOf is the profile that an OJS-Version header asks for; the empty
// string is no header. Another version is Unsupported, and comes with Bare.
func ProfileOf(version string) (Profile, error) {
	switch version {
	case "":
		return Bare, nil
	case job.SpecVersion:
		return RC1, nil
	case "1.0", "1.0.0", "1":
		return V1, nil
	}
	return Bare, job.Errorf(job.Unsupported, "OJS-Version %.40q is not supported", version).
		With(map[string]any{"requested": version, "supported": []string{job.SpecVersion, "1.0"}})
}

// Version is the value of the OJS-Version header in answers.
func (p Profile) Version() string {
	if p == V1 {
		return "1.0"
	}
	return job.SpecVersion
}

// ContentType is the value of the Content-Type header in answers. One client of
// the 1.0 generation drops bodies unless it reads "application/json" in it.
func (p Profile) ContentType() string {
	if p == V1 {
		return MediaType + `; compat="application/json"`
	}
	return MediaType
}
