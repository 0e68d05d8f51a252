package bmp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"hikyaku/egress/speaker/session"
	"hikyaku/egress/speaker/wire"
)

var (
	peerAddress = netip.MustParseAddr("2001:db8:a::1")
	localhost   = netip.MustParseAddr("127.0.0.1")
)

const peerAS = 64601

// recorder is a handler that writes down what it is notified of.
type recorder struct {
	mu   sync.Mutex
	said []string
}

func (r *recorder) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Established(_ context.Context, terms wire.Terms) bool {
	r.say("up %v", terms.Families)
	return true
}

func (r *recorder) Update(_ context.Context, u *wire.Update) {
	var list []string
	for _, n := range u.Reach {
		list = append(list, "+"+n.Prefix.String())
	}
	for _, n := range u.Unreach {
		list = append(list, "-"+n.Prefix.String())
	}
	if u.EndOfRIB != 0 {
		list = append(list, "end of "+u.EndOfRIB.String())
	}
	if p := wire.AttributesFromGoBGP(u.Attributes).LocalPref; p != 0 {
		list = append(list, fmt.Sprintf("preference %d", p))
	}
	r.say("%s", strings.Join(list, " "))
}

func (r *recorder) Failed(_ context.Context, reason string) { r.say("none: %s", reason) }
func (r *recorder) Ended(end session.End)                   { r.say("down %s: %s", end.Cause, end.Reason) }

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// await waits until the last notifications are these.
func (r *recorder) await(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		said := r.list()
		if len(said) >= len(want) && slices.Equal(said[len(said)-len(want):], want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the peer's handler was notified of\n  %s\nwant at the end\n  %s", strings.Join(said, "\n  "), strings.Join(want, "\n  "))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func started(t *testing.T, routers ...netip.Addr) (*Station, *recorder) {
	t.Helper()
	s, err := Listen(t.Context(), Config{
		Listen: []netip.AddrPort{netip.AddrPortFrom(localhost, 0)}, Routers: routers,
		Dead: 9 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	s.Add(Peer{Address: peerAddress, AS: peerAS, Families: []wire.Family{wire.IPv6Unicast}, Handler: r})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, r
}

func connected(t *testing.T, s *Station) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, messages ...*bmp.BMPMessage) {
	t.Helper()
	for _, m := range messages {
		if _, err := conn.Write(encoded(t, m)); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t testing.TB, m *bmp.BMPMessage) []byte {
	t.Helper()
	b, err := m.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func initiation() *bmp.BMPMessage {
	return bmp.NewBMPInitiation([]bmp.BMPInfoTLVInterface{bmp.NewBMPInfoTLVString(bmp.BMP_INIT_TLV_TYPE_SYS_NAME, "border")})
}

// header names the configured peer, or another address.
func header(flags uint8, address netip.Addr) bmp.BMPPeerHeader {
	return *bmp.NewBMPPeerHeader(bmp.BMP_PEER_TYPE_GLOBAL, flags, 0, address, peerAS, netip.MustParseAddr("198.51.100.1"), 0)
}

const postPolicy = bmp.BMP_PEER_FLAG_POST_POLICY

func up(address netip.Addr, families ...bgp.Family) *bmp.BMPMessage {
	var capabilities []bgp.ParameterCapabilityInterface
	for _, f := range families {
		capabilities = append(capabilities, bgp.NewCapMultiProtocol(f))
	}
	open, _ := bgp.NewBGPOpenMessage(64500, 90, netip.MustParseAddr("192.0.2.1"), []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	return bmp.NewBMPPeerUpNotification(header(0, address), netip.MustParseAddr("2001:db8:a::2"), 179, 179, open, open)
}

func monitored(flags uint8, address netip.Addr, update *bgp.BGPMessage) *bmp.BMPMessage {
	return bmp.NewBMPRouteMonitoring(header(flags, address), update)
}

func announced(t testing.TB, prefixes ...string) *bgp.BGPMessage {
	t.Helper()
	var nlri []bgp.PathNLRI
	for _, p := range prefixes {
		one, err := bgp.NewIPAddrPrefix(netip.MustParsePrefix(p))
		if err != nil {
			t.Fatal(err)
		}
		nlri = append(nlri, bgp.PathNLRI{NLRI: one})
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri, peerAddress)
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
		bgp.NewPathAttributeOrigin(0),
		bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{peerAS})}),
		bgp.NewPathAttributeLocalPref(110), reach,
	}, nil)
}

// ofTwoBytes has the AS numbers of an UPDATE take two bytes each.
func ofTwoBytes(m *bgp.BGPMessage) *bgp.BGPMessage {
	m.Body.(*bgp.BGPUpdate).PathAttributes[1] = bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{
		bgp.NewAsPathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint16{peerAS - 1, 1})})
	return m
}

func withdrawn(t testing.TB, prefix string) *bgp.BGPMessage {
	t.Helper()
	nlri, err := bgp.NewIPAddrPrefix(netip.MustParsePrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	unreach, err := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, []bgp.PathNLRI{{NLRI: nlri}})
	if err != nil {
		t.Fatal(err)
	}
	return bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{unreach}, nil)
}

const client = "2001:db8:c::/48"

func TestRoutesOfARouter(t *testing.T) {
	stranger := netip.MustParseAddr("2001:db8:f::1")
	six := bgp.RF_IPv6_UC
	down := func(reason uint8) *bmp.BMPMessage {
		return bmp.NewBMPPeerDownNotification(header(0, peerAddress), reason, nil, []byte{0, 0})
	}
	vrf := header(postPolicy, peerAddress)
	vrf.PeerType = bmp.BMP_PEER_TYPE_L3VPN
	for _, test := range []struct {
		name string
		send []*bmp.BMPMessage
		want []string
	}{
		{"no router", nil, []string{"none: no BMP router has connected yet"}},
		{"a router without the peer", []*bmp.BMPMessage{initiation()}, []string{"none: BMP router 127.0.0.1 does not report it"}},
		{"a session", []*bmp.BMPMessage{initiation(), up(peerAddress, six)}, []string{"up [ipv6]"}},
		{"of another peer", []*bmp.BMPMessage{initiation(), up(stranger, six), up(peerAddress, six)}, []string{"up [ipv6]"}},
		{"of another family", []*bmp.BMPMessage{initiation(), up(peerAddress, bgp.RF_IPv4_UC)},
			[]string{"none: the session of BMP router 127.0.0.1 with it has none of its `families`"}},
		{"routes", []*bmp.BMPMessage{initiation(), up(peerAddress, six), monitored(postPolicy, peerAddress, announced(t, client)),
			monitored(postPolicy, peerAddress, withdrawn(t, client)), monitored(postPolicy, peerAddress, bgp.NewEndOfRib(six))},
			[]string{"+" + client + " preference 110", "-" + client, "end of ipv6"}},
		{"routes that the import policy has not seen", []*bmp.BMPMessage{initiation(), up(peerAddress, six),
			monitored(0, peerAddress, announced(t, "2001:db8:bad::/48")), monitored(postPolicy, peerAddress, announced(t, client))},
			[]string{"up [ipv6]", "+" + client + " preference 110"}},
		{"routes of others", []*bmp.BMPMessage{initiation(), up(peerAddress, six),
			monitored(postPolicy, stranger, announced(t, "2001:db8:bad::/48")), bmp.NewBMPRouteMonitoring(vrf, announced(t, "2001:db8:bad::/48")),
			monitored(postPolicy|bmp.BMP_PEER_FLAG_ADJ_RIB_TYP, peerAddress, announced(t, "2001:db8:bad::/48")),
			monitored(postPolicy, peerAddress, announced(t, client))},
			[]string{"up [ipv6]", "+" + client + " preference 110"}},
		{"statistics", []*bmp.BMPMessage{initiation(), up(peerAddress, six),
			bmp.NewBMPStatisticsReport(header(0, peerAddress), []bmp.BMPStatsTLVInterface{bmp.NewBMPStatsTLV64(bmp.BMP_STAT_TYPE_ADJ_RIB_IN, 7)}),
			monitored(postPolicy, peerAddress, announced(t, client))}, []string{"up [ipv6]", "+" + client + " preference 110"}},
		{"the peer ended the session", []*bmp.BMPMessage{initiation(), up(peerAddress, six), down(bmp.BMP_PEER_DOWN_REASON_REMOTE_NO_NOTIFICATION)},
			[]string{"up [ipv6]", "down connection: the peer ended it"}},
		{"routes behind the end", []*bmp.BMPMessage{initiation(), up(peerAddress, six), down(bmp.BMP_PEER_DOWN_REASON_LOCAL_NO_NOTIFICATION),
			monitored(postPolicy, peerAddress, announced(t, client)), up(peerAddress, six)},
			[]string{"down connection: the router ended it", "up [ipv6]"}},
		{"a session in place of another", []*bmp.BMPMessage{initiation(), up(peerAddress, six), up(peerAddress, six)},
			[]string{"up [ipv6]", "down connection: the router reports a new session", "up [ipv6]"}},
		{"the router's end", []*bmp.BMPMessage{initiation(), up(peerAddress, six), bmp.NewBMPTermination(nil)},
			[]string{"up [ipv6]", "down connection: BMP router 127.0.0.1: it ended the connection (Termination)", "none: BMP router 127.0.0.1 is not connected"}},
		{"AS numbers of two bytes", []*bmp.BMPMessage{initiation(), up(peerAddress, six),
			monitored(postPolicy|bmp.BMP_PEER_FLAG_TWO_AS, peerAddress, ofTwoBytes(announced(t, client)))},
			[]string{"down connection: BMP router 127.0.0.1: routes of peer 2001:db8:a::1 have AS numbers of two bytes, which are not taken (RFC 6793)",
				"none: BMP router 127.0.0.1 is not connected"}},
		{"AS numbers of four bytes that are said to have two, as by GoBGP", []*bmp.BMPMessage{initiation(), up(peerAddress, six),
			monitored(postPolicy|bmp.BMP_PEER_FLAG_TWO_AS, peerAddress, announced(t, client))},
			[]string{"up [ipv6]", "+" + client + " preference 110"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, r := started(t, localhost)
			if test.send != nil {
				send(t, connected(t, s), test.send...)
			}
			r.await(t, test.want...)
		})
	}
}

func TestConnectionsOfARouter(t *testing.T) {
	s, r := started(t, localhost)
	first := connected(t, s)
	send(t, first, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "up [ipv6]")
	// A router that has restarted connects before its former connection is noticed to be dead.
	second := connected(t, s)
	send(t, second, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "none: BMP router 127.0.0.1 does not report it", "up [ipv6]")
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the former connection stays open")
	}
	second.Close()
	r.await(t, "down connection: BMP router 127.0.0.1: it closed the connection", "none: BMP router 127.0.0.1 is not connected")
}

// isClosed waits until the station has closed a connection.
func isClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection stays open: %v", err)
	}
}

func TestPeersThatComeAndGo(t *testing.T) {
	s, r := started(t, localhost)
	conn := connected(t, s)
	other := netip.MustParseAddr("2001:db8:a::2")
	send(t, conn, initiation(), up(other, bgp.RF_IPv6_UC), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "up [ipv6]")
	s.Remove(Peer{Address: peerAddress, AS: peerAS})
	later := &recorder{}
	s.Add(Peer{Address: other, AS: peerAS, Families: []wire.Family{wire.IPv6Unicast}, Handler: later})
	isClosed(t, conn) // the router has reported the peer already
	again := connected(t, s)
	send(t, again, initiation(), up(other, bgp.RF_IPv6_UC), up(peerAddress, bgp.RF_IPv6_UC))
	later.await(t, "up [ipv6]")
	if said := r.list(); said[len(said)-1] != "up [ipv6]" {
		t.Errorf("a removed peer's handler was notified of %q", said)
	}
	third := &recorder{}
	s.Add(Peer{Address: netip.MustParseAddr("2001:db8:a::3"), AS: peerAS, Families: []wire.Family{wire.IPv6Unicast}, Handler: third})
	send(t, again, monitored(postPolicy, other, announced(t, client)))
	later.await(t, "+"+client+" preference 110") // nobody has reported the third
}

// A router reports routes once, when it connects.
func TestRenewedPeer(t *testing.T) {
	p := Peer{Address: peerAddress, AS: peerAS}
	s, r := started(t, localhost)
	s.Renew(p) // nobody has reported it
	session := func() net.Conn {
		conn := connected(t, s)
		send(t, conn, initiation(), up(peerAddress, bgp.RF_IPv6_UC), monitored(postPolicy, peerAddress, announced(t, client)))
		return conn
	}
	conn := session()
	r.await(t, "up [ipv6]", "+"+client+" preference 110")
	s.Renew(p)
	isClosed(t, conn)
	r.await(t, "none: BMP router 127.0.0.1 is not connected")
	session()
	r.await(t, "up [ipv6]", "+"+client+" preference 110")
}

func TestStationIsConfiguredAnew(t *testing.T) {
	s, r := started(t, localhost)
	conn := connected(t, s)
	send(t, conn, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "up [ipv6]")
	former := s.settings()
	second := netip.MustParseAddrPort("[::1]:0")
	c := former
	c.Listen, c.Dead = append(slices.Clone(c.Listen), second), 30*time.Second
	if err := s.Configure(t.Context(), c); err != nil || len(s.Addresses()) != 2 {
		t.Fatalf("a further address gives %v and %v", s.Addresses(), err)
	}
	wrong := c
	wrong.Listen, wrong.Routers = []netip.AddrPort{netip.MustParseAddrPort("203.0.113.77:11019")}, nil
	if err := s.Configure(t.Context(), wrong); err == nil || len(s.Addresses()) != 2 {
		t.Errorf("an address of nobody gives %v and %v", s.Addresses(), err)
	}
	send(t, conn, monitored(postPolicy, peerAddress, announced(t, client)))
	r.await(t, "+"+client+" preference 110")
	c.Listen = []netip.AddrPort{second}
	if err := s.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	send(t, conn, monitored(postPolicy, peerAddress, withdrawn(t, client)))
	r.await(t, "-"+client) // the connection outlives the address that it came by
	c.Routers = []netip.Addr{netip.IPv6Loopback()}
	if err := s.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.await(t, "none: BMP router 127.0.0.1 is not connected")
	isClosed(t, conn)
	conn, err := net.Dial("tcp", s.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send(t, conn, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "up [ipv6]")
	c.Listen = nil
	if err := s.Configure(t.Context(), c); err != nil || s.Waits() {
		t.Errorf("without an address: %v, waits %v", err, s.Waits())
	}
	r.await(t, "none: BMP router ::1 is not connected")
}

func TestStrangersAreRefused(t *testing.T) {
	s, r := started(t, netip.MustParseAddr("192.0.2.1"))
	conn := connected(t, s)
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a connection of none of the routers stays: %v", err)
	}
	if said := r.list(); len(said) != 1 {
		t.Errorf("the peer's handler was notified of %q", said)
	}
}

// spoil makes messages malformed, each in one way.
var spoil = map[string]func([]byte) []byte{
	"another version":      func(b []byte) []byte { b[0] = 4; return b },
	"a length of nothing":  func(b []byte) []byte { copy(b[1:5], []byte{0, 0, 0, 3}); return b },
	"a length of 4 GB":     func(b []byte) []byte { copy(b[1:5], []byte{255, 255, 255, 255}); return b },
	"a shorter length":     func(b []byte) []byte { b[4] -= 5; return b },
	"a BGP message of 18":  func(b []byte) []byte { b[6+42+17] = 18; return b },
	"a longer BGP message": func(b []byte) []byte { b[6+42+17]++; return b },
	"an OPEN":              func(b []byte) []byte { b[6+42+18] = 1; return b },
}

func TestMalformedMessagesEndTheConnection(t *testing.T) {
	for name, change := range spoil {
		t.Run(name, func(t *testing.T) {
			s, r := started(t, localhost)
			conn := connected(t, s)
			send(t, conn, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
			r.await(t, "up [ipv6]")
			message := append(change(encoded(t, monitored(postPolicy, peerAddress, announced(t, client)))), make([]byte, 64)...)
			if _, err := conn.Write(message); err != nil {
				t.Fatal(err)
			}
			r.await(t, "none: BMP router 127.0.0.1 is not connected")
			for _, line := range r.list() {
				if strings.HasPrefix(line, "+") {
					t.Errorf("a malformed message announces %s", line)
				}
			}
		})
	}
}

// routersSay is the station's view of its routers, a line each for router and peer.
func routersSay(s *Station) (lines []string) {
	for _, r := range s.Routers() {
		lines = append(lines, fmt.Sprintf("%s up %v %q ends %d: %s", r.Address, r.Up, r.Description, r.Ends, r.LastEnd))
		for _, p := range r.Peers {
			lines = append(lines, fmt.Sprintf("%s AS %d %d: %s", p.Address, p.AS, p.State, p.Reason))
		}
	}
	return lines
}

func TestViewOfRouters(t *testing.T) {
	six := bgp.RF_IPv6_UC
	stranger := netip.MustParseAddr("2001:db8:f::1")
	const gone = "192.0.2.1 up false \"\" ends 0: "
	connectedLine := "127.0.0.1 up true \"border\" ends 0: "
	state := func(s PeerState, reason string) string {
		return fmt.Sprintf("%s AS %d %d: %s", peerAddress, peerAS, s, reason)
	}
	down := bmp.NewBMPPeerDownNotification(header(0, peerAddress), bmp.BMP_PEER_DOWN_REASON_REMOTE_NO_NOTIFICATION, nil, []byte{0, 0})
	for _, test := range []struct {
		name  string
		send  []*bmp.BMPMessage
		then  func(*Station)
		lines []string
	}{
		{"none has connected", nil, nil, []string{"127.0.0.1 up false \"\" ends 0: ", gone}},
		{"a router", []*bmp.BMPMessage{initiation()}, nil, []string{connectedLine, gone}},
		{"a peer", []*bmp.BMPMessage{initiation(), up(peerAddress, six)}, nil, []string{connectedLine, state(PeerUp, ""), gone}},
		{"a peer of nobody", []*bmp.BMPMessage{initiation(), up(stranger, six)}, nil,
			[]string{connectedLine, "2001:db8:f::1 AS 64601 2: it is not configured with `routes = \"bmp\"`", gone}},
		{"a peer of another family", []*bmp.BMPMessage{initiation(), up(peerAddress, bgp.RF_IPv4_UC)}, nil,
			[]string{connectedLine, state(PeerUnused, "the session of BMP router 127.0.0.1 with it has none of its `families`"), gone}},
		{"the end of a session", []*bmp.BMPMessage{initiation(), up(peerAddress, six), down}, nil,
			[]string{connectedLine, state(PeerDown, "the peer ended it"), gone}},
		{"routes before the import policy", []*bmp.BMPMessage{initiation(), up(peerAddress, six), monitored(0, peerAddress, announced(t, client))}, nil,
			[]string{connectedLine, state(PeerUp, "its routes come before the router's import policy, and do not count: configure the router to monitor them post-policy"), gone}},
		{"routes before and after it", []*bmp.BMPMessage{initiation(), up(peerAddress, six), monitored(0, peerAddress, announced(t, client)),
			monitored(postPolicy, peerAddress, announced(t, client))}, nil, []string{connectedLine, state(PeerUp, ""), gone}},
		{"the router's end", []*bmp.BMPMessage{initiation(), up(peerAddress, six), bmp.NewBMPTermination(nil)}, nil,
			[]string{"127.0.0.1 up false \"border\" ends 1: it ended the connection (Termination)", gone}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, r := started(t, localhost, netip.MustParseAddr("192.0.2.1"))
			before := s.Routers()
			if test.send != nil {
				send(t, connected(t, s), test.send...)
			}
			deadline := time.Now().Add(10 * time.Second)
			for !slices.Equal(routersSay(s), test.lines) {
				if test.then != nil && slices.Equal(r.list(), []string{"none: no BMP router has connected yet", "none: BMP router 127.0.0.1 does not report it", "up [ipv6]"}) {
					test.then(s)
				}
				if time.Now().After(deadline) {
					t.Fatalf("the routers are\n  %s\nwant\n  %s", strings.Join(routersSay(s), "\n  "), strings.Join(test.lines, "\n  "))
				}
				time.Sleep(5 * time.Millisecond)
			}
			if after := s.Routers(); before[0].Since.IsZero() || test.send != nil && !after[0].Since.After(before[0].Since) || !after[1].Since.Equal(before[1].Since) {
				t.Errorf("the states are since %s, and were since %s", after[0].Since, before[0].Since)
			}
		})
	}
}

// Where two routers report a peer, the first one's routes count.
func TestPeerOfTwoRouters(t *testing.T) {
	other := netip.MustParseAddr("127.0.0.2")
	s, r := started(t, localhost, other)
	send(t, connected(t, s), initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	r.await(t, "up [ipv6]")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: other.AsSlice()}}
	second, err := from.Dial("tcp", s.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	send(t, second, initiation(), up(peerAddress, bgp.RF_IPv6_UC))
	const want = "2001:db8:a::1 AS 64601 2: BMP router 127.0.0.1 reports it, too"
	for deadline := time.Now().Add(10 * time.Second); !slices.Contains(routersSay(s), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the routers are\n  %s", strings.Join(routersSay(s), "\n  "))
		}
	}
}
