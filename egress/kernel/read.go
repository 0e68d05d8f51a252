package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
)

// Read returns the objects with our protocol number, and the tunnel source. Everything is
// sorted and in the form that Diff compares.
func (a *Applier) Read(ctx context.Context) (State, error) {
	devices, err := a.links()
	if err != nil {
		return State{}, err
	}
	r := reader{protocol: a.protocol, devices: devices, addresses: a.addresses}
	for _, part := range r.parts() {
		if err := ctx.Err(); err != nil {
			return State{}, err
		}
		var b rtnl.Batch
		part.request(&b)
		err := a.reading.Query(&b, part.forget, func(_ uint16, body []byte) error {
			part.parse(body)
			return nil
		})
		if err != nil {
			return State{}, fmt.Errorf("reading %s: %w", part.name, err)
		}
	}
	s := &r.state
	if s.TunnelSource, err = a.seg6.get(); err != nil {
		return State{}, err
	}
	s.sort()
	return *s, nil
}

func (s *State) sort() {
	slices.SortFunc(s.Addresses, compareAddresses)
	slices.SortFunc(s.Rules, compareRules)
	slices.SortFunc(s.Nexthops, compareNexthops)
	slices.SortFunc(s.Routes, compareRoutes)
}

// Sizes of struct ifaddrmsg, fib_rule_hdr, nhmsg and rtmsg.
const (
	addressHeaderSize = 8
	ruleHeaderSize    = 12
	nexthopHeaderSize = 8
	routeHeaderSize   = 12
)

func dump(kind uint16, headerSize int) func(*rtnl.Batch) {
	return func(b *rtnl.Batch) {
		b.Begin(kind, unix.NLM_F_DUMP, make([]byte, headerSize)...)
		b.End()
	}
}

// dumpRoutes lets the kernel leave out routes of others: they may be a full table.
func dumpRoutes(family Family, protocol uint8) func(*rtnl.Batch) {
	return func(b *rtnl.Batch) {
		b.Begin(unix.RTM_GETROUTE, unix.NLM_F_DUMP, uint8(family), 0, 0, 0, 0, protocol, 0, 0, 0, 0, 0, 0)
		b.End()
	}
}

// reader turns messages into state.
type reader struct {
	protocol  uint8
	devices   map[uint32]Link
	addresses []netip.Addr
	state     State
}

// part is one dump: how to ask, what to do with each message, and how to start anew.
type part struct {
	name    string
	request func(*rtnl.Batch)
	parse   func(body []byte)
	forget  func()
}

func (r *reader) parts() []part {
	s := &r.state
	return []part{
		{"addresses", dump(unix.RTM_GETADDR, addressHeaderSize), r.address, func() { s.Addresses = nil }},
		{"rules", dump(unix.RTM_GETRULE, ruleHeaderSize), r.rule, func() { s.Rules = nil }},
		{"nexthop objects", dump(unix.RTM_GETNEXTHOP, nexthopHeaderSize), r.nexthop, func() { s.Nexthops = nil }},
		{"IPv4 routes", dumpRoutes(IPv4, r.protocol), r.route(IPv4), func() { r.forgetRoutes(IPv4) }},
		{"IPv6 routes", dumpRoutes(IPv6, r.protocol), r.route(IPv6), func() { r.forgetRoutes(IPv6) }},
	}
}

func (r *reader) address(body []byte) {
	if len(body) < addressHeaderSize {
		return
	}
	var protocol uint8
	var flags uint32
	var local, addr netip.Addr
	for kind, value := range rtnl.Attributes(body[addressHeaderSize:]) {
		switch kind {
		case ifaProto:
			protocol = rtnl.Uint8(value)
		case unix.IFA_FLAGS:
			flags = rtnl.Uint32(value)
		case unix.IFA_LOCAL:
			local = rtnl.Addr(value)
		case unix.IFA_ADDRESS:
			addr = rtnl.Addr(value)
		}
	}
	if local.IsValid() {
		addr = local // of a pair, IFA_ADDRESS is the other end's
	}
	if protocol != r.protocol && !slices.Contains(r.addresses, addr) {
		return
	}
	r.state.Addresses = append(r.state.Addresses, Address{
		Device:     r.devices[rtnl.Uint32(body[4:])].Device,
		Prefix:     netip.PrefixFrom(addr, int(body[1])),
		Deprecated: flags&unix.IFA_F_DEPRECATED != 0,
		NoDAD:      flags&unix.IFA_F_NODAD != 0,
	})
}

func (r *reader) rule(body []byte) {
	if len(body) < ruleHeaderSize {
		return
	}
	rule := Rule{Family: Family(body[0]), Action: RuleAction(body[7])}
	var protocol uint8
	for kind, value := range rtnl.Attributes(body[ruleHeaderSize:]) {
		switch kind {
		case unix.FRA_PROTOCOL:
			protocol = rtnl.Uint8(value)
		case unix.FRA_PRIORITY:
			rule.Priority = rtnl.Uint32(value)
		case unix.FRA_SRC:
			rule.From = netip.PrefixFrom(rtnl.Addr(value), int(body[2]))
		case unix.FRA_DST:
			rule.To = netip.PrefixFrom(rtnl.Addr(value), int(body[1]))
		case unix.FRA_FWMARK:
			rule.Mark = rtnl.Uint32(value)
		case unix.FRA_FWMASK:
			rule.Mask = rtnl.Uint32(value)
		case unix.FRA_IIFNAME:
			rule.InDevice = rtnl.String(value)
		case unix.FRA_TABLE:
			rule.Table = rtnl.Uint32(value)
		}
	}
	if protocol == r.protocol {
		r.state.Rules = append(r.state.Rules, rule.normal())
	}
}

func (r *reader) nexthop(body []byte) {
	if len(body) < nexthopHeaderSize || body[2] != r.protocol {
		return
	}
	n := Nexthop{Family: Family(body[0])}
	var encapKind uint16
	var encap []byte
	for kind, value := range rtnl.Attributes(body[nexthopHeaderSize:]) {
		switch kind {
		case unix.NHA_ID:
			n.ID = NexthopID(rtnl.Uint32(value))
		case unix.NHA_BLACKHOLE:
			n.Blackhole = true
		case unix.NHA_OIF:
			n.Device = r.devices[rtnl.Uint32(value)].Device
		case unix.NHA_GATEWAY:
			n.Gateway = rtnl.Addr(value)
		case unix.NHA_ENCAP_TYPE:
			encapKind = rtnl.Uint16(value)
		case unix.NHA_ENCAP:
			encap = value
		}
	}
	switch {
	case n.Blackhole:
		n.Device = "" // some kernels name the loopback
	case encapKind == unix.LWTUNNEL_ENCAP_SEG6:
		n.Encap, n.SID = parseSegment(encap)
	case encapKind == unix.LWTUNNEL_ENCAP_SEG6_LOCAL:
		n.Local = parseLocal(encap)
	}
	r.state.Nexthops = append(r.state.Nexthops, n)
}

// parseSegment reads the output of segmentHeader. A header that others made of it, as with
// several segments, gives no SID, so that Diff replaces the object.
func parseSegment(encap []byte) (mode EncapMode, sid netip.Addr) {
	const modeAndHeader, oneSegment = 4 + 8, 16
	for kind, value := range rtnl.Attributes(encap) {
		if kind != seg6IPTunnelSRH || len(value) != modeAndHeader+oneSegment {
			continue
		}
		switch rtnl.Uint32(value) {
		case seg6ModeEncap:
			mode = Encap
		case seg6ModeEncapRed:
			mode = EncapReduced
		default:
			continue
		}
		sid = rtnl.Addr(value[modeAndHeader:])
	}
	return mode, sid
}

func parseLocal(encap []byte) (local Local) {
	for kind, value := range rtnl.Attributes(encap) {
		switch kind {
		case seg6LocalAction:
			for action, known := range localActions {
				if known.number == rtnl.Uint32(value) {
					local.Action = action
				}
			}
		case seg6LocalTable:
			local.Table = rtnl.Uint32(value)
		case seg6LocalVRFTable:
			local.Table, local.VRF = rtnl.Uint32(value), true
		}
	}
	return local
}

func (r *reader) route(family Family) func(body []byte) {
	anywhere := netip.IPv6Unspecified()
	if family == IPv4 {
		anywhere = netip.IPv4Unspecified()
	}
	return func(body []byte) {
		if len(body) < routeHeaderSize || body[5] != r.protocol {
			return
		}
		dst := anywhere
		route := Route{Type: RouteType(body[7])}
		for kind, value := range rtnl.Attributes(body[routeHeaderSize:]) {
			switch kind {
			case unix.RTA_DST:
				dst = rtnl.Addr(value)
			case unix.RTA_TABLE:
				route.Table = rtnl.Uint32(value)
			case unix.RTA_PRIORITY:
				route.Metric = rtnl.Uint32(value)
			case rtaNhID:
				route.Nexthop = NexthopID(rtnl.Uint32(value))
			case unix.RTA_METRICS:
				parseMetrics(value, &route)
			}
		}
		route.Prefix = netip.PrefixFrom(dst, int(body[1]))
		if route.Nexthop != 0 {
			// The kernel shows the type of a nexthop that is a blackhole; ours is Unicast.
			route.Type = Unicast
		}
		r.state.Routes = append(r.state.Routes, route.normal())
	}
}

func parseMetrics(metrics []byte, route *Route) {
	for kind, value := range rtnl.Attributes(metrics) {
		switch kind {
		case unix.RTAX_MTU:
			route.MTU = rtnl.Uint32(value)
		case unix.RTAX_ADVMSS:
			route.AdvMSS = rtnl.Uint32(value)
		}
	}
}

func (r *reader) forgetRoutes(family Family) {
	r.state.Routes = slices.DeleteFunc(r.state.Routes, func(route Route) bool {
		return FamilyOf(route.Prefix.Addr()) == family
	})
}
