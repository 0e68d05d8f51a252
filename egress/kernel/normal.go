package kernel

import (
	"cmp"
	"net/netip"
)

// defaultMetricIPv6 is the metric that the kernel takes for an IPv6 route's metric 0.
const defaultMetricIPv6 = 1024

// normal gives the one form of a route that both Read and Diff use.
func (r Route) normal() Route {
	r.Prefix = r.Prefix.Masked()
	if r.Type == 0 {
		r.Type = Unicast
	}
	if r.Metric == defaultMetricIPv6 && FamilyOf(r.Prefix.Addr()) == IPv6 {
		r.Metric = 0
	}
	return r
}

// normal fills the fields that the kernel fills: the action, all bits of the mask, and no prefix
// where it would match all.
func (r Rule) normal() Rule {
	if r.Action == 0 {
		r.Action = Lookup
	}
	if r.Mark != 0 && r.Mask == 0 {
		r.Mask = 0xffffffff
	}
	r.From, r.To = selector(r.From), selector(r.To)
	return r
}

func selector(p netip.Prefix) netip.Prefix {
	if p.Bits() <= 0 {
		return netip.Prefix{}
	}
	return p.Masked()
}

func (a Address) normal() Address {
	if a.Prefix.Addr().Is4() {
		a.NoDAD = false // IPv4 has no such flag
	}
	return a
}

// compareRoutes orders routes in normal form by their keys.
func compareRoutes(a, b Route) int {
	return cmp.Or(
		cmp.Compare(a.Table, b.Table), a.Prefix.Addr().Compare(b.Prefix.Addr()),
		cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), cmp.Compare(a.Metric, b.Metric),
	)
}

func compareNexthops(a, b Nexthop) int { return cmp.Compare(a.ID, b.ID) }

// compareAddresses orders by the key that the kernel allows once: an address on a device.
func compareAddresses(a, b Address) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), a.Prefix.Addr().Compare(b.Prefix.Addr()))
}

func compareRules(a, b Rule) int {
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Family, b.Family),
		a.From.Compare(b.From), a.To.Compare(b.To),
		cmp.Compare(a.Mark, b.Mark), cmp.Compare(a.Mask, b.Mask),
		cmp.Compare(a.InDevice, b.InDevice), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Table, b.Table),
	)
}
