package preflight

import "fmt"

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// Error: the agent does not start, or a part of it or of another daemon cannot work.
	Error Severity = "error"
	// Warning: everything can work now, with less than is configured or until something
	// usual happens.
	Warning Severity = "warning"
)

// Finding is one fault of a machine or of its configuration.
type Finding struct {
	// Check is the stable name of the check, for scripts.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// The fault, why it matters and its remedy, each a sentence.
	What   string `json:"what"`
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

// The names of checks.
const (
	checkFeature    = "kernel-feature"
	checkSysctl     = "sysctl"
	checkInterface  = "interface"
	checkSource     = "second-address"
	checkSession    = "session-taken"
	checkPort       = "bgp-port"
	checkLocator    = "locator-route"
	checkMTU        = "mtu"
	checkTable      = "table-in-use"
	checkRule       = "rule-in-use"
	checkMark       = "mark-in-use"
	checkNeighbour  = "neighbour"
	checkReflector  = "reflector"
	checkManager    = "network-manager"
	checkReversal   = "reverse-path-filter"
	checkEPEAddress = "epe-address"
	checkMachine    = "machine"
)

// report collects findings.
type report struct {
	findings []Finding
	seen     map[string]bool
}

// add notes a finding, once for each text.
func (r *report) add(check string, severity Severity, what, why, remedy string) {
	if r.seen[check+what] {
		return
	}
	if r.seen == nil {
		r.seen = make(map[string]bool)
	}
	r.seen[check+what] = true
	r.findings = append(r.findings, Finding{check, severity, what, why, remedy})
}

// unread notes that a check could not be made.
func (r *report) unread(what string, err error) {
	r.add(checkMachine, Warning, fmt.Sprintf("%s cannot be read: %s", what, err),
		"the checks that need it are left out", "run the check as root, in the agent's network namespace")
}
