package border

import (
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// Lookup is how packets for a peer's SIDs get into its table.
type Lookup uint8

// The lookups.
const (
	// ByTable is End.DT6, which names the table. IPv4 has no SID.
	ByTable Lookup = iota
	// ByVRF is End.DT46 by a VRF device: one SID takes both families.
	ByVRF
	// ByPair is End.DT6 by table, and End.DT4 (RFC 8986 §4.7) without a VRF device. A second
	// SID leads into a pair of devices. Behind it the IPv4 packet is taken out, and looked up
	// by a rule for packets that came in there.
	ByPair
)

// acquire takes the objects behind a peer's SIDs into use.
func (p *Planner) acquire(state *peer) {
	state.local, _ = p.pool.Acquire(p.local(state))
	if state.lookup != ByPair {
		return
	}
	enter, _ := p.opts.Pair(state.config)
	state.enter, _ = p.pool.Acquire(kernel.Nexthop{Family: kernel.IPv6, Device: enter})
	state.inner, _ = p.pool.Acquire(kernel.Nexthop{
		Family: kernel.IPv6, Device: p.opts.Anchor, Local: kernel.Local{Action: kernel.EndDX4, Table: 0},
	})
}

// endpoints are the objects behind a peer's SIDs.
func (p *peer) endpoints() []kernel.Nexthop {
	if p.lookup == ByPair {
		return []kernel.Nexthop{p.local, p.enter, p.inner}
	}
	return []kernel.Nexthop{p.local}
}

// Priorities of rules, counted from the configured one.
const (
	fromPair = iota // packets out of a pair are looked up in the peer's table
	dropRest        // or nowhere
)

// dropActions are the kernel's rule actions for the configuration's values.
var dropActions = map[config.Drop]kernel.RuleAction{
	config.DropBlackhole:   kernel.RuleBlackhole,
	config.DropUnreachable: kernel.RuleUnreachable,
	config.DropProhibit:    kernel.RuleProhibit,
}

// pairRules are the rules for packets that come out of a peer's pair of devices. They are there
// as long as the pair, so that no packet meets the main table.
func (p *Planner) pairRules(state *peer) (rules []kernel.Rule) {
	if state.lookup != ByPair {
		return nil
	}
	_, leave := p.opts.Pair(state.config)
	first := p.config.Kernel.RulePriority
	for _, family := range []kernel.Family{kernel.IPv6, kernel.IPv4} {
		rules = append(rules,
			kernel.Rule{Family: family, Priority: first + fromPair, InDevice: leave, Table: state.config.Table, Action: kernel.Lookup},
			kernel.Rule{Family: family, Priority: first + dropRest, InDevice: leave, Action: dropActions[p.config.Kernel.Drop]})
	}
	return rules
}
