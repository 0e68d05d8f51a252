package endpoint_test

import (
	"net/netip"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/endpoint"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

const serverTOML = `
role = "server"
asn = 64500
router_id = "192.0.2.11"
[srv6]
interface = "eth0"
tunnel_source = "2001:db8:5::10"
locators = ["2001:db8:b1::/48"]
[limits]
routes_per_path = 6
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[path]]
name = "a"
number = 1
border = "192.0.2.1"
peer = 1
addresses = ["2001:db8:5::a1", "198.51.100.1"]
[[path]]
name = "b"
number = 2
border = "192.0.2.1"
peer = 2
addresses = ["2001:db8:5::a2"]
`

// world executes a planner's steps.
type world struct {
	t        *testing.T
	config   *config.Server
	main     *fib.Table
	planner  *endpoint.Planner
	routes   map[kernel.RouteKey]kernel.Route
	nexthops map[kernel.NexthopID]kernel.Nexthop
	rules    map[kernel.Rule]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	file, err := config.Parse("server.toml", []byte(serverTOML))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, config: file.Server, main: fib.New(), routes: map[kernel.RouteKey]kernel.Route{}, nexthops: map[kernel.NexthopID]kernel.Nexthop{}}
	w.rules = make(map[kernel.Rule]bool)
	w.start()
	return w
}

func (w *world) start() {
	var have kernel.State
	for _, r := range w.routes {
		have.Routes = append(have.Routes, r)
	}
	for _, n := range w.nexthops {
		have.Nexthops = append(have.Nexthops, n)
	}
	anchor := func(netip.Addr) string { return "anchor" }
	w.planner = endpoint.New(w.config, endpoint.Options{Anchor: anchor, Main: w.main}, have)
	clear(w.routes)
	clear(w.nexthops)
	clear(w.rules)
	w.apply(kernel.Change{Put: w.planner.Want()})
}

func (w *world) apply(c kernel.Change) {
	w.t.Helper()
	for _, n := range c.Put.Nexthops {
		w.nexthops[n.ID] = n
	}
	for _, r := range c.Put.Routes {
		if _, ok := w.nexthops[r.Nexthop]; !ok {
			w.t.Fatalf("%s points to nexthop %d, which is not there", r.Prefix, r.Nexthop)
		}
		w.routes[r.Key()] = r
	}
	for _, r := range c.Put.Rules {
		w.rules[r] = true
	}
	for _, r := range c.Remove.Rules {
		delete(w.rules, r)
	}
	for _, r := range c.Remove.Routes {
		delete(w.routes, r.Key())
	}
	for _, n := range c.Remove.Nexthops {
		delete(w.nexthops, n.ID)
		for _, r := range w.routes {
			if r.Nexthop == n.ID {
				w.t.Fatalf("nexthop %d goes while %s uses it", n.ID, r.Prefix)
			}
		}
	}
}

func (w *world) flush() (changed []netip.Prefix) {
	for _, name := range w.planner.Names() {
		for w.planner.Pending(name) {
			for _, step := range w.planner.Flush(name, 2) {
				w.apply(step.Change)
				changed = append(changed, step.Prefixes...)
			}
		}
	}
	return changed
}

// sids returns the SIDs that the prefixes of a path's table lead to.
func (w *world) sids(number uint32) map[string]string {
	sids := map[string]string{}
	for _, r := range w.routes {
		if r.Table == 10000+number {
			sids[r.Prefix.String()] = w.nexthops[r.Nexthop].SID.String()
		}
	}
	return sids
}

func rd(peer uint16) srv6.RouteDistinguisher {
	return srv6.NewRouteDistinguisher(netip.MustParseAddr("192.0.2.1"), peer)
}

func rt(peer uint16) srv6.RouteTarget {
	return srv6.NewRouteTarget(netip.MustParseAddr("192.0.2.1"), peer)
}

func route(peer uint16, sid string, a speaker.Attributes) *speaker.VPNRoute {
	r := speaker.NewVPNRoute(srv6.Service{SID: netip.MustParseAddr(sid)}, a, rt(peer))
	return &r
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func learned(peer uint16, r *speaker.VPNRoute, texts ...string) speaker.VPNLearned {
	return speaker.VPNLearned{RD: rd(peer), Route: r, Prefixes: prefixes(texts...)}
}
