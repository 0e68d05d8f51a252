package mptcp

import (
	"iter"
	"net/netip"

	"hikyaku/egress/prefixmap"
)

// areas finds connections by their clients' prefixes without reading each of them. It keeps
// them by the part of the address space that the client lies in.
type areas map[netip.Prefix]map[Token]*Connection

// areaBits are the sizes of areas, for IPv4 and IPv6. Most prefixes of the routing
// table lie within one, and few areas have a great part of all clients.
const areaBits4, areaBits6 = 16, 32

func areaOf(client netip.Addr) netip.Prefix {
	bits := areaBits6
	if client.Is4() {
		bits = areaBits4
	}
	area, _ := client.Prefix(bits) // of an address without family: the zero one
	return area
}

func (a areas) insert(c *Connection) {
	area := areaOf(c.Client())
	if a[area] == nil {
		a[area] = make(map[Token]*Connection)
	}
	a[area][c.Token] = c
}

func (a areas) remove(c *Connection) {
	area := areaOf(c.Client())
	delete(a[area], c.Token)
	if len(a[area]) == 0 {
		delete(a, area)
	}
}

// within returns the connections whose client is in one of the prefixes.
func (a areas) within(prefixes *prefixmap.Map[struct{}]) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		for area := range a.touched(prefixes) {
			for _, c := range a[area] {
				if prefixes.Contains(c.Client()) && !yield(c) {
					return
				}
			}
		}
	}
}

// touched returns the areas with connections that overlap one of the prefixes.
func (a areas) touched(prefixes *prefixmap.Map[struct{}]) map[netip.Prefix]bool {
	found := make(map[netip.Prefix]bool)
	for p := range prefixes.Prefixes() {
		if area := areaOf(p.Addr()); p.Bits() >= area.Bits() && a[area] != nil {
			found[area] = true
		}
	}
	for area := range a {
		for _, bits := range prefixes.Lengths(area.Addr()) {
			if wide, err := area.Addr().Prefix(bits); err == nil && bits < area.Bits() {
				if prefixes.Has(wide) {
					found[area] = true
				}
			}
		}
	}
	return found
}
