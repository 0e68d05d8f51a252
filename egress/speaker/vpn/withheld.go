package vpn

import (
	"net/netip"
	"sync"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Withheld counts the routes that are not announced to a reflector, since their path
// attributes leave no room for them in a message. Such a route alone is not announced (RFC
// 4271 §9.2), and is withdrawn where the reflector had it before (RFC 8654 §4).
type Withheld struct {
	// Routes counts them now, by their distinguishers. Those without any are left out.
	Routes map[srv6.RouteDistinguisher]int
	// Total counts since the speaker started how often a route became one of them, in
	// each session anew.
	Total uint64
}

// NoRoom is a route that has become withheld, as an example of those of a message.
type NoRoom struct {
	RD    srv6.RouteDistinguisher
	Route netip.Prefix
	// Attributes is the length of its path attributes, Message that of the longest
	// message, in bytes.
	Attributes, Message int
}

// WithheldSet has the routes that are withheld from a reflector. It may be used from any
// goroutine.
type WithheldSet struct {
	mu     sync.Mutex
	routes map[srv6.RouteDistinguisher]map[routeKey]struct{}
	total  uint64
}

// Fit separates the routes of a group that fit into messages from those to withhold.
// local is the next hop of routes without one. fresh are newly withheld: the reflector may
// have them. example is one of fresh.
func (w *WithheldSet) Fit(g Group, local netip.Addr, maxLength int) (t wire.Template, fitting, fresh []netip.Prefix, example NoRoom, err error) {
	if t, err = g.announcement(local, maxLength); err != nil {
		return t, nil, nil, example, err
	}
	fitting, tooLong := t.Split(g.Prefixes)
	w.Remove(g.RD, fitting)
	if fresh = w.add(g.RD, tooLong); len(fresh) > 0 {
		example = NoRoom{RD: g.RD, Route: fresh[0], Attributes: len(t.Attributes), Message: t.MaxLength}
	}
	return t, fitting, fresh, example, nil
}

// add notes routes, and returns those that are new: the reflector may have them.
func (w *WithheldSet) add(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) (fresh []netip.Prefix) {
	if len(prefixes) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.routes[rd]
	if of == nil {
		if w.routes == nil {
			w.routes = make(map[srv6.RouteDistinguisher]map[routeKey]struct{})
		}
		of = make(map[routeKey]struct{})
		w.routes[rd] = of
	}
	for _, p := range prefixes {
		if _, known := of[compact(p)]; !known {
			of[compact(p)] = struct{}{}
			fresh = append(fresh, p)
		}
	}
	w.total += uint64(len(fresh))
	return fresh
}

// Remove forgets routes, and returns those that were not withheld.
func (w *WithheldSet) Remove(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) (others []netip.Prefix) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.routes[rd]
	if of == nil {
		return prefixes
	}
	for _, p := range prefixes {
		if _, known := of[compact(p)]; !known {
			others = append(others, p)
		}
		delete(of, compact(p))
	}
	if len(of) == 0 {
		delete(w.routes, rd)
	}
	return others
}

// reset forgets all routes: the reflector has none.
func (w *WithheldSet) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes = nil
}

// Has reports whether a route is withheld.
func (w *WithheldSet) Has(rd srv6.RouteDistinguisher, prefix netip.Prefix) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, has := w.routes[rd][compact(prefix)]
	return has
}

// Count counts the routes.
func (w *WithheldSet) Count() Withheld {
	w.mu.Lock()
	defer w.mu.Unlock()
	counted := Withheld{Total: w.total}
	for rd, of := range w.routes {
		if counted.Routes == nil {
			counted.Routes = make(map[srv6.RouteDistinguisher]int)
		}
		counted.Routes[rd] = len(of)
	}
	return counted
}
