package agent

import (
	"context"
	"maps"
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
	in := preflight.Input{
		File: file, Features: features,
		Needed: []preflight.Need{{Feature: "NexthopObjects", Severity: preflight.Error}},
	}
	need := func(severity preflight.Severity, names ...string) {
		for _, name := range names {
			in.Needed = append(in.Needed, preflight.Need{Feature: name, Severity: severity})
		}
	}
	var wanted []sysctl
	if c := file.Border; c != nil {
		b := &Border{config: c, lookups: make(map[string]border.Lookup)}
		b.chooseLookups(features)
		need(preflight.Error, "EndDT6")
		if c.SRv6.VRF == config.ToggleOn {
			need(preflight.Error, "VRF", "EndDT46")
		} else if c.SRv6.VRF == config.ToggleAuto && b.wantsIPv4() {
			need(preflight.Warning, missingForIPv4(features)...)
		}
		in.ByPair = slices.Contains(slices.Collect(maps.Values(b.lookups)), border.ByPair)
		wanted, in.SetSysctls = b.sysctls(), c.Kernel.SetSysctls
	} else {
		need(preflight.Error, "Seg6")
		need(preflight.Warning, "AddressProtocol")
		if file.Server.MPTCP.Mode != config.MPTCPOff {
			need(preflight.Warning, "MPTCP")
		}
		if file.Server.MPTCP.Mode == config.MPTCPUserspace {
			need(preflight.Error, "MPTCPUserspace")
		}
	}
	for _, s := range wanted {
		in.Sysctls = append(in.Sysctls, preflight.Sysctl{Key: s.key, File: strings.TrimPrefix(s.path(), sysctlRoot), Want: s.value})
	}
	return in
}

// missingForIPv4 are the features to name where IPv4 clients are left out: it works without VRF
// devices, by pairs of others.
func missingForIPv4(f kernel.Features) []string {
	if f.EndDT46 || f.EndDX4 && f.Veth {
		return nil
	}
	return []string{"EndDT46", "EndDX4", "Veth"}
}

// wantsIPv4 reports whether a peer is for IPv4 clients, too.
func (b *Border) wantsIPv4() bool {
	return slices.ContainsFunc(b.config.Peers, func(p config.Peer) bool {
		return slices.Contains(p.Families, config.FamilyIPv4)
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
