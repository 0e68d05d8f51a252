package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"

	"hikyaku/egress/api"
	"hikyaku/egress/config"
)

const pathsUsage = `Usage: hikyaku-egress paths [OPTIONS] [CLIENT]
       hikyaku-egress paths [OPTIONS] drain PATH [REASON]
       hikyaku-egress paths [OPTIONS] undrain PATH

Shows the paths of a running agent; with CLIENT, an address or a prefix, those that
reach it, and which of them plain packets take. drain asks for nothing new over a
path, until undrain, also after restarts.

Options:
  --config FILE  take the socket from this configuration
  --socket PATH  socket of the agent (default %s)
  --json         print JSON, as in docs/egress-api.yaml
`

// runPaths is the human view of the API.
func runPaths(ctx context.Context, args []string, out, _ io.Writer) error {
	defaultSocket := config.DefaultServer().API.Socket
	v, words, err := newViewer("paths", fmt.Sprintf(pathsUsage, defaultSocket), args, out)
	if err != nil {
		return err
	}
	switch {
	case len(words) == 0:
		return v.all(ctx)
	case words[0] == "drain" && len(words) >= 2:
		return v.one(v.client.Drain(ctx, words[1], strings.Join(words[2:], " ")))
	case words[0] == "undrain" && len(words) == 2:
		return v.one(v.client.Undrain(ctx, words[1]))
	case len(words) == 1:
		return v.lookup(ctx, words[0])
	default:
		return usageError{fmt.Errorf("%q is none of the forms below", strings.Join(words, " "))}
	}
}

// newViewer reads the options of a command that asks a running agent, and its arguments.
func newViewer(command, usage string, args []string, out io.Writer) (v viewer, words []string, err error) {
	flags := newFlags(command, usage, out)
	file := flags.String("config", "", "")
	socket := flags.String("socket", config.DefaultServer().API.Socket, "")
	asJSON := flags.Bool("json", false, "")
	if err := parse(flags, args, math.MaxInt); err != nil {
		return v, nil, err
	}
	if *file != "" {
		loaded, err := load(*file, "")
		if err != nil {
			return v, nil, err
		}
		*socket = loaded.Common().API.Socket
	}
	return viewer{client: api.NewClient(*socket), out: out, json: *asJSON}, flags.Args(), nil
}

// viewer prints an agent's answers.
type viewer struct {
	client *api.Client
	out    io.Writer
	json   bool
}

func (v viewer) all(ctx context.Context) error {
	paths, err := v.client.Paths(ctx)
	if err != nil {
		return err
	}
	if v.json {
		return v.print(api.PathList{Paths: paths})
	}
	status, err := v.client.Status(ctx)
	if err != nil {
		return err
	}
	if err := v.table(paths); err != nil {
		return err
	}
	for _, problem := range status.Problems {
		if _, err := fmt.Fprintln(v.out, "problem:", problem); err != nil {
			return err
		}
	}
	return nil
}

func (v viewer) one(path api.Path, err error) error {
	if err != nil {
		return err
	}
	if v.json {
		return v.print(path)
	}
	return v.table([]api.Path{path})
}

func (v viewer) print(value any) error {
	encoder := json.NewEncoder(v.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (v viewer) table(paths []api.Path) error {
	w := tabwriter.NewWriter(v.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PATH\tSTATE\tMARK\tTABLE\tADDRESSES\tSID\tIPV6\tIPV4\tMTU\tREASON")
	for _, p := range paths {
		reason := p.Reason
		if p.Drain != nil && p.Drain.Reason != "" {
			reason += ": " + p.Drain.Reason
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\n", p.Name, p.State, orDash(p.Mark, "%#x"), p.Table,
			addresses(p.Addresses), address(p.SID), p.Routes.IPv6, p.Routes.IPv4, orDash(p.MTU, "%d"), reason)
	}
	return w.Flush()
}

func orDash(number uint32, format string) string {
	if number == 0 {
		return "-"
	}
	return fmt.Sprintf(format, number)
}

func address(a netip.Addr) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

func addresses(list []netip.Addr) string {
	words := make([]string, 0, len(list))
	for _, a := range list {
		words = append(words, a.String())
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

func (v viewer) lookup(ctx context.Context, client string) error {
	prefix, err := clientPrefix(client)
	if err != nil {
		return usageError{err}
	}
	found, err := v.client.Lookup(ctx, prefix)
	if err != nil {
		return err
	}
	if v.json {
		return v.print(found)
	}
	if len(found.Paths) == 0 {
		_, err := fmt.Fprintf(v.out, "no path reaches %s: packets to it go the plain way\n", found.Client)
		return err
	}
	w := tabwriter.NewWriter(v.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PATH\tSTATE\tPLAIN\tPREFIX\tLOCALPREF\tMED\tASPATH")
	for _, r := range found.Paths {
		plain := ""
		if r.Name == found.Best {
			plain = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", r.Name, r.State, plain, r.Prefix, r.LocalPref, r.MED, asPath(r.ASPath))
	}
	if err := w.Flush(); err != nil || found.BestUnknown == "" {
		return err
	}
	_, err = fmt.Fprintf(v.out, "plain packets: their way is not known, since %s\n", found.BestUnknown)
	return err
}

func asPath(list []uint32) string {
	words := make([]string, 0, len(list))
	for _, as := range list {
		words = append(words, strconv.FormatUint(uint64(as), 10))
	}
	return strings.Join(words, " ")
}

// clientPrefix reads an address or a prefix, whose host bits it clears.
func clientPrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New(strconv.Quote(text) + " is neither drain, undrain, an address nor a prefix")
	}
	return p.Masked(), nil
}
