package speaker

import (
	"net/netip"
	"slices"
	"sync"
	"unique"

	"hikyaku/egress/srv6"
)

// outTable is what the speaker announces as VPN routes, kept for sessions to come.
// A route takes some 50 bytes: its attributes are held once for all prefixes.
type outTable map[srv6.RouteDistinguisher]map[vpnPrefix]unique.Handle[VPNRoute]

func (t outTable) set(rd srv6.RouteDistinguisher, route unique.Handle[VPNRoute], prefixes []netip.Prefix) {
	routes := t[rd]
	if routes == nil {
		routes = make(map[vpnPrefix]unique.Handle[VPNRoute])
		t[rd] = routes
	}
	for _, p := range prefixes {
		routes[compact(p)] = route
	}
}

// remove returns those of the prefixes that were there.
func (t outTable) remove(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) []netip.Prefix {
	routes := t[rd]
	var known []netip.Prefix
	for _, p := range prefixes {
		if _, ok := routes[compact(p)]; ok {
			delete(routes, compact(p))
			known = append(known, p)
		}
	}
	if len(routes) == 0 {
		delete(t, rd)
	}
	return known
}

// group is prefixes of one family with the same attributes.
type group struct {
	route    unique.Handle[VPNRoute]
	family   Family
	prefixes []netip.Prefix
}

// groups returns the routes of a distinguisher so that few messages hold them.
func (t outTable) groups(rd srv6.RouteDistinguisher) []group {
	type key struct {
		route  unique.Handle[VPNRoute]
		family Family
	}
	numbers := make(map[key]int)
	var list []group
	for prefix, route := range t[rd] {
		k := key{route, vpnFamilyOf(prefix.is4)}
		n, ok := numbers[k]
		if !ok {
			n = len(list)
			numbers[k] = n
			list = append(list, group{route: route, family: k.family})
		}
		list[n].prefixes = append(list[n].prefixes, prefix.prefix())
	}
	return list
}

func vpnFamilyOf(is4 bool) Family {
	if is4 {
		return VPNv4
	}
	return VPNv6
}

// byFamily splits prefixes by family, in order; either list may be empty.
func byFamily(prefixes []netip.Prefix) map[Family][]netip.Prefix {
	if len(prefixes) == 0 {
		return nil
	}
	first := prefixes[0].Addr().Is4()
	if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() != first }) {
		return map[Family][]netip.Prefix{vpnFamilyOf(first): prefixes}
	}
	split := make(map[Family][]netip.Prefix)
	for _, p := range prefixes {
		f := vpnFamilyOf(p.Addr().Is4())
		split[f] = append(split[f], p)
	}
	return split
}

// outbox is what is still to be sent on a session. Posting never waits: a
// reflector that does not read must not hold up the others.
type outbox struct {
	mu   sync.Mutex
	list []outItem
	size int
	// bell has a value while there may be something.
	bell chan struct{}
}

// outItem is one of: encoded messages; a distinguisher, all of whose routes are
// to be sent as they are when its turn comes.
type outItem struct {
	messages []byte
	table    *srv6.RouteDistinguisher
}

// maxOutbox bounds what waits for a reflector, in bytes. Beyond it a new session
// takes less than the backlog: a full table from four peers is 30 MB.
const maxOutbox = 64 << 20

func newOutbox() *outbox { return &outbox{bell: make(chan struct{}, 1)} }

// post returns false when the backlog has become too long.
func (o *outbox) post(items ...outItem) bool {
	o.mu.Lock()
	for _, item := range items {
		o.size += len(item.messages)
	}
	o.list = append(o.list, items...)
	fits := o.size <= maxOutbox
	o.mu.Unlock()
	select {
	case o.bell <- struct{}{}:
	default:
	}
	return fits
}

// take returns everything that waits, in order.
func (o *outbox) take() []outItem {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list, o.size = nil, 0
	return list
}
