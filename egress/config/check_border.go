package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"hikyaku/egress/srv6"
)

func (d *decoder) checkBorder(b *Border) {
	d.checkCommon(&b.Common)
	sessions := d.newSessionChecker(&b.Common)
	sessions.reflectors()
	d.checkAddPath(b, sessions)
	d.checkLocator(b.SRv6)
	if len(b.SRv6.Interfaces) == 0 && !d.wrong["srv6.interfaces"] {
		d.report("srv6.interfaces", "`interfaces` is missing: name those that packets of content servers come in by")
	}
	d.checkInterfaces("srv6.interfaces", b.SRv6.Interfaces)
	d.checkTables("kernel.tables", b.Kernel.Tables)
	d.checkRulePriority(b.Kernel.RulePriority)
	d.checkMaxLengths("import", b.Import.IPv6MaxLength, b.Import.IPv4MaxLength)
	d.checkCaches(b.Caches)
	d.checkBMP(b.BMP)
	if len(b.Peers) == 0 && !d.wrong["peer"] {
		d.report("peer", "no [[peer]]: name at least one egress peer")
	}
	peers := peerChecker{
		sessionChecker: sessions,
		border:         b,
		numbers:        newUnique[uint32]("number"),
		tables:         newUnique[uint32]("table"),
		sids:           newUnique[netip.Addr]("SID"),
		rds:            newUnique[srv6.RouteDistinguisher]("RD"),
		rts:            newUnique[srv6.RouteTarget]("RT"),
		hops:           newUnique[netip.Addr]("next hop"),
		marks:          newUnique[Community]("community"),
	}
	if !d.wrong["srv6.locator"] {
		for i := range b.Reflectors {
			d.outsideLocator(&b.Reflectors[i].Session, fmt.Sprintf("reflector[%d]", i), b.SRv6.Locator)
		}
	}
	for i := range b.Peers {
		peers.check(&b.Peers[i], fmt.Sprintf("peer[%d]", i))
	}
	d.checkPorts(b.Ports)
}

func (d *decoder) checkLocator(s BorderSRv6) {
	d.need("srv6.locator", "the prefix that SIDs are issued from, such as \"2001:db8:b1::/48\"")
	if !d.usable("srv6.locator") || d.wrong["srv6.block_length"] || d.wrong["srv6.function_length"] {
		return
	}
	bits := s.Locator.Bits()
	if s.BlockLength == 0 || int(s.BlockLength) > bits {
		d.report("srv6.block_length", "`block_length` is %d: it must be 1 to the locator's length, %d", s.BlockLength, bits)
		return
	}
	if err := s.SIDLocator().Validate(); err != nil {
		d.report("srv6.locator", "%s", err)
	}
}

// peerChecker checks egress peers, each alone and against the others.
type peerChecker struct {
	sessionChecker
	border  *Border
	numbers unique[uint32]
	tables  unique[uint32]
	sids    unique[netip.Addr]
	rds     unique[srv6.RouteDistinguisher]
	rts     unique[srv6.RouteTarget]
	hops    unique[netip.Addr]
	marks   unique[Community]
}

func (c peerChecker) check(p *Peer, path string) {
	owner := named(path, p.Name)
	c.session(&p.Session, path)
	c.peerNumber(path+".number", p.Number, "the peer's number at this border, from 1 up, never given to another one")
	c.numbers.add(c.decoder, path+".number", owner, p.Number)
	c.as(p, path, owner)
	c.families(p, path, owner)
	c.checkMaxLengths(path+".import", p.Import.IPv6MaxLength, p.Import.IPv4MaxLength)
	c.maxPrefix(p.MaxPrefix, path, owner)
	c.role(p, path, owner)
	if p.LocalPref == 0 && c.given(path+".local_pref") {
		c.report(path+".local_pref", "`local_pref` is 0: it must be 1 to 4294967295, and is 100 without the key")
	}
	c.source(p, path, owner)
	if c.given(path + ".interface") {
		c.checkInterface(path+".interface", p.Interface)
	}
	c.sid(p, path, owner)
	c.derivedTable(c.border.Kernel.Tables, path, owner, p.Table)
	c.tables.add(c.decoder, keyOr(c.decoder, path, "table"), owner, p.Table)
	c.rds.add(c.decoder, keyOr(c.decoder, path, "rd"), owner, p.RD)
	c.rts.add(c.decoder, keyOr(c.decoder, path, "rt"), owner, p.RT)
	c.reserved(p, path, owner)
}

// reserved refuses the names by which servers know the border itself.
func (c peerChecker) reserved(p *Peer, path, owner string) {
	if !c.usable("router_id") || !c.border.RouterID.Is4() {
		return
	}
	if own := srv6.NewRouteDistinguisher(c.border.RouterID, srv6.ItselfNumber); p.RD == own {
		c.report(path+".rd", "`rd` of %s is %s, which is the border's own: give it another number", owner, own)
	}
	for _, own := range []srv6.RouteTarget{srv6.MainTarget(c.border.RouterID), srv6.PortTarget(c.border.RouterID)} {
		if p.RT == own {
			c.report(keyOr(c.decoder, path, "rt"), "`rt` of %s is %s, which is the border's own: give it another number", owner, own)
		}
	}
}

// peerNumber checks the number for which RD and RT have 16 bits.
func (d *decoder) peerNumber(key string, number uint32, why string) {
	d.need(key, why)
	if d.usable(key) && (number == 0 || number > math.MaxUint16) {
		d.report(key, "`%s` is %d: it must be 1 to %d, since it becomes part of the route distinguisher",
			leaf(key), number, math.MaxUint16)
	}
}

func (c peerChecker) as(p *Peer, path, owner string) {
	key := path + ".asn"
	c.need(key, "the neighbour's AS number")
	if !c.usable(key) || !c.usable("asn") {
		return
	}
	c.checkASN(key, p.ASN)
	if p.ASN == c.border.ASN {
		c.report(key, "%s has the own AS %d, so it is no way out of it: give the neighbour's AS "+
			"(docs/egress-deploy.md shows how an own router hands on a peer's routes)", owner, p.ASN)
	}
	if p.Multihop == 0 {
		c.report(path+".multihop", "`multihop` is 0: 1 is directly connected")
	}
	if p.TTLSecurity && p.Multihop > 1 {
		c.report(path+".ttl_security", "`ttl_security` and `multihop` %d exclude each other (RFC 5082 §3)", p.Multihop)
	}
}

func (c peerChecker) families(p *Peer, path, owner string) {
	key := path + ".families"
	if len(p.Families) == 0 {
		c.report(key, "`families` is empty: name \"ipv6\", \"ipv4\" or both")
	}
	seen := newUnique[Family]("family")
	for i, family := range p.Families {
		seen.add(c.decoder, fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("entry %d", i+1), family)
	}
}

func (c peerChecker) sid(p *Peer, path, owner string) {
	locator := c.border.SRv6.SIDLocator()
	if c.wrong["srv6.locator"] || locator.Validate() != nil {
		return
	}
	key := path + ".sid"
	switch _, ours := locator.Function(p.SID); {
	case c.usable(key) && !ours:
		c.report(key, "`sid` %s is no SID of the locator %s: after its %d bits comes a function of %d bits, "+
			"not zero, and then zeros only", p.SID, locator.Prefix, locator.Prefix.Bits(), locator.FunctionBits)
	case !c.given(key) && c.usable(path+".number") && !p.SID.IsValid():
		c.report(path+".number", "number %d of %s does not fit the SID's function of %d bits: take a smaller one, "+
			"or give it a `sid`", p.Number, owner, locator.FunctionBits)
	}
	c.sids.add(c.decoder, keyOr(c.decoder, path, "sid"), owner, p.SID)
	if slices.Contains(p.Families, FamilyIPv4) {
		c.ipv4SID(p, path, owner, locator)
	}
	c.outsideLocator(&p.Session, path, locator.Prefix)
}

// ipv4SID checks the SID for IPv4.
func (c peerChecker) ipv4SID(p *Peer, path, owner string, locator srv6.Locator) {
	key := path + ".ipv4_sid"
	if _, ours := locator.Function(p.IPv4SID); c.usable(key) && !ours {
		c.report(key, "`ipv4_sid` %s is no SID of the locator %s: after its %d bits comes a function of %d bits, "+
			"not zero, and then zeros only", p.IPv4SID, locator.Prefix, locator.Prefix.Bits(), locator.FunctionBits)
	}
	c.sids.add(c.decoder, keyOr(c.decoder, path, "ipv4_sid"), "IPv4 of "+owner, p.IPv4SID)
}

// outsideLocator checks that packets of a session are none to a SID.
func (d *decoder) outsideLocator(s *Session, path string, locator netip.Prefix) {
	for _, end := range []struct {
		name    string
		address netip.Addr
	}{{"address", s.Address}, {"local_address", s.LocalAddress}} {
		if key := path + "." + end.name; d.usable(key) && locator.Contains(end.address) {
			d.report(key, "`%s` %s of %s lies in the locator %s, which is for SIDs alone",
				end.name, end.address, named(path, s.Name), locator)
		}
	}
}

// derivedTable checks a table that was given or derived.
func (d *decoder) derivedTable(tables Tables, path, owner string, table uint32) {
	if d.given(path + ".table") {
		if d.usable(path + ".table") {
			d.checkTable(path+".table", owner, table)
		}
		return
	}
	if table != 0 && !tables.Contains(table) && d.usable(path+".number") && !d.wrong["kernel.tables"] {
		d.report(path+".number", "table %d of %s is outside `kernel.tables` %d-%d: take a smaller number or a longer range",
			table, owner, tables.First, tables.Last)
	}
}

// keyOr returns a key of an entry, or that of its number where the value was
// derived from it.
func keyOr(d *decoder, path, name string) string {
	if d.given(path + "." + name) {
		return path + "." + name
	}
	return path + ".number"
}
