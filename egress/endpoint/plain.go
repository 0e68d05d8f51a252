package endpoint

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// plain is the state of packets without mark and EPE address. They follow the server's
// main table to a border, and its main table to a peer. Both are observed, never inferred
// from BGP attributes: a border's LOCAL_PREF and filters are not on EPE routes.
type plain struct {
	main *fib.Table // nil where it is not followed
	// macs are the link-layer addresses of neighbours.
	macs map[kernel.MainHop]string
	// addresses are those of each border by its router ID. A border with some reports by
	// which EPE routes its main table sends.
	addresses map[netip.Addr][]netip.Addr
	// itself finds the border that a distinguisher stands for.
	itself map[srv6.RouteDistinguisher]netip.Addr
	// changed: lookups may have other answers.
	changed bool
}

func (p *Planner) preparePlain(main *fib.Table) {
	p.plain = plain{
		main: main, addresses: make(map[netip.Addr][]netip.Addr),
		itself: make(map[srv6.RouteDistinguisher]netip.Addr),
	}
	p.knowBorders()
}

// knowBorders takes the borders of the configuration's paths. It returns the distinguishers that
// stand for further ones.
func (p *Planner) knowBorders() (further []srv6.RouteDistinguisher) {
	gone := maps.Clone(p.plain.itself)
	for i := range p.config.Paths {
		border := p.config.Paths[i].Border
		rd := srv6.NewRouteDistinguisher(border, srv6.ItselfNumber)
		delete(gone, rd)
		if _, known := p.plain.itself[rd]; !known {
			p.plain.itself[rd] = border
			further = append(further, rd)
		}
	}
	for rd, border := range gone {
		delete(p.plain.itself, rd)
		delete(p.plain.addresses, border)
		p.plain.changed = true
	}
	return further
}

// learnedItself takes routes to a border's own addresses.
func (p *Planner) learnedItself(event speaker.VPNLearned) {
	border, known := p.plain.itself[event.RD]
	if !known {
		return
	}
	usable := event.Route.HasTarget(srv6.MainTarget(border)) && p.trusted(event.Route.Service.SID)
	p.setAddresses(border, event.Prefixes, usable)
}

// maxAddresses bounds the addresses of a border. It has one on each interface towards
// servers.
const maxAddresses = 256

func (p *Planner) setAddresses(border netip.Addr, prefixes []netip.Prefix, present bool) {
	list := p.plain.addresses[border]
	for _, prefix := range prefixes {
		i := slices.Index(list, prefix.Addr())
		switch {
		case present && i < 0 && prefix.IsSingleIP() && len(list) < maxAddresses:
			list = append(list, prefix.Addr())
		case !present && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	p.plain.addresses[border], p.plain.changed = list, true
}

// BorderAddresses returns the addresses of all borders.
func (p *Planner) BorderAddresses() (all []netip.Addr) {
	for _, list := range p.plain.addresses {
		all = append(all, list...)
	}
	return all
}

// SetNeighbours takes the link-layer addresses of neighbours: a border's gateway may be a
// link-local address, which it has not announced.
func (p *Planner) SetNeighbours(macs map[kernel.MainHop]string) {
	same := len(macs) == len(p.plain.macs)
	for hop, mac := range macs {
		same = same && p.plain.macs[hop] == mac
	}
	if !same {
		p.plain.macs, p.plain.changed = macs, true
	}
}

// TakePlainChanged reports whether lookups may have other answers for all clients, since
// borders are known by other addresses. It forgets that.
func (p *Planner) TakePlainChanged() bool {
	changed := p.plain.changed
	p.plain.changed = false
	return changed
}

// Plain is how packets without mark and EPE address leave.
type Plain struct {
	// Path is the path that they take, empty where that is not known.
	Path string
	// Unknown is why it is not, a clause.
	Unknown string
}

func unknown(format string, args ...any) Plain { return Plain{Unknown: fmt.Sprintf(format, args...)} }

// plainTo returns how plain packets to a client leave.
func (p *Planner) plainTo(client netip.Prefix) Plain {
	border, why := p.firstBorder(client)
	switch {
	case border.IsValid() && len(p.plain.addresses[border]) > 0:
		return p.from(border, client)
	case border.IsValid():
		why = fmt.Sprintf("border %s does not report how its main table sends packets", border)
	}
	return p.withBest(client, why)
}

// from returns how plain packets leave that come to a border.
func (p *Planner) from(border netip.Addr, client netip.Prefix) Plain {
	longest, names := -1, []string(nil)
	target := srv6.MainTarget(border)
	for _, name := range p.Names() {
		state := p.paths[name]
		if state.config.Border != border || state.lost {
			continue
		}
		prefix, _, ok := state.routes.Longest(client, func(r route) bool { return r.want != nil && r.want.HasTarget(target) })
		switch {
		case !ok || prefix.Bits() < longest:
		case prefix.Bits() > longest:
			longest, names = prefix.Bits(), []string{name}
		default:
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return unknown("border %s sends them by none of its paths, or parts of the prefix by something else", border)
	case 1:
		return Plain{Path: names[0]}
	default:
		return unknown("border %s spreads them over %s and %s", border, names[0], names[1])
	}
}

// firstBorder returns the border to which the main table leads, or why it is not known.
func (p *Planner) firstBorder(client netip.Prefix) (border netip.Addr, why string) {
	switch main := p.plain.main; {
	case main == nil:
		why = "the main table is not followed"
	default:
		border, why = p.mainBorder(main, client)
	}
	if !border.IsValid() && p.config.Plain.Border.IsValid() {
		return p.config.Plain.Border, ""
	}
	return border, why
}

func (p *Planner) mainBorder(main *fib.Table, client netip.Prefix) (border netip.Addr, why string) {
	_, hops, ok := main.Longest(client)
	if !ok || len(hops.List) == 0 {
		return border, "the server's main table has no next hop for the client"
	}
	for _, hop := range hops.List {
		found := p.borderAt(hop)
		switch {
		case !found.IsValid():
			return netip.Addr{}, fmt.Sprintf("the next hop of the server's main table, %s, is no address of a border; "+
				"`plain.border` can name one", describe(hop))
		case border.IsValid() && found != border:
			return netip.Addr{}, fmt.Sprintf("the server's main table spreads them over borders %s and %s", border, found)
		}
		border = found
	}
	return border, ""
}

func describe(hop kernel.MainHop) string {
	if !hop.Gateway.IsValid() {
		return "on " + hop.Device
	}
	return fmt.Sprintf("%s on %s", hop.Gateway, hop.Device)
}

// borderAt returns the border that is at a next hop, if it is one alone.
func (p *Planner) borderAt(hop kernel.MainHop) (border netip.Addr) {
	mac := p.plain.macs[hop]
	for candidate, addresses := range p.plain.addresses {
		is := slices.ContainsFunc(addresses, func(a netip.Addr) bool {
			return a == hop.Gateway || mac != "" && p.plain.macs[kernel.MainHop{Device: hop.Device, Gateway: a}] == mac
		})
		switch {
		case is && border.IsValid():
			return netip.Addr{}
		case is:
			border = candidate
		}
	}
	return border
}
