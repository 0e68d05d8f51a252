package agent

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"hikyaku/egress/border"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// printer stands for [kernel.Tables] in a dry run: it prints what would be done.
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

// mute is a speaker that says nothing: it prints what it would announce.
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
