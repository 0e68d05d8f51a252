package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"hikyaku/egress/border"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// printer stands for [kernel.Tables] in a dry run: it prints the steps that it would do.
type printer struct {
	applier *kernel.Applier
	out     io.Writer
	have    kernel.State
}

func (p *printer) Snapshot() kernel.State { return p.have }

func (p *printer) Reset(_ context.Context, want kernel.State) error {
	return p.applier.Print(p.out, kernel.Diff(p.have, want))
}

func (p *printer) Apply(_ context.Context, change kernel.Change) error {
	return p.applier.Print(p.out, append(kernel.Diff(kernel.State{}, change.Put), kernel.Diff(change.Remove, kernel.State{})...))
}

func (p *printer) Drop(_ context.Context, route kernel.Route) error {
	return p.applier.Print(p.out, []kernel.Op{route.Drop()})
}

// A dry run closes no SID early.
func (p *printer) Shut(context.Context, kernel.Route) error { return nil }
func (p *printer) Release(kernel.Route)                     {}

func (p *printer) Restore(context.Context, kernel.Loss) (kernel.State, error) {
	return kernel.State{}, nil
}

// mute is a speaker that announces no VPN routes: it prints them instead.
// Of unicast routes package speaker is silent itself.
type mute struct {
	*speaker.Speaker
	out io.Writer
}

func (m mute) AnnounceVPN(a speaker.VPNAnnouncement) error {
	_, err := fmt.Fprintln(m.out, "#", border.Step{Announce: &a})
	return err
}

func (m mute) WithdrawVPN(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) error {
	_, err := fmt.Fprintln(m.out, "#", border.Step{Withdraw: &border.Withdrawal{RD: rd, Prefixes: prefixes}})
	return err
}

// dryBest keeps in a dry run the best paths that would be announced to reflectors.
func (b *Border) dryBest(e speaker.BestPath) {
	switch {
	case b.opts.DryRun == nil:
	case b.planner.Config(e.Peer) == nil: // none is left, or another border has it
		delete(b.best, e.Prefix)
	default:
		b.best[e.Prefix] = e.Peer
	}
}

// dryUnicast prints at the end of a dry run which unicast routes would be announced.
func (b *Border) dryUnicast() error {
	if b.opts.DryRun == nil {
		return nil
	}
	var errs []error
	print := func(format string, args ...any) {
		_, err := fmt.Fprintf(b.opts.DryRun, format, args...)
		errs = append(errs, err)
	}
	for _, prefix := range b.config.Router.Announce {
		family := speaker.IPv6Unicast
		if prefix.Addr().Is4() {
			family = speaker.IPv4Unicast
		}
		for i := range b.config.Peers {
			if p := &b.config.Peers[i]; slices.Contains(b.families(p), family) {
				print("# announce %s to peer %s\n", prefix, p.Name)
			}
		}
		if b.config.Router.BestPaths {
			print("# announce %s to the reflectors\n", prefix)
		}
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(b.best), netip.Prefix.Compare) {
		print("# announce %s of peer %s to the reflectors\n", prefix, b.best[prefix])
	}
	return errors.Join(errs...)
}
