package speaker

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"unique"

	"hikyaku/egress/srv6"
)

// Withheld is what a route reflector is not told of, since the path attributes of a route
// leave no room for it in a message: that route alone is not announced (RFC 4271 §9.2), and
// what the reflector had of it before is withdrawn (RFC 8654 §4).
type Withheld struct {
	// Routes counts them now, by their distinguishers. Those without any are left out.
	Routes map[srv6.RouteDistinguisher]int
	// Total counts since the speaker started how often a route became one of them, in
	// each session anew.
	Total uint64
}

// Withheld returns what the neighbour of this name is not told of.
func (s *Speaker) Withheld(name string) Withheld {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if v := s.ownSessions[name]; v != nil {
		return v.withheld.count()
	}
	if _, mirrored := s.mirrors[name]; mirrored {
		return s.mirrorWithheld.count()
	}
	return Withheld{}
}

// withheld are the routes that a reflector is not told of. It may be used from any
// goroutine.
type withheld struct {
	mu     sync.Mutex
	routes map[srv6.RouteDistinguisher]map[vpnPrefix]struct{}
	total  uint64
}

// add notes routes, and returns those that are new: the reflector may have them.
func (w *withheld) add(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) (fresh []netip.Prefix) {
	if len(prefixes) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.routes[rd]
	if of == nil {
		if w.routes == nil {
			w.routes = make(map[srv6.RouteDistinguisher]map[vpnPrefix]struct{})
		}
		of = make(map[vpnPrefix]struct{})
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

// remove forgets routes, and returns those that were none of them.
func (w *withheld) remove(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) (others []netip.Prefix) {
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

// reset forgets all routes: the reflector knows of none.
func (w *withheld) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes = nil
}

func (w *withheld) count() Withheld {
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

// encode returns the messages of a parcel.
func (v *ownSession) encode(p parcel, local netip.Addr, longest int) []byte {
	b := p.messages
	for _, g := range p.groups {
		if g.route == (unique.Handle[VPNRoute]{}) {
			b = withdrawal(g.family).append(b, g.rd, v.withheld.remove(g.rd, g.prefixes))
			continue
		}
		u, err := g.announcement(local, longest)
		if err != nil { // not of those that AnnounceVPN let through
			v.log.Error("encoding VPN routes", slog.String("rd", g.rd.String()), slog.Any("error", err))
			continue
		}
		fitting, tooLong := u.split(g.prefixes)
		v.withheld.remove(g.rd, fitting)
		b = u.append(b, g.rd, fitting)
		if fresh := v.withheld.add(g.rd, tooLong); len(fresh) > 0 {
			b = withdrawal(g.family).append(b, g.rd, fresh)
			v.speaker.logWithheld(v.neighbor.Address, v.withheld, g.rd, fresh[0], u)
		}
	}
	return b
}

// announcement are the messages that announce a group. local is the next hop where the
// route has none.
func (g group) announcement(local netip.Addr, longest int) (updates, error) {
	route := g.route.Value()
	hop := route.Attributes.NextHop
	if !hop.IsValid() {
		hop = local
	}
	attributes, err := route.wire()
	if err != nil {
		return updates{}, err
	}
	return announcement(attributes, hop, g.family, longest), nil
}

// logWithheld logs now and then that routes are withheld, one of them as an example.
func (s *Speaker) logWithheld(from netip.Addr, w *withheld, rd srv6.RouteDistinguisher, example netip.Prefix, u updates) {
	d := s.dispatcher
	d.inbox.post(func(context.Context) {
		session := d.sessions[from]
		if session == nil {
			return
		}
		d.logSeldom(&session.faults.withheld, func() {
			counted := w.count()
			now := 0
			for _, n := range counted.Routes {
				now += n
			}
			session.faults.log.Warn("VPN route not announced: its path attributes leave no room in a message",
				slog.String("route", example.String()), slog.String("rd", rd.String()),
				slog.Int("attributes", len(u.attributes)), slog.Int("message", u.longest),
				slog.Int("withheld", now), slog.Uint64("total", counted.Total))
		})
	})
}
