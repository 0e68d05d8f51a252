package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"hikyaku/egress/srv6"
)

func (d *decoder) checkServer(s *Server) {
	d.checkCommon(&s.Common)
	sessions := d.newSessionChecker(&s.Common)
	sessions.reflectors()
	d.checkServerSRv6(s.SRv6)
	d.checkProbe(s.Probe)
	d.checkTables("kernel.tables", s.Kernel.Tables)
	d.checkRulePriority(s.Kernel.RulePriority)
	if s.Kernel.MarkMask == 0 {
		d.report("kernel.mark_mask", "`mark_mask` is 0: every packet would match")
	}
	d.checkMPTCP(s.MPTCP)
	d.checkLimits(s.Limits)
	d.checkPlain(s)
	if len(s.Paths) == 0 && !d.wrong["path"] {
		d.report("path", "no [[path]]: name at least one way out of the AS")
	}
	paths := pathChecker{
		decoder:   d,
		server:    s,
		names:     newUnique[string]("name"),
		numbers:   newUnique[uint32]("number"),
		addresses: d.ownAddresses(s),
		hops:      newUnique[netip.Addr]("next hop"),
		marks:     newUnique[mark]("mark"),
		tables:    newUnique[uint32]("table"),
		rds:       newUnique[srv6.RouteDistinguisher]("RD"),
		rts:       newUnique[srv6.RouteTarget]("RT"),
	}
	for i := range s.Paths {
		paths.check(&s.Paths[i], fmt.Sprintf("path[%d]", i))
	}
}

func (d *decoder) checkServerSRv6(s ServerSRv6) {
	d.need("srv6.interface", "the one towards the AS, such as \"eth0\"")
	if d.given("srv6.interface") {
		d.checkInterface("srv6.interface", s.Interface)
	}
	const source = "srv6.tunnel_source"
	d.need(source, "this server's own default IPv6 address")
	if d.usable(source) && d.checkUnicast(source, s.TunnelSource) && s.TunnelSource.Is4() {
		d.report(source, "`tunnel_source` is %s: SRv6's outer header is IPv6", s.TunnelSource)
	}
	for i, locator := range s.Locators {
		key := fmt.Sprintf("srv6.locators[%d]", i)
		if d.wrong[key] {
			continue
		}
		if locator.Addr().Is4() {
			d.report(key, "locator %s is no IPv6 prefix", locator)
		}
		for _, other := range s.Locators[:i] {
			if locator.Overlaps(other) {
				d.report(key, "locator %s overlaps %s: each border has its own", locator, other)
			}
		}
		if d.usable(source) && locator.Contains(s.TunnelSource) {
			d.report(key, "locator %s holds this server's own address %s: locators are for SIDs alone", locator, s.TunnelSource)
		}
	}
}

func (d *decoder) checkProbe(p Probe) {
	const shortest, longest = 10 * time.Millisecond, 10 * time.Second
	if t := p.Interval; t != 0 && (t < shortest || t > longest) && !d.wrong["probe.interval"] {
		d.report("probe.interval", "`interval` is %s: it must be %s to %s, or 0s for no probes", t, shortest, longest)
	}
	if (p.Lost < 3 || p.Lost > 100) && !d.wrong["probe.lost"] {
		d.report("probe.lost", "`lost` is %d: it must be 3 to 100", p.Lost)
	}
	if (p.Hold < 0 || p.Hold > time.Minute) && !d.wrong["probe.hold"] {
		d.report("probe.hold", "`hold` is %s: it must be 0s to %s", p.Hold, time.Minute)
	}
}

func (d *decoder) checkMPTCP(m MPTCP) {
	if (m.Addresses == 0 || m.Addresses > 8) && !d.wrong["mptcp.addresses"] {
		d.report("mptcp.addresses", "`addresses` is %d: it must be 1 to 8", m.Addresses)
	}
	if (m.Subflows == 0 || m.Subflows > 8) && !d.wrong["mptcp.subflows"] {
		d.report("mptcp.subflows", "`subflows` is %d: it must be 1 to 8, which is the kernel's limit", m.Subflows)
	}
	const slowest = 120 * time.Second
	if t := m.AddAddrTimeout; (t < time.Second || t > slowest || t%time.Second != 0) && !d.wrong["mptcp.add_addr_timeout"] {
		d.report("mptcp.add_addr_timeout", "`add_addr_timeout` is %s: it must be whole seconds from 1s to %s, the kernel's default", t, slowest)
	}
	if len(m.Ports) > 0 && m.Mode == MPTCPKernel {
		d.report("mptcp.ports", "`ports` needs `mode = \"userspace\"`: the kernel's path manager treats all ports alike")
	}
	seen := newUnique[uint16]("port")
	for i, port := range m.Ports {
		key := fmt.Sprintf("mptcp.ports[%d]", i)
		if port == 0 && !d.wrong[key] {
			d.report(key, "port 0 is nobody's")
		}
		seen.add(d, key, fmt.Sprintf("entry %d", i+1), port)
	}
}

func (d *decoder) checkLimits(l Limits) {
	if l.RoutesPerPath == 0 {
		d.report("limits.routes_per_path", "`routes_per_path` is 0: no route would be taken")
	}
	if l.Connections == 0 {
		d.report("limits.connections", "`connections` is 0: to leave MPTCP alone say `mptcp.mode = \"off\"`")
	}
}

func (d *decoder) checkPlain(s *Server) {
	seen := newUnique[string]("reflector")
	for i, name := range s.Plain.Reflectors {
		key := fmt.Sprintf("plain.reflectors[%d]", i)
		at := slices.IndexFunc(s.Reflectors, func(r Reflector) bool { return r.Name == name })
		switch {
		case d.wrong[key]:
		case at < 0:
			d.report(key, "`reflectors` has `%s`, which is the name of no [[reflector]]", name)
		case s.Reflectors[at].Passive:
			d.report(key, "`reflectors` has `%s`, which is `passive`: best paths need a session that the agent opens", name)
		}
		seen.add(d, key, ordinal(key), name)
	}
	const key = "plain.border"
	if !d.given(key) || !d.usable(key) {
		return
	}
	if !slices.ContainsFunc(s.Paths, func(p Path) bool { return p.Border == s.Plain.Border }) {
		d.report(key, "`border` %s is that of no [[path]]: give the router ID of one that has paths, or leave it out", s.Plain.Border)
	}
}

// ownAddresses notes the addresses that can't be EPE addresses.
func (d *decoder) ownAddresses(s *Server) unique[netip.Addr] {
	addresses := newUnique[netip.Addr]("address")
	if s.SRv6.TunnelSource.IsValid() {
		addresses.seen[s.SRv6.TunnelSource] = "`srv6.tunnel_source`"
	}
	for _, reflector := range s.Reflectors {
		if reflector.Address.IsValid() {
			addresses.seen[reflector.Address] = "reflector `" + reflector.Name + "`"
		}
		if reflector.LocalAddress.IsValid() {
			addresses.seen[reflector.LocalAddress] = "the session with `" + reflector.Name + "`"
		}
	}
	return addresses
}

// mark is printed as `ip rule` does.
type mark uint32

func (m mark) String() string { return fmt.Sprintf("%#x", uint32(m)) }

// pathChecker checks paths, each alone and against the others.
type pathChecker struct {
	*decoder
	server    *Server
	names     unique[string]
	numbers   unique[uint32]
	addresses unique[netip.Addr]
	hops      unique[netip.Addr]
	marks     unique[mark]
	tables    unique[uint32]
	rds       unique[srv6.RouteDistinguisher]
	rts       unique[srv6.RouteTarget]
}

// reservedNames are the values of the edge server's `policy.path` besides names.
var reservedNames = []string{"adaptive", "plain", "steered", "aggregate", "aggregated"}

func (c pathChecker) check(p *Path, path string) {
	owner := named(path, p.Name)
	c.checkName(path+".name", p.Name, "a name for logs, the API and the edge server")
	if slices.Contains(reservedNames, p.Name) {
		c.report(path+".name", "a path can't be called `%s`, which means a way to choose paths", p.Name)
	}
	c.names.add(c.decoder, path+".name", ordinal(path), p.Name)
	c.need(path+".number", "the path's number on this server, from 1 up")
	if c.usable(path+".number") && p.Number == 0 {
		c.report(path+".number", "`number` is 0: numbers begin with 1")
	}
	c.numbers.add(c.decoder, path+".number", owner, p.Number)
	c.border(p, path)
	c.epeAddresses(p, path, owner)
	c.nextHops(p, path, owner)
	c.socketMark(p, path, owner)
	c.derivedTable(c.server.Kernel.Tables, path, owner, p.Table)
	c.tables.add(c.decoder, keyOr(c.decoder, path, "table"), owner, p.Table)
	c.rds.add(c.decoder, identityKey(c.decoder, path, "rd"), owner, p.RD)
	c.rts.add(c.decoder, identityKey(c.decoder, path, "rt"), owner, p.RT)
}

func (c pathChecker) border(p *Path, path string) {
	key := path + ".border"
	c.need(key, "the router ID of the path's border router")
	switch {
	case !c.usable(key):
	case !p.Border.Is4():
		c.report(key, "`border` is %s: it must be the border's `router_id`, an IPv4 address", p.Border)
	case p.Border == c.server.RouterID:
		c.report(key, "`border` %s is this server's own `router_id`", p.Border)
	}
	c.peerNumber(path+".peer", p.Peer, "the number that the peer has in its border's configuration")
}

func (c pathChecker) epeAddresses(p *Path, path, owner string) {
	key := path + ".addresses"
	c.need(key, "the EPE addresses, such as [\"2001:db8:5::a1\"]")
	if !c.usable(key) {
		return
	}
	families := map[bool]int{}
	for i, address := range p.Addresses {
		item := fmt.Sprintf("%s[%d]", key, i)
		if c.wrong[item] {
			continue
		}
		families[address.Is4()]++
		c.checkUnicast(item, address)
		c.addresses.add(c.decoder, item, owner, address)
		for _, locator := range c.server.SRv6.Locators {
			if locator.Contains(address) {
				c.report(item, "address %s of %s lies in the locator %s, which is for SIDs alone", address, owner, locator)
			}
		}
	}
	if len(p.Addresses) == 0 {
		c.report(key, "%s has no address: it needs one of the family of its routes, at least", owner)
	}
	if families[false] > 1 || families[true] > 1 {
		c.report(key, "%s has several addresses of one family: at most one IPv6 and one IPv4 address", owner)
	}
}

func (c pathChecker) nextHops(p *Path, path, owner string) {
	for i, hop := range p.NextHops {
		key := fmt.Sprintf("%s.next_hops[%d]", path, i)
		if c.wrong[key] {
			continue
		}
		if hop.IsUnspecified() || hop.IsMulticast() || hop.Zone() != "" {
			c.report(key, "`next_hops` has %s: it needs addresses of the egress peer, as routes have them", hop)
			continue
		}
		c.hops.add(c.decoder, key, owner, hop)
	}
}

func (c pathChecker) socketMark(p *Path, path, owner string) {
	key, mask := keyOr(c.decoder, path, "mark"), c.server.Kernel.MarkMask
	if c.wrong[key] || mask == 0 || p.Number == 0 {
		return
	}
	switch {
	case p.Mark == 0 && !c.given(path+".mark"):
		c.report(key, "`kernel.mark_base` and number %d of %s are more than %#x: take smaller ones", p.Number, owner, uint32(math.MaxUint32))
	case p.Mark&mask == 0:
		c.report(key, "mark %#x of %s is zero under `kernel.mark_mask` %#x, as that of unmarked packets", p.Mark, owner, mask)
	case p.Mark&^mask != 0:
		c.report(key, "mark %#x of %s has bits outside `kernel.mark_mask` %#x", p.Mark, owner, mask)
	}
	c.marks.add(c.decoder, key, owner, mark(p.Mark))
}

// identityKey returns where a path says whose routes it has.
func identityKey(d *decoder, path, name string) string {
	if d.given(path + "." + name) {
		return path + "." + name
	}
	return path + ".peer"
}
