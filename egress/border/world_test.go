package border_test

import (
	"fmt"
	"net/netip"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

const borderTOML = `
role = "border"
asn = 64500
router_id = "192.0.2.1"
[srv6]
locator = "2001:db8:b1::/48"
interfaces = ["eth0"]
[import]
martians = true
[[reflector]]
name = "rr"
address = "2001:db8::53"
[[peer]]
name = "a"
number = 1
address = "2001:db8:a::1"
asn = 64601
enforce_first_as = "off"
max_prefixes = 8
communities = ["64500:7", "64500:1:2"]
[[peer]]
name = "b"
number = 2
address = "2001:db8:b::1"
asn = 64602
enforce_first_as = "off"
`

func parse(t testing.TB, text string) *config.Border {
	t.Helper()
	file, err := config.Parse("border.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file.Border
}

// world executes a planner's steps, and watches that its promise holds after each step.
type world struct {
	t       *testing.T
	config  *config.Border
	main    *fib.Table
	planner *border.Planner
	// routes and nexthops are the kernel's; announced has the servers' routes.
	routes    map[kernel.RouteKey]kernel.Route
	nexthops  map[kernel.NexthopID]kernel.Nexthop
	announced map[string]map[netip.Prefix]speaker.VPNRoute
	// advertised has each peer's present announcements. settled is false between an event
	// and the flush that follows from it, and for the state of a former run.
	advertised map[string]map[netip.Prefix]bool
	stale      map[string]bool
	// barred are the prefixes that best paths must not use, of any peer.
	barred map[netip.Prefix]bool
	// marked are the peers whose path was announced to servers.
	marked    map[string]bool
	reachable bool
	// isolated: nothing leads to any next hop.
	isolated bool
	// via are the ways to next hops that are not on a link; asked counts questions.
	via      map[netip.Addr]netip.Addr
	asked    int
	interior string
	// lookup is that of every peer.
	lookup border.Lookup
	log    []string
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, config: parse(t, borderTOML), main: fib.New(),
		routes: make(map[kernel.RouteKey]kernel.Route), nexthops: make(map[kernel.NexthopID]kernel.Nexthop),
		announced: make(map[string]map[netip.Prefix]speaker.VPNRoute), advertised: make(map[string]map[netip.Prefix]bool),
		stale: make(map[string]bool), barred: make(map[netip.Prefix]bool), marked: make(map[string]bool),
	}
	for _, name := range []string{"a", "b"} {
		w.announced[name], w.advertised[name] = map[netip.Prefix]speaker.VPNRoute{}, map[netip.Prefix]bool{}
	}
	w.start()
	return w
}

// start makes a new planner, as a crash and a restart do.
func (w *world) start() {
	var have kernel.State
	for _, r := range w.routes {
		have.Routes = append(have.Routes, r)
	}
	for _, n := range w.nexthops {
		have.Nexthops = append(have.Nexthops, n)
	}
	w.planner = border.New(w.config, border.Options{
		Anchor: "anchor", Lookup: func(*config.Peer) border.Lookup { return w.lookup },
		Pair:    func(p *config.Peer) (string, string) { return "pair-" + p.Name, "pair-" + p.Name + "p" },
		Resolve: w.resolve, ResolveInside: w.resolveInside, Main: w.main,
	}, have)
	want := w.planner.Want()
	clear(w.routes)
	clear(w.nexthops)
	w.put(want)
	for name := range w.advertised {
		clear(w.advertised[name])
		clear(w.announced[name]) // the sessions with reflectors are new, too
		delete(w.marked, name)
		w.stale[name] = true
	}
}

// nowhere is a next hop that nothing leads to, unless reachable is set.
var nowhere = netip.MustParseAddr("2001:db8::dead")

func (w *world) resolve(_ *config.Peer, nextHop netip.Addr) (border.Hop, error) {
	w.asked++
	if gateway, ok := w.via[nextHop]; ok {
		return border.Hop{Device: "eth2", Gateway: gateway}, nil
	}
	if w.isolated || nextHop == nowhere && !w.reachable {
		return border.Hop{}, fmt.Errorf("no route to %s", nextHop)
	}
	return border.Hop{Device: "eth1", Gateway: nextHop}, nil
}

// resolveInside leads to other borders over w.interior, if there is such a device.
func (w *world) resolveInside(nextHop netip.Addr) (border.Hop, error) {
	if w.interior == "" {
		return border.Hop{}, fmt.Errorf("no route to %s", nextHop)
	}
	return border.Hop{Device: w.interior, Gateway: nextHop}, nil
}

func (w *world) put(s kernel.State) {
	for _, n := range s.Nexthops {
		w.nexthops[n.ID] = n
	}
	for _, r := range s.Routes {
		if r.Nexthop != 0 {
			if _, ok := w.nexthops[r.Nexthop]; !ok {
				w.t.Fatalf("route %s in table %d points to nexthop %d, which is not there; steps:\n%s", r.Prefix, r.Table, r.Nexthop, w.steps())
			}
		}
		w.routes[r.Key()] = r
	}
}

func (w *world) remove(s kernel.State) {
	for _, r := range s.Routes {
		delete(w.routes, r.Key())
	}
	for _, n := range s.Nexthops {
		delete(w.nexthops, n.ID)
		for key, r := range w.routes {
			if r.Nexthop == n.ID {
				w.t.Fatalf("nexthop %d goes while %s in table %d uses it; steps:\n%s", n.ID, r.Prefix, r.Table, w.steps())
			}
			_ = key
		}
	}
}

// flush does everything that is to be done, a few prefixes at a time.
func (w *world) flush() {
	w.t.Helper()
	for range 10_000 {
		busy := false
		for _, name := range append(w.planner.Names(), border.MainTable) {
			if w.planner.Pending(name) {
				busy = true
				w.flushSome(name)
			}
		}
		if !busy {
			return
		}
	}
	w.t.Fatalf("the planner does not come to an end; steps:\n%s", w.steps())
}

func (w *world) flushSome(name string) {
	w.t.Helper()
	for _, step := range w.planner.Flush(name, 3) {
		w.log = append(w.log, name+": "+step.String())
		switch {
		case step.Drop != nil:
			w.routes[step.Drop.Key()] = kernel.Route{Prefix: step.Drop.Prefix, Table: step.Drop.Table, Type: kernel.Blackhole}
		case step.Change != nil:
			w.remove(step.Change.Remove)
			w.put(step.Change.Put)
		case step.Bar != nil:
			for _, p := range step.Bar.Barred {
				w.barred[p] = true
			}
			for _, p := range step.Bar.Free {
				delete(w.barred, p)
			}
		case step.Withdraw != nil:
			for _, p := range step.Withdraw.Prefixes {
				if p == border.Marker(w.peer(name).SID) {
					delete(w.marked, name)
				}
				delete(w.announced[name], p)
			}
		case step.Announce != nil:
			for _, p := range step.Announce.Prefixes {
				if p == border.Marker(w.peer(name).SID) {
					w.marked[name] = true
					continue
				}
				w.announced[name][p] = step.Announce.Route
			}
		}
	}
}

func (w *world) peer(name string) *config.Peer { return w.planner.Config(name) }

// open reports whether a packet to the peer's SID is looked up in its table.
func (w *world) open(name string) bool {
	r, ok := w.routes[border.Drops(w.peer(name), w.lookup)[0].Key()]
	return ok && r.Nexthop != 0
}

// table returns the peer's table without the routes that catch the rest.
func (w *world) table(name string) map[netip.Prefix]kernel.Nexthop {
	table := map[netip.Prefix]kernel.Nexthop{}
	for _, r := range w.routes {
		if r.Table == w.peer(name).Table && r.Nexthop != 0 {
			table[r.Prefix] = w.nexthops[r.Nexthop]
		}
	}
	return table
}

// check fails the test unless table, announcements and advertisements agree.
func (w *world) check(what string) {
	w.t.Helper()
	for name, advertised := range w.advertised {
		table := w.table(name)
		v, _ := w.planner.View(name)
		if w.marked[name] != (v.Usable && w.open(name)) {
			w.t.Fatalf("%s: peer %s is usable %v, its SID open %v, the path marked %v; steps:\n%s",
				what, name, v.Usable, w.open(name), w.marked[name], w.steps())
		}
		for p := range table {
			if w.open(name) && !advertised[p] && !w.stale[name] {
				w.t.Fatalf("%s: packets to %s go to peer %s, which does not advertise it; steps:\n%s", what, p, name, w.steps())
			}
		}
		for p := range advertised {
			_, installed := table[p]
			_, announced := w.announced[name][p]
			if !installed || !announced || !w.open(name) {
				w.t.Fatalf("%s: %s of peer %s: in the table %v, announced %v, SID open %v; steps:\n%s",
					what, p, name, installed, announced, w.open(name), w.steps())
			}
		}
		for p := range w.announced[name] {
			if !advertised[p] {
				w.t.Fatalf("%s: %s of peer %s is announced but not advertised; steps:\n%s", what, p, name, w.steps())
			}
		}
	}
}

func (w *world) steps() string {
	text := ""
	for _, line := range w.log[max(0, len(w.log)-40):] {
		text += "  " + line + "\n"
	}
	return text
}

func (w *world) up(name string) { w.planner.PeerUp(name) }

func (w *world) down(name string) {
	w.planner.PeerDown(name, "test")
	clear(w.advertised[name])
	w.stale[name] = false
}

func (w *world) learn(name string, a speaker.Attributes, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		w.advertised[name][p] = true
	}
	w.planner.Learned(speaker.Learned{Peer: name, Prefixes: prefixes, Attributes: &a})
}

func (w *world) withdraw(name string, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		delete(w.advertised[name], p)
	}
	w.planner.Withdrawn(speaker.Withdrawn{Peer: name, Prefixes: prefixes})
}

func (w *world) endOfRIB(name string) {
	w.planner.EndOfRIB(name, speaker.IPv6Unicast)
	w.stale[name] = false
}

// prefix returns one of some prefixes.
func prefix(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(0xc + n>>8), byte(n)}), 48)
}

// attributes returns one of some sets of attributes.
func attributes(n int) speaker.Attributes {
	return speaker.Attributes{
		NextHop: netip.AddrFrom16([16]byte{0xfe, 0x80, 15: byte(1 + n%2)}),
		ASPath:  speaker.NewASPath(64601, uint32(65000+n)),
	}
}
