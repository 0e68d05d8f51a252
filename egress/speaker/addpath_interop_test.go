package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/bgptest"
)

// The daemons below are a router of the own AS. The first client is the speaker, which gets
// all paths of the sessions with the others: egress peers that wait, of AS 64601 and up.

func (d daemon) sending(config func(at netip.AddrPort, agent netip.Addr, peers []netip.AddrPort) string, peers []netip.AddrPort) daemon {
	d.config = func(at netip.AddrPort, clients []netip.Addr) string { return config(at, clients[0], peers) }
	return d
}

func gobgpPaths(at netip.AddrPort, agent netip.Addr, peers []netip.AddrPort) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[global.config]\nas = %d\nrouter-id = %q\nport = %d\nlocal-address-list = [%q]\n", ownAS, at.Addr(), at.Port(), at.Addr())
	neighbor := func(a netip.Addr, as int, more string) {
		fmt.Fprintf(&b, "[[neighbors]]\n[neighbors.config]\nneighbor-address = %q\npeer-as = %d\n%s", a, as, more)
		fmt.Fprintf(&b, "[neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 30\n")
		for _, f := range []string{"ipv6-unicast", "ipv4-unicast"} {
			fmt.Fprintf(&b, "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = %q\n", f)
			fmt.Fprintf(&b, "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n")
			if as == ownAS {
				fmt.Fprintf(&b, "[neighbors.afi-safis.add-paths.config]\nsend-max = 8\n")
			}
		}
	}
	neighbor(agent, ownAS, "[neighbors.transport.config]\npassive-mode = true\n")
	for i, p := range peers {
		neighbor(p.Addr(), 64601+i, fmt.Sprintf("[neighbors.transport.config]\nremote-port = %d\nlocal-address = %q\n"+
			"[neighbors.ebgp-multihop.config]\nenabled = true\nmultihop-ttl = 2\n[neighbors.timers.config]\nconnect-retry = 1\n", p.Port(), at.Addr()))
	}
	return b.String()
}

func frrPaths(at netip.AddrPort, agent netip.Addr, peers []netip.AddrPort) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n", ownAS, at.Addr())
	fmt.Fprintf(&b, " bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n bgp graceful-restart stalepath-time 60\n bgp graceful-restart restart-time 30\n bgp graceful-restart select-defer-time 5\n")
	fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %[1]s passive\n neighbor %[1]s update-source %[3]s\n neighbor %[1]s advertisement-interval 0\n", agent, ownAS, at.Addr())
	for i, p := range peers {
		fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %[1]s port %[3]d\n neighbor %[1]s update-source %[4]s\n"+
			" neighbor %[1]s ebgp-multihop 2\n neighbor %[1]s timers connect 1\n", p.Addr(), 64601+i, p.Port(), at.Addr())
	}
	for _, family := range []string{"ipv6 unicast", "ipv4 unicast"} {
		fmt.Fprintf(&b, " address-family %s\n  neighbor %s activate\n  neighbor %[2]s addpath-tx-all-paths\n", family, agent)
		for _, p := range peers {
			fmt.Fprintf(&b, "  neighbor %s activate\n", p.Addr())
		}
		fmt.Fprintf(&b, " exit-address-family\n")
	}
	return b.String()
}

func birdPaths(at netip.AddrPort, agent netip.Addr, peers []netip.AddrPort) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router id %s;\nlog stderr all;\nprotocol device {}\n", at.Addr())
	fmt.Fprintf(&b, "protocol static { ipv6; route 2001:db8:a0::/44 blackhole; }\nprotocol static { ipv4; route 203.0.113.0/24 blackhole; }\n")
	fmt.Fprintf(&b, "protocol bgp agent { local %s port %d as %d; neighbor %s as %d; passive on; multihop; graceful restart on; graceful restart time 30;\n",
		at.Addr(), at.Port(), ownAS, agent, ownAS)
	for _, f := range []string{"ipv6", "ipv4"} {
		fmt.Fprintf(&b, " %s { add paths tx; import none; export where source = RTS_BGP; };\n", f)
	}
	fmt.Fprintf(&b, "}\n")
	for i, p := range peers {
		fmt.Fprintf(&b, "protocol bgp t%d { local %s as %d; neighbor %s port %d as %d; multihop 2; connect retry time 1; connect delay time 1; error wait time 1, 2;\n",
			i, at.Addr(), ownAS, p.Addr(), p.Port(), 64601+i)
		fmt.Fprintf(&b, " ipv6 { import all; export none; };\n ipv4 { import all; export none; };\n}\n")
	}
	return b.String()
}

func TestPathsOfFRR(t *testing.T)   { testPaths(t, frr, frrPaths) }
func TestPathsOfBIRD(t *testing.T)  { testPaths(t, bird, birdPaths) }
func TestPathsOfGoBGP(t *testing.T) { testPaths(t, gobgpd, gobgpPaths) }

// hop is the next hop of an egress peer, counted from 0.
func hop(n int, six bool) netip.Addr {
	if six {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:a%d::1", n+1))
	}
	return netip.AddrFrom4([4]byte{203, 0, 113, byte(n + 1)})
}

// routesOf is an UPDATE of an egress peer.
func routesOf(t *testing.T, n int, med uint32, prefixes ...netip.Prefix) *bgp.BGPMessage {
	t.Helper()
	attributes := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{uint32(64601 + n), 64700})}),
		bgp.NewPathAttributeMultiExitDisc(med),
	}
	if prefixes[0].Addr().Is4() {
		next, err := bgp.NewPathAttributeNextHop(hop(n, false))
		if err != nil {
			t.Fatal(err)
		}
		return bgp.NewBGPUpdateMessage(nil, append(attributes, next), bgptest.NLRIs(t, prefixes))
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, bgptest.NLRIs(t, prefixes), hop(n, true))
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nil)
}

// pathView is what the events say of the routes of egress peers.
type pathView struct {
	*testSpeaker
	routes map[string]map[netip.Prefix]*Attributes
	up     map[string]bool
	said   map[string]string
}

// follow takes events until a condition holds.
func (v *pathView) follow(what string, cond func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			v.t.Fatalf("%s: not yet; up %v, routes %v, reasons %v", what, v.up, v.routes, v.said)
		}
		select {
		case e := <-v.Events():
			v.take(e)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (v *pathView) take(e Event) {
	switch e := e.(type) {
	case PeerUp:
		v.up[e.Peer], v.routes[e.Peer] = true, map[netip.Prefix]*Attributes{}
	case PeerDown:
		v.up[e.Peer], v.routes[e.Peer], v.said[e.Peer] = false, nil, e.Reason
	case NoSession:
		v.said[e.Peer] = e.Reason
	case Learned:
		for _, p := range e.Prefixes {
			v.routes[e.Peer][p] = e.Attributes
		}
	case Withdrawn:
		for _, p := range e.Prefixes {
			delete(v.routes[e.Peer], p)
		}
	}
}

// testPaths has two egress peers announce the same prefixes to the daemon, whose session with
// the speaker is the only one within reach.
func testPaths(t *testing.T, d daemon, config func(netip.AddrPort, netip.Addr, []netip.AddrPort) string) {
	if !inNamespace(t) {
		return
	}
	us, address := loopback(), loopback()
	at := netip.AddrPortFrom(address, freePort(t, address))
	var waiting []*fakeReflector
	var addresses []netip.AddrPort
	for n := range 2 {
		waiting = append(waiting, listenAs(t, uint32(64601+n)))
		addresses = append(addresses, waiting[n].at)
	}
	d = d.sending(config, addresses)
	kill := d.startAt(t, at, us)
	names := []string{"t0", "t1"}
	var neighbors []Neighbor
	for n, name := range names {
		neighbors = append(neighbors, Neighbor{
			Name: name, Address: hop(n, true), AS: uint32(64601 + n), Families: []Family{IPv6Unicast, IPv4Unicast},
			Match: &Match{NextHops: []netip.Addr{hop(n, true), hop(n, false)}},
		})
	}
	neighbors = append(neighbors, Neighbor{
		Name: "router", Address: at.Addr(), Port: at.Port(), AS: ownAS, LocalAddress: us, AddPath: true,
		Families: []Family{IPv6Unicast, IPv4Unicast}, ConnectRetry: 200 * time.Millisecond,
	})
	s := startSpeaker(t, us, Config{StaleTime: time.Minute, AnnounceOnly: true, Neighbors: neighbors})
	v := &pathView{s, map[string]map[netip.Prefix]*Attributes{}, map[string]bool{}, map[string]string{}}
	six, four := bgptest.Prefixes6(1, 3), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("192.0.2.0/24")}
	open := func() (peers []*fakePeer) {
		for _, w := range waiting {
			p := w.accept(nil, bgp.RF_IPv6_UC, bgp.RF_IPv4_UC)
			peers = append(peers, p)
		}
		return peers
	}
	announce := func(peers []*fakePeer, med uint32, six, four []netip.Prefix) {
		for n, p := range peers {
			p.send(routesOf(t, n, med, six...))
			p.send(routesOf(t, n, med, four...))
			p.send(bgp.NewEndOfRib(bgp.RF_IPv6_UC))
			p.send(bgp.NewEndOfRib(bgp.RF_IPv4_UC))
		}
	}
	has := func(n int, med uint32, prefixes ...netip.Prefix) bool {
		routes := v.routes[names[n]]
		if !v.up[names[n]] || len(routes) != len(prefixes) {
			return false
		}
		for _, p := range prefixes {
			a := routes[p]
			if a == nil || a.MED != med || a.NextHop != hop(n, p.Addr().Is6()) || a.ASPath.String() != NewASPath(uint32(64601+n), 64700).String() || a.LocalPref != 100 {
				return false
			}
		}
		return true
	}
	both := func(med uint32, prefixes ...netip.Prefix) func() bool {
		return func() bool { return has(0, med, prefixes...) && has(1, med, prefixes...) }
	}
	peers := open()
	announce(peers, 5, six, four)
	all := slices.Concat(six, four)
	v.follow("both peers have all routes", both(5, all...))
	peers[1].send(bgptest.Withdraw6(t, six[0]))
	v.follow("a route less of one of them", func() bool { return has(0, 5, all...) && has(1, 5, all[1:]...) })
	peers[1].send(routesOf(t, 1, 5, six[0]))
	v.follow("it is back", both(5, all...))
	peers[0].send(routesOf(t, 0, 9, six...))
	peers[0].send(routesOf(t, 0, 9, four...))
	v.follow("other attributes", func() bool { return has(0, 9, all...) && has(1, 5, all...) })

	// A crash loses nothing, as the daemon has a graceful restart.
	kill()
	for _, p := range peers {
		p.conn.Close()
	}
	v.follow("the router is gone", func() bool { return !v.up["router"] })
	if !has(0, 9, all...) || !has(1, 5, all...) {
		t.Fatalf("%s: the crash lost routes: up %v, %v", d.name, v.up, v.routes)
	}
	kill = d.startAt(t, at, us)
	peers = open()
	announce(peers, 7, six[1:], four)
	v.follow("all routes are new, and one is gone", both(7, all[1:]...))
	for _, name := range names {
		if !v.up[name] {
			t.Errorf("%s went down", name)
		}
	}
	peers[1].conn.Close()
	v.follow("the router's session with a peer ends", func() bool { return !v.up["t1"] && has(0, 7, all[1:]...) })
	v.follow("the reason", func() bool { return strings.Contains(v.said["t1"], "sends no route with next hop 2001:db8:a2::1") })
	kill()
}
