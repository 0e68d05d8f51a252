package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

const agentOptions = `
Options:
  --config FILE  take the socket from this configuration
  --socket PATH  socket of the agent (default %s)
  --json         print JSON, as in docs/egress-api.yaml
`

const showUsage = `Usage: hikyaku-egress show [OPTIONS] routes [PREFIX]
       hikyaku-egress show [OPTIONS] routers

Shows the routes of a running agent's paths: all, or those that overlap PREFIX. Each
has its state, and where it is not used the reason. Or shows the routers that hand on
the routes of egress peers by BMP or ADD-PATH, with the state of each peer.
` + agentOptions

const whyUsage = `Usage: hikyaku-egress why [OPTIONS] PREFIX|ADDRESS

Explains how packets to a client may leave: what each path of a running agent has for
it, which path plain packets take, and which policies hold.
` + agentOptions

// maxShown is the number of routes that show prints.
const maxShown = 100_000

func runShow(ctx context.Context, args []string, out, _ io.Writer) error {
	v, words, err := newViewer("show", fmt.Sprintf(showUsage, config.DefaultServer().API.Socket), args, out)
	if err != nil {
		return err
	}
	if len(words) == 1 && words[0] == "routers" {
		return v.showRouters(ctx)
	}
	if len(words) == 0 || len(words) > 2 || words[0] != "routes" {
		return usageError{fmt.Errorf("%q: say `show routes`, `show routes PREFIX` or `show routers`", strings.Join(words, " "))}
	}
	var within netip.Prefix
	if len(words) == 2 {
		if within, err = prefixArgument(words[1]); err != nil {
			return err
		}
	}
	list, err := v.client.Routes(ctx, within, maxShown)
	switch {
	case err != nil:
		return err
	case v.json:
		return v.print(list)
	case list.Total == 0:
		_, err := fmt.Fprintln(out, "there is no such route")
		return err
	}
	if err := v.routes(list.Routes, ""); err != nil {
		return err
	}
	if more := list.Total - len(list.Routes); more > 0 {
		_, err = fmt.Fprintf(out, "and %d more: name a prefix\n", more)
	}
	return err
}

func runWhy(ctx context.Context, args []string, out, _ io.Writer) error {
	v, words, err := newViewer("why", fmt.Sprintf(whyUsage, config.DefaultServer().API.Socket), args, out)
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return usageError{fmt.Errorf("%q: name one address or prefix", strings.Join(words, " "))}
	}
	client, err := prefixArgument(words[0])
	if err != nil {
		return err
	}
	why, err := v.client.Why(ctx, client)
	switch {
	case err != nil:
		return err
	case v.json:
		return v.print(why)
	}
	return v.why(why)
}

// prefixArgument is clientPrefix for an argument that can be nothing else.
func prefixArgument(text string) (netip.Prefix, error) {
	prefix, err := clientPrefix(text)
	if err != nil {
		return prefix, usageError{fmt.Errorf("%q is neither an address nor a prefix", text)}
	}
	return prefix, nil
}

func (v viewer) why(why api.Explanation) error {
	plain := why.Plain.Path
	if plain == "" {
		plain = "none of the paths, or not known"
	}
	fmt.Fprintf(v.out, "%s\nplain packets: %s (%s)\n", why.Client, plain, why.Plain.Reason)
	for _, policy := range why.Policies {
		fmt.Fprintf(v.out, "policy %s: %s%s\n", policy.Policy, policy.Mode, policyScope(policy))
	}
	if len(why.Policies) == 0 {
		fmt.Fprintln(v.out, "no policy matches")
	}
	for _, path := range why.Paths {
		fmt.Fprintf(v.out, "path %s, %s: %s\n", path.Path, path.State, path.Reason)
		if err := v.routes(path.Routes, "  "); err != nil {
			return err
		}
	}
	return nil
}

// policyScope is the part of a client's connections that a policy holds for.
func policyScope(p api.Verdict) string {
	var words []string
	if len(p.Classes) > 0 {
		words = append(words, "classes "+strings.Join(p.Classes, ", "))
	}
	for _, prefix := range p.Clients {
		words = append(words, prefix.String())
	}
	if len(p.Paths) > 0 {
		words = append(words, "paths "+strings.Join(p.Paths, ", "))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}

func (v viewer) routes(list []api.Route, indent string) error {
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(v.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, indent+"PREFIX\tPATH\tSTATE\tNEXTHOP\tSID\tLOCALPREF\tMED\tASPATH\tCOMMUNITIES\tREASON")
	for _, r := range list {
		hop := address(r.NextHop)
		if r.Interface != "" {
			hop += " " + r.Interface
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", indent, r.Prefix, r.Path, r.State, hop, address(r.SID),
			r.LocalPref, r.MED, orNone(asPath(r.ASPath)), orNone(strings.Join(r.Communities, " ")), r.Reason)
	}
	return w.Flush()
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
