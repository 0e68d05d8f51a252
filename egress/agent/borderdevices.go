package agent

import (
	"slices"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// chooseLookups decides by the kernel's features how packets get into the tables of peers.
func (b *Border) chooseLookups(features kernel.Features) {
	for i := range b.config.Peers {
		p := &b.config.Peers[i]
		b.lookups[p.Name] = b.lookupOf(p, features)
	}
}

func (b *Border) lookupOf(p *config.Peer, features kernel.Features) border.Lookup {
	hasIPv4 := slices.Contains(p.Families, config.FamilyIPv4)
	switch {
	case (hasIPv4 || b.config.SRv6.VRF == config.ToggleOn) && b.config.SRv6.VRF != config.ToggleOff && features.EndDT46:
		return border.ByVRF
	case hasIPv4 && features.EndDX4 && features.Veth:
		return border.ByPair
	default:
		return border.ByTable
	}
}

// prepare makes devices and sysctls fit.
func (b *Border) prepare(h *host) error {
	b.devices = h
	b.host.sysctls = b.sysctls()
	if err := h.sysctls(b.config.Kernel.SetSysctls, b.host.sysctls); err != nil {
		return err
	}
	if err := h.anchor(anchor, loopbackMTU); err != nil {
		return err
	}
	for i := range b.config.Peers {
		if err := b.makeDevices(&b.config.Peers[i]); err != nil {
			return err
		}
	}
	return nil
}

// makeDevices makes those by which packets get into a peer's table.
func (b *Border) makeDevices(p *config.Peer) error {
	switch b.lookups[p.Name] {
	case border.ByVRF:
		return b.devices.vrf(p.Table)
	case border.ByPair:
		return b.devices.pair(p.Table)
	default:
		return nil
	}
}

// loopbackMTU is the anchor's of a border, which no packet leaves by.
const loopbackMTU = 65535

func (b *Border) sysctls() []sysctl {
	list := []sysctl{{"net.ipv6.conf.all.forwarding", "1"}, {"net.ipv6.conf.all.seg6_enabled", "1"}}
	for _, name := range b.config.SRv6.Interfaces {
		list = append(list, ofInterface("ipv6", name, "seg6_enabled", "1"))
	}
	var byVRF, byPair bool
	for _, lookup := range b.lookups {
		byVRF, byPair = byVRF || lookup == border.ByVRF, byPair || lookup == border.ByPair
	}
	if byVRF || byPair {
		list = append(list, sysctl{"net.ipv4.ip_forward", "1"})
	}
	if byVRF {
		list = append(list, sysctl{"net.vrf.strict_mode", "1"})
	}
	return list
}
