package cronsched

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the laws of zones, where the system has none

	"github.com/outrider-jobs/outrider/internal/wording"
)

// zoneNames are the names of the IANA database, one a line. They serve to
// suggest; what counts as a zone is what the database at hand knows.
//
//go:embed zones.txt
var zoneNames string

// maxZone is how long the name of a zone may be; the longest has 32 bytes.
const maxZone = 64

var (
	zonePattern   = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*$`)
	offsetPattern = regexp.MustCompile(`^(?i:utc|gmt)?([+-])0?([0-9]{1,2})(:?00)?$`)
	anyOffset     = regexp.MustCompile(`^(?i:utc|gmt)?[+-][0-9:]+$`)
)

// noZones can be loaded and are no zones of IANA.
var noZones = []string{"Local", "Factory"}

// abbreviations are what people write for a zone, and what they most often mean.
var abbreviations = map[string]string{
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
	"MDT": "America/Denver", "CST": "America/Chicago", "CDT": "America/Chicago",
	"EDT": "America/New_York", "ET": "America/New_York", "AST": "America/Halifax",
	"BRT": "America/Sao_Paulo", "BST": "Europe/London", "WEST": "Europe/Lisbon", "CEST": "Europe/Berlin",
	"MEZ": "Europe/Berlin", "MESZ": "Europe/Berlin", "EEST": "Europe/Athens", "MSK": "Europe/Moscow",
	"IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "KST": "Asia/Seoul", "SGT": "Asia/Singapore",
	"HKT": "Asia/Hong_Kong", "AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "AWST": "Australia/Perth",
	"ACST": "Australia/Adelaide", "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland", "Z": "UTC",
}

// loadZone returns the zone of a name; an empty one is UTC. The fault is about
// the name alone.
func loadZone(name string) (*time.Location, *Fault) {
	if name == "" {
		return time.UTC, nil
	}
	if len(name) <= maxZone && zonePattern.MatchString(name) && !slices.Contains(noZones, name) {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	return nil, zoneFault(name)
}

func zoneFault(name string) *Fault {
	f := &Fault{Field: ofZone, Text: name, Length: max(1, len(name)), Suggestion: nearestZone(name)}
	switch {
	case len(name) > maxZone:
		f.Problem, f.Position, f.Length = fmt.Sprintf("a name of %d bytes is no IANA time zone", len(name)), maxZone, len(name)-maxZone
	case strings.EqualFold(name, "local"):
		f.Problem = fmt.Sprintf("%q is the zone of whichever machine it is read on, not a zone", name)
		f.Hint = "give the IANA name of the zone, such as Europe/Paris"
	case anyOffset.MatchString(name):
		f.Problem = fmt.Sprintf("%q is an offset, not an IANA time zone", name)
		if f.Hint = "give the IANA name of the zone, such as Europe/Paris, which knows when its clock is set"; f.Suggestion != "" {
			f.Hint = "a fixed offset, with the sign turned round as IANA has it"
		}
	case abbreviations[strings.ToUpper(name)] != "" && !strings.EqualFold(name, "Z"):
		f.Problem = fmt.Sprintf("%q is an abbreviation, not an IANA time zone", name)
	default:
		f.Problem = fmt.Sprintf("%q is no IANA time zone", wording.Printable(name))
		if f.Suggestion == "" {
			f.Hint = "give the IANA name of the zone, such as Europe/Paris"
		}
	}
	return f
}

// nearestZone is the zone that a name is probably a slip of, or empty.
func nearestZone(name string) string {
	if len(name) > maxZone {
		return ""
	}
	if z, ok := abbreviations[strings.ToUpper(name)]; ok {
		return z
	}
	all := strings.Fields(zoneNames)
	if m := offsetPattern.FindStringSubmatch(name); m != nil {
		turned := map[string]string{"+": "-", "-": "+"}[m[1]]
		if z := "Etc/GMT" + turned + m[2]; slices.Contains(all, z) {
			return z
		}
		return ""
	}
	plain := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"))
	best, limit := "", 1+len(plain)/8
	for _, z := range all {
		lower := strings.ToLower(z)
		if lower == plain {
			return z
		}
		d := wording.Distance(plain, lower)
		if i := strings.LastIndexByte(lower, '/'); i >= 0 && len(plain) > 3 {
			d = min(d, wording.Distance(plain, lower[i+1:]))
		}
		if d <= limit && len(plain) > 2 {
			best, limit = z, d-1
		}
	}
	return best
}
