package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

const statusUsage = `Usage: hikyaku-egress status [OPTIONS]

Shows the BGP sessions of a running agent, the routes that its import policy refuses by
reason, the RPKI caches, and all problems.

Options:
  --config FILE  take the socket from this configuration
  --socket PATH  socket of the agent (default %s)
  --json         print JSON, as in docs/egress-api.yaml
`

// statusReport is what `status --json` prints.
type statusReport struct {
	Status   api.Status    `json:"status"`
	Sessions []api.Session `json:"sessions"`
}

// runStatus is the human view of sessions and caches.
func runStatus(ctx context.Context, args []string, out, _ io.Writer) error {
	defaultSocket := config.DefaultServer().API.Socket
	flags := newFlags("status", fmt.Sprintf(statusUsage, defaultSocket), out)
	file := flags.String("config", "", "")
	socket := flags.String("socket", defaultSocket, "")
	asJSON := flags.Bool("json", false, "")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if *file != "" {
		loaded, err := load(*file, "")
		if err != nil {
			return err
		}
		*socket = loaded.Common().API.Socket
	}
	client := api.NewClient(*socket)
	var report statusReport
	var err error
	if report.Status, err = client.Status(ctx); err != nil {
		return err
	}
	if report.Sessions, err = client.Sessions(ctx); err != nil {
		return err
	}
	if *asJSON {
		return viewer{out: out}.print(report)
	}
	return report.print(out, time.Now())
}

func (r statusReport) print(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tKIND\tASN\tSTATE\tIPV6\tIPV4\tREFUSED\tVALID\tNOT FOUND\tINVALID")
	for _, s := range r.Sessions {
		state := "down"
		if s.Up {
			state = "up"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%s\t%d\t%d\t%d\n", s.Name, s.Kind, s.ASN, state, s.Routes.IPv6, s.Routes.IPv4,
			refusedText(s.Refused), s.Origins.Valid, s.Origins.NotFound, s.Origins.Invalid)
	}
	if len(r.Status.RPKICaches) > 0 {
		fmt.Fprintln(w, "\nRPKI CACHE\tADDRESS\tSTATE\tVERSION\tVRPS\tSERIAL\tUPDATED\tEXPIRES")
	}
	for _, c := range r.Status.RPKICaches {
		state := "up"
		if !c.Up {
			state = "down"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", c.Name, c.Address, state, c.Version, c.VRPs, c.Serial,
			distance(now, c.Updated), distance(now, c.Expires))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, problem := range r.Status.Problems {
		if _, err := fmt.Fprintln(out, "problem:", problem); err != nil {
			return err
		}
	}
	return nil
}

// refusedText lists the routes that are refused now.
func refusedText(list []api.Refused) string {
	var words []string
	for _, r := range list {
		if r.Routes > 0 {
			words = append(words, fmt.Sprintf("%d %s", r.Routes, r.Reason))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// distance is how far away a time is, to the second.
func distance(now, at time.Time) string {
	switch d := at.Sub(now).Round(time.Second); {
	case at.IsZero():
		return "-"
	case d < 0:
		return (-d).String() + " ago"
	default:
		return "in " + d.String()
	}
}
