package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

const ownAS = 64500

var nextAddress atomic.Uint32

// loopback returns an address of 127.0.0.0/8 that no other test has: BGP knows
// neighbours by address, so every router needs its own.
func loopback() netip.Addr {
	n := nextAddress.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(100 + os.Getpid()%100), byte(n / 250), byte(1 + n%250)})
}

// freePort returns a port on which nobody listens at the address.
func freePort(t testing.TB, address netip.Addr) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// testSpeaker is a speaker under test with its address.
type testSpeaker struct {
	*Speaker
	t  testing.TB
	at netip.AddrPort
}

// startSpeaker starts a speaker at the address, which is its router ID, too.
func startSpeaker(t testing.TB, address netip.Addr, config Config) *testSpeaker {
	t.Helper()
	config.AS, config.RouterID = ownAS, address
	config.Listen, config.Port = []netip.Addr{address}, freePort(t, address)
	if config.Logger == nil {
		config.Logger = testLogger(t)
	}
	if config.SettleTime == 0 && !slices.ContainsFunc(config.Neighbors, func(n Neighbor) bool { return n.AddPath }) {
		config.SettleTime = time.Hour // its event would come between others
	}
	s, err := Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &testSpeaker{Speaker: s, t: t, at: netip.AddrPortFrom(address, config.Port)}
}

// connect adds neighbours. Tests with several GoBGPs start all of them first: a
// start writes package variables which those with sessions are reading.
func (s *testSpeaker) connect(neighbors ...Neighbor) {
	s.t.Helper()
	for _, n := range neighbors {
		if err := s.AddNeighbor(n); err != nil {
			s.t.Fatal(err)
		}
	}
}

// testLogger shows failures; set HIKYAKU_TEST_LOG to see all.
func testLogger(t testing.TB) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("HIKYAKU_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("test", t.Name())
}

// next returns the next event, or fails the test when none comes.
func (s *testSpeaker) next() Event {
	s.t.Helper()
	select {
	case e, ok := <-s.Events():
		if !ok {
			s.t.Fatal("speaker stopped")
		}
		return e
	case <-time.After(patience):
		s.t.Fatal("no event came")
	}
	return nil
}

// expect returns the next event, which must be of type E. Attempts that failed before
// are left out.
func expect[E Event](s *testSpeaker) E {
	s.t.Helper()
	e := s.next()
	want, ok := e.(E)
	for _, failed := e.(NoSession); failed && !ok; _, failed = e.(NoSession) {
		e = s.next()
		want, ok = e.(E)
	}
	if !ok {
		s.t.Fatalf("event is %#v, want a %T", e, want)
	}
	return want
}

// skipTo returns the next event of type E that satisfies want, dropping others.
func skipTo[E Event](s *testSpeaker, want func(E) bool) E {
	s.t.Helper()
	for {
		if e, ok := s.next().(E); ok && (want == nil || want(e)) {
			return e
		}
	}
}

// quiet fails the test when an event comes although none is due.
func (s *testSpeaker) quiet(wait time.Duration) {
	s.t.Helper()
	select {
	case e := <-s.Events():
		s.t.Fatalf("unexpected event %#v", e)
	case <-time.After(wait):
	}
}

// router is a plain GoBGP, as transit or route reflector.
type router struct {
	*server.BgpServer
	t  testing.TB
	at netip.AddrPort
}

func startRouter(t testing.TB, address netip.Addr, as uint32) *router {
	t.Helper()
	s := server.NewBgpServer(server.LoggerOption(slog.New(slog.DiscardHandler), new(slog.LevelVar)))
	go s.Serve()
	port := freePort(t, address)
	global := &api.Global{Asn: as, RouterId: address.String(), ListenPort: int32(port), ListenAddresses: []string{address.String()}}
	if err := s.StartBgp(context.Background(), &api.StartBgpRequest{Global: global}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return &router{BgpServer: s, t: t, at: netip.AddrPortFrom(address, port)}
}

// accept lets a neighbour connect; reflect makes it a route reflector's client.
func (r *router) accept(address netip.Addr, as uint32, reflect bool, families ...Family) {
	r.t.Helper()
	peer := peerConfig(Neighbor{
		Address: address, AS: as, Families: families, Passive: true, GracefulRestart: 30 * time.Second,
	}.WithDefaults())
	peer.Conf.AllowOwnAsn = 0
	if reflect {
		peer.RouteReflector = &api.RouteReflector{RouteReflectorClient: true, RouteReflectorClusterId: r.at.Addr().String()}
	}
	if err := r.AddPeer(context.Background(), &api.AddPeerRequest{Peer: peer}); err != nil {
		r.t.Fatal(err)
	}
}

// announce announces unicast prefixes with the attributes.
func (r *router) announce(a Attributes, prefixes ...netip.Prefix) {
	r.t.Helper()
	if _, err := r.AddPath(apiutil.AddPathRequest{Paths: r.paths(a, prefixes)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) withdraw(prefixes ...netip.Prefix) {
	r.t.Helper()
	if err := r.DeletePath(apiutil.DeletePathRequest{Paths: r.paths(Attributes{}, prefixes)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) paths(a Attributes, prefixes []netip.Prefix) []*apiutil.Path {
	r.t.Helper()
	var paths []*apiutil.Path
	for _, n := range bgptest.NLRIs(r.t, prefixes) {
		family, nextHop := bgp.RF_IPv6_UC, netip.MustParseAddr("2001:db8:ffff::1")
		if prefix, _ := wire.UnicastPrefix(n.NLRI); prefix.Addr().Is4() {
			family, nextHop = bgp.RF_IPv4_UC, netip.MustParseAddr("192.0.2.1")
		}
		reach, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{n}, nextHop)
		if err != nil {
			r.t.Fatal(err)
		}
		paths = append(paths, &apiutil.Path{Family: family, Nlri: n.NLRI, Attrs: append(a.GoBGP(), reach)})
	}
	return paths
}

// neighbor is how a speaker connects to the router.
func (r *router) neighbor(name string, as uint32, local netip.Addr, families ...Family) Neighbor {
	return Neighbor{
		Name: name, Address: r.at.Addr(), Port: r.at.Port(), AS: as, LocalAddress: local,
		Families: families, MultihopTTL: multihop(as),
	}
}

func multihop(as uint32) uint8 {
	if as == ownAS {
		return 0
	}
	return 2
}

func show(prefixes []netip.Prefix) string { return fmt.Sprint(prefixes) }

// waitForRoute returns when the router has the prefix with that next hop.
func waitForRoute(t testing.TB, r *router, prefix netip.Prefix, nextHop netip.Addr) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found := false
		err := r.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: bgp.RF_IPv6_UC},
			func(nlri bgp.NLRI, paths []*apiutil.Path) {
				for _, p := range paths {
					a := wire.AttributesFromGoBGP(p.Attrs)
					last = fmt.Sprint(nlri, a)
					found = found || nlri.String() == prefix.String() && a.NextHop.Unmap() == nextHop
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		if found {
			return
		}
	}
	t.Fatalf("router %s has no route %s via %s; last seen: %s", r.at, prefix, nextHop, last)
}
