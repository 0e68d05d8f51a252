package endpoint

import (
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/port"
	"hikyaku/egress/rib"
	"hikyaku/egress/speaker"
)

// path is the state of one path.
type path struct {
	config *config.Path
	// blocked is why the path's routes must not be in use, nil when they may.
	blocked error
	// lost: the border has withdrawn the path as a whole.
	lost bool
	// dead is why packets to the SID are lost, nil when they are not known to be. Routes stay
	// in the table meanwhile.
	dead  error
	drain bool
	// removed: it stays blocked, see [Planner.Remove].
	removed bool
	// entered: the rules that lead into the table are in the kernel.
	entered bool
	routes  rib.Table[route]
	queue   []netip.Prefix
	gone    []kernel.Nexthop
	// sid and ipv4SID are where packets of each family go; a border may have one for both.
	sid, ipv4SID netip.Addr
	// marker is the route that stands for the whole path; see [marker].
	marker netip.Prefix
	// port is the state of the port that the path's packets leave by, nil where its border
	// says nothing of it.
	port *port.State
	// portStripped: its border has sent the state, and it has not come here.
	portStripped bool
	count        counts
	// refused are announced beyond the limit, strange with a SID outside the locators or
	// a foreign target.
	refused, strange map[netip.Prefix]struct{}
}

type counts struct {
	ipv6, ipv4 int // reached
	draining   int // of these, marked by the border as about to go
}

// route is the state of one prefix of a path.
type route struct {
	// want is the announced route, nil for none.
	want *speaker.VPNRoute
	// have is the object that the table's route points to, 0 without one.
	have kernel.NexthopID
	// stale: a former run put it there, and nobody has confirmed it.
	stale bool
	// draining: the route has the community GRACEFUL_SHUTDOWN (RFC 8326).
	draining bool
	queued   bool
}

// noteSID notes the SID of a route.
func (p *path) noteSID(prefix netip.Prefix, sid netip.Addr) {
	if prefix.Addr().Is4() {
		p.ipv4SID = sid
	} else {
		p.sid = sid
	}
}

// anySID is the path's SID, for IPv4 where it has no other.
func (p *path) anySID() netip.Addr {
	if p.sid.IsValid() {
		return p.sid
	}
	return p.ipv4SID
}

// usable reports whether packets may take the path.
func (p *path) usable() bool { return p.blocked == nil && !p.lost && p.dead == nil }

// confirmed reports whether a reflector announces the path now.
func (p *path) confirmed() bool { return p.count.ipv6+p.count.ipv4 > 0 }

// inUse reports whether packets take the path.
func (p *path) inUse() bool { return p.usable() && p.routes.Len() > 0 }

func (p *path) wanted(r route) *speaker.VPNRoute {
	if p.blocked != nil {
		return nil
	}
	return r.want
}

func (p *path) store(prefix netip.Prefix, was, now route) {
	p.tally(prefix, was, -1)
	p.tally(prefix, now, +1)
	if now.want == nil && now.have == 0 && !now.queued {
		p.routes.Delete(prefix)
		return
	}
	p.routes.Set(prefix, now)
}

func (p *path) tally(prefix netip.Prefix, r route, n int) {
	if r.want == nil {
		return
	}
	if prefix.Addr().Is4() {
		p.count.ipv4 += n
	} else {
		p.count.ipv6 += n
	}
	if r.draining {
		p.count.draining += n
	}
}

func (p *path) enqueue(prefix netip.Prefix, was, now route) {
	if !was.queued {
		p.queue = append(p.queue, prefix)
	}
	now.queued = true
	p.store(prefix, was, now)
}

func (p *path) withdraw(prefix netip.Prefix) {
	if was, known := p.routes.Get(prefix); known {
		now := was
		now.want, now.stale, now.draining = nil, false, false
		p.enqueue(prefix, was, now)
	}
}

// expire withdraws the routes that nobody has confirmed.
func (p *path) expire() {
	for prefix, was := range p.routes.All() {
		if was.stale {
			p.withdraw(prefix)
		}
	}
}

// requeue plans every route anew.
func (p *path) requeue() {
	for prefix, was := range p.routes.All() {
		p.enqueue(prefix, was, was)
	}
}
