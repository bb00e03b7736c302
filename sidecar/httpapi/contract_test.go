package httpapi

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// docs/contract.md names every endpoint, and none that is not there.
func TestTheContractNamesEveryEndpoint(t *testing.T) {
	page, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(GET|POST|PUT|PATCH|DELETE) (/[^`? ]*)[^`]*`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]+" "+m[2]] = true
	}
	served := map[string]bool{}
	for _, r := range newEcho(struct{ job.Service }{}, Options{}).Routes() {
		if r.Method != "HEAD" && !strings.Contains(r.Path, "*") {
			served[Route{Method: r.Method, Path: r.Path}.String()] = true
		}
	}
	for endpoint := range served {
		if !named[endpoint] {
			t.Errorf("docs/contract.md does not name %s", endpoint)
		}
	}
	for endpoint := range named {
		if !served[endpoint] {
			t.Errorf("docs/contract.md names %s, which is not served", endpoint)
		}
	}
}
