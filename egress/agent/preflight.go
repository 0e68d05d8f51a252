package agent

import (
	"context"
	"net"
	"slices"
	"strings"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/preflight"
)

// Preflight checks this machine for the agent of a configuration, changes nothing, and
// returns the findings. It connects to neighbours unless an agent runs here.
func Preflight(ctx context.Context, file *config.File) ([]preflight.Finding, error) {
	features, err := kernel.Probe(ctx)
	if err != nil {
		return nil, err
	}
	in := preflightInput(file, features)
	in.Thorough = true
	in.Running = runningAgent()
	return preflight.Run(ctx, in)
}

// preflightInput is what a configuration needs of a machine.
func preflightInput(file *config.File, features kernel.Features) preflight.Input {
	in := preflight.Input{File: file, Features: features}
	need(&in, preflight.Error, "NexthopObjects")
	if file.Border != nil {
		borderInput(&in, file.Border)
	} else {
		serverInput(&in, file.Server)
	}
	return in
}

func need(in *preflight.Input, severity preflight.Severity, features ...string) {
	for _, name := range features {
		in.Needed = append(in.Needed, preflight.Need{Feature: name, Severity: severity})
	}
}

func borderInput(in *preflight.Input, c *config.Border) {
	b := &Border{config: c, lookups: make(map[string]border.Lookup)}
	b.chooseLookups(in.Features)
	need(in, preflight.Error, "EndDT6")
	switch {
	case c.SRv6.VRF == config.ToggleOn:
		need(in, preflight.Error, "VRF", "EndDT46")
	case b.leavesIPv4Out():
		need(in, preflight.Warning, "EndDX4", "Veth")
	}
	for _, lookup := range b.lookups {
		in.ByPair = in.ByPair || lookup == border.ByPair
	}
	in.SetSysctls = c.Kernel.SetSysctls
	for _, s := range b.sysctls() {
		in.Sysctls = append(in.Sysctls, preflight.Sysctl{Key: s.key, File: strings.TrimPrefix(s.path(), sysctlRoot), Want: s.value})
	}
}

func serverInput(in *preflight.Input, c *config.Server) {
	need(in, preflight.Error, "Seg6")
	need(in, preflight.Warning, "AddressProtocol")
	if c.MPTCP.Mode != config.MPTCPOff {
		need(in, preflight.Warning, "MPTCP")
	}
	if c.MPTCP.Mode == config.MPTCPUserspace {
		need(in, preflight.Error, "MPTCPUserspace")
	}
}

// leavesIPv4Out reports whether a peer has IPv4, which this kernel cannot take.
func (b *Border) leavesIPv4Out() bool {
	return slices.ContainsFunc(b.config.Peers, func(p config.Peer) bool {
		return slices.Contains(p.Families, config.FamilyIPv4) && b.lookups[p.Name] == border.ByTable
	})
}

// runningAgent names the agent that runs in this network namespace, "" for none.
func runningAgent() string {
	lock, err := net.Listen("unix", lockName)
	if err != nil {
		return lockHolder()
	}
	lock.Close()
	return ""
}

// preflight logs what the quick checks find. The agent starts all the same: what would keep
// it from that is an error of the start itself.
func (e *engine) preflight(ctx context.Context, file *config.File) {
	found, err := preflight.Run(ctx, preflightInput(file, e.features))
	if err != nil {
		e.log.Warn("the machine is not checked", "error", err)
	}
	for _, f := range found {
		e.log.Warn(f.What, "check", f.Check, "why", f.Why, "remedy", f.Remedy)
	}
}
