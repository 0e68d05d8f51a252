package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"hikyaku/egress/agent"
	"hikyaku/egress/config"
	"hikyaku/egress/preflight"
)

const checkUsage = `Usage: hikyaku-egress check --config FILE [--json]

Checks a configuration, and this machine for the agent of its role: kernel, sysctls,
interfaces and their MTU, addresses, port 179, routes to SIDs, tables, rules and marks
of others, network managers, and whether neighbours take a connection. It changes
nothing. While an agent runs here, neighbours are not tried: see hikyaku-egress paths.

Each finding says what was found, why it matters and what to do. An error keeps the
agent, or the daemon beside it, from its work. A warning does not, or not yet.

Exit code: 0 without errors, 1 with some, 2 for a mistake in the command line.

Options:
  --config FILE  configuration of a border or a server
  --json         print {"role", "findings": [{"check", "severity", "what", "why", "remedy"}]}
`

// errFindings ends a check that has found errors.
var errFindings = errors.New("this machine is not ready for the agent")

// checked is the JSON form of a check.
type checked struct {
	Role     config.Role         `json:"role"`
	Findings []preflight.Finding `json:"findings"`
}

// runCheck is `hikyaku-egress check`.
func runCheck(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := newFlags("check", checkUsage, out)
	file := flags.String("config", "", "")
	asJSON := flags.Bool("json", false, "")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	loaded, err := load(*file, "")
	if err != nil {
		return err
	}
	findings, err := agent.Preflight(ctx, loaded)
	if err != nil {
		return err
	}
	result := checked{loaded.Common().Role, append([]preflight.Finding{}, findings...)}
	if *asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(result)
	} else {
		err = printFindings(out, *file, findings)
	}
	for _, f := range findings {
		if f.Severity == preflight.Error {
			return errors.Join(err, errFindings)
		}
	}
	return err
}

func printFindings(out io.Writer, file string, findings []preflight.Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintf(out, "%s and this machine are right\n", file)
		return err
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%s: %s [%s]\n  why: %s\n  do:  %s\n", f.Severity, f.What, f.Check, f.Why, f.Remedy); err != nil {
			return err
		}
	}
	return nil
}
