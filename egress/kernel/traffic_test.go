package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// path is a server, a border and an egress peer in a row. The client's address lives
// at the peer.
type path struct {
	server, border, peer       *netnstest.NS
	serverTables, borderTables *Tables
}

var (
	epeAddress = addr("2001:db8:e::1")
	client     = addr("2001:db8:c::1")
	// unadvertised is reachable at the peer, which does not advertise it.
	unadvertised = addr("2001:db8:d::1")
	sidRoute     = Route{Prefix: prefix("fc00:b::1/128"), Table: MainTable, Nexthop: FirstNexthopID}
)

const (
	underlayMTU = 1600
	pathTable   = 101
)

func newPath(t *testing.T) *path {
	t.Helper()
	p := &path{server: netnstest.New(t, "server"), border: netnstest.New(t, "border"), peer: netnstest.New(t, "peer")}
	netnstest.Veth(t,
		netnstest.End{NS: p.server, Device: "north", Addresses: netnstest.Addresses("2001:db8:1::1/64")},
		netnstest.End{NS: p.border, Device: "south", Addresses: netnstest.Addresses("2001:db8:1::2/64")}, underlayMTU)
	netnstest.Veth(t,
		netnstest.End{NS: p.border, Device: "north", Addresses: netnstest.Addresses("2001:db8:2::1/64")},
		netnstest.End{NS: p.peer, Device: "south", Addresses: netnstest.Addresses("2001:db8:2::2/64")}, 0)
	for _, key := range []string{"forwarding", "seg6_enabled"} {
		for _, device := range []string{"all", "south"} {
			p.border.Sysctl("net.ipv6.conf."+device+"."+key, "1")
		}
	}
	// The routes of the operator's own routing.
	p.server.IP("-6 route add fc00:b::/48 via 2001:db8:1::2")
	p.border.IP("-6 route add 2001:db8:e::/48 via 2001:db8:1::1")
	p.peer.IP("-6 route add 2001:db8:e::/48 via 2001:db8:2::1")
	p.border.IP("-6 route add 2001:db8:d::/48 via 2001:db8:2::2")
	p.peer.IP("addr add 2001:db8:c::1/128 dev lo nodad")
	p.peer.IP("addr add 2001:db8:d::1/128 dev lo nodad")
	p.serverTables = anchored(t, p.server)
	p.borderTables = anchored(t, p.border)
	put(t, p.borderTables, borderState())
	put(t, p.serverTables, serverState())
	return p
}

func anchored(t *testing.T, ns *netnstest.NS) *Tables {
	t.Helper()
	a := open(t, ns, Options{})
	if err := a.EnsureAnchor(t.Context(), anchorName, underlayMTU); err != nil {
		t.Fatal(err)
	}
	tables, err := LoadTables(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func borderState() State {
	toPeer := Nexthop{ID: FirstNexthopID + 1, Family: IPv6, Device: "north", Gateway: addr("2001:db8:2::2")}
	return State{
		Nexthops: []Nexthop{toPeer,
			{ID: sidRoute.Nexthop, Family: IPv6, Device: anchorName, Local: Local{Action: EndDT6, Table: pathTable}}},
		Routes: []Route{sidRoute,
			{Prefix: prefix("2001:db8:c::/48"), Table: pathTable, Nexthop: toPeer.ID},
			// End.DT6 would go on to the main table.
			{Prefix: prefix("::/0"), Table: pathTable, Metric: 0xffffffff, Type: Blackhole}},
	}
}

func serverState() State {
	from := netip.PrefixFrom(epeAddress, 128)
	hop := peerNexthop(FirstNexthopID, "fc00:b::1")
	return State{
		Nexthops: []Nexthop{hop},
		// The second is what a border has withdrawn and the server does not know yet.
		Routes: []Route{{Prefix: prefix("2001:db8:c::/48"), Table: pathTable, Nexthop: hop.ID},
			{Prefix: prefix("2001:db8:d::/48"), Table: pathTable, Nexthop: hop.ID}},
		Rules: []Rule{{Family: IPv6, Priority: 100, From: from, Table: pathTable},
			{Family: IPv6, Priority: 101, From: from, Action: RuleUnreachable}},
		Addresses:    []Address{{Device: "north", Prefix: from, Deprecated: true, NoDAD: true}},
		TunnelSource: TunnelSource{addr("2001:db8:1::1")},
	}
}

func TestTCPGoesThroughThePath(t *testing.T) {
	p := newPath(t)
	var listener net.Listener
	var err error
	p.peer.Do(func() { listener, err = net.Listen("tcp", netip.AddrPortFrom(client, 7000).String()) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(received)
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		received <- all
	}()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(epeAddress, 0)), Timeout: netnstest.Deadline}
	var conn net.Conn
	p.server.Do(func() { conn, err = dialer.DialContext(t.Context(), "tcp", listener.Addr().String()) })
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("hikyaku "), 1<<18)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came through", len(got), len(sent))
	}
}

func TestPathMTULeavesRoomForTheOuterHeader(t *testing.T) {
	p := newPath(t)
	conn := p.dialUDP(t, client)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var mtu int
	if err := errors.Join(raw.Control(func(fd uintptr) {
		mtu, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU)
	}), err); err != nil {
		t.Fatal(err)
	}
	if want := underlayMTU - 40 - 24; mtu != want {
		t.Errorf("the path MTU is %d without a route metric, want %d", mtu, want)
	}
}

func TestNothingGoesWhereThePeerDoesNotAdvertise(t *testing.T) {
	p := newPath(t)
	wanted, unwanted := p.count(t, client), p.count(t, unadvertised)
	toClient, toOther := p.dialUDP(t, client), p.dialUDP(t, unadvertised)
	for i := range uint64(100) {
		send(t, toOther, i)
		send(t, toClient, i)
	}
	netnstest.Eventually(t, "100 packets to what the peer advertises", func() bool { return wanted.packets.Load() == 100 })
	if n := unwanted.packets.Load(); n != 0 {
		t.Errorf("%d packets went to a peer that does not advertise their destination", n)
	}
	if _, err := p.tryDialUDP(addr("2001:db8:f::1")); !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("from the EPE address to a prefix that is not in its table: %v, want unreachable", err)
	}
}

func TestNoPacketPassesAfterADrop(t *testing.T) {
	p := newPath(t)
	arrived := p.count(t, client)
	conn := p.dialUDP(t, client)
	var next atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for ctx.Err() == nil {
			send(t, conn, next.Add(1))
			time.Sleep(50 * time.Microsecond)
		}
	}()
	defer func() { cancel(); <-sending }()
	netnstest.Eventually(t, "packets", func() bool { return arrived.packets.Load() > 100 })
	for round := range 5 {
		if err := p.borderTables.Drop(t.Context(), sidRoute); err != nil {
			t.Fatal(err)
		}
		// A veth hands packets over at once; some may have been between the two ends.
		dropped := next.Load() + 1
		netnstest.Eventually(t, "packets sent after the drop", func() bool { return next.Load() > dropped+200 })
		if last := arrived.last.Load(); last > dropped {
			t.Errorf("round %d: packet %d passed, after the drop at %d", round, last, dropped)
		}
		put(t, p.borderTables, borderState())
		netnstest.Eventually(t, "packets after the peer came back", func() bool { return arrived.last.Load() > dropped })
	}
}

func TestSwitchingASIDLosesNoPacket(t *testing.T) {
	p := newPath(t)
	second := Route{Prefix: prefix("fc00:b::2/128"), Table: MainTable, Nexthop: sidRoute.Nexthop}
	put(t, p.borderTables, State{Routes: []Route{second}})
	arrived := p.count(t, client)
	conn := p.dialUDP(t, client)
	p.warmUp(t, conn, arrived)
	// So few at a time that the receiver's buffer holds them.
	const rounds, burst = 40, 50
	for round := range uint64(rounds) {
		before := arrived.packets.Load()
		for i := range uint64(burst) {
			if i == burst/2 {
				sid := []string{"fc00:b::1", "fc00:b::2"}[round%2]
				put(t, p.serverTables, State{Nexthops: []Nexthop{peerNexthop(FirstNexthopID, sid)}})
			}
			send(t, conn, i)
		}
		netnstest.Eventually(t, "all packets of a round", func() bool { return arrived.packets.Load() == before+burst })
	}
}

// warmUp sends until packets arrive, which is when the neighbours know each other. One more has passed
// then; some that waited for the neighbours may arrive later.
func (p *path) warmUp(t *testing.T, conn *net.UDPConn, arrived *arrivals) {
	t.Helper()
	netnstest.Eventually(t, "the first packet", func() bool {
		send(t, conn, warmUpNumber)
		return arrived.warmUps.Load() > 0
	})
	before := arrived.warmUps.Load()
	send(t, conn, warmUpNumber)
	netnstest.Eventually(t, "another packet", func() bool { return arrived.warmUps.Load() > before })
}

// The kernel flushes nexthops with their device's carrier; those on an anchor stay.
func TestAnchoredRoutesOutliveTheCable(t *testing.T) {
	p := newPath(t)
	events := watch(t, p.serverTables.applier)
	p.border.IP("link set dev south down")
	await(t, events, Link{Device: "north", Up: false})
	expectTables(t, "without the cable", p.serverTables, serverState())
}

func (p *path) dialUDP(t *testing.T, to netip.Addr) *net.UDPConn {
	t.Helper()
	conn, err := p.tryDialUDP(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (p *path) tryDialUDP(to netip.Addr) (conn *net.UDPConn, err error) {
	p.server.Do(func() {
		conn, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(epeAddress, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 7000)))
	})
	return conn, err
}

func send(t *testing.T, conn *net.UDPConn, number uint64) {
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, number)); err != nil && !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("sending packet %d: %s", number, err)
	}
}

// warmUpNumber is that of packets which may arrive late: they wait until neighbours know each other.
const warmUpNumber = math.MaxUint64

// arrivals are the packets that arrived: those of a warm-up, the others, and the number of the last of these.
type arrivals struct{ warmUps, packets, last atomic.Uint64 }

// count counts the packets that arrive at the peer for one address.
func (p *path) count(t *testing.T, at netip.Addr) *arrivals {
	t.Helper()
	var conn *net.UDPConn
	var err error
	p.peer.Do(func() { conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 7000))) })
	if err != nil {
		t.Fatal(err)
	}
	var a arrivals
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			switch number := binary.BigEndian.Uint64(buf); {
			case n != 8:
			case number == warmUpNumber:
				a.warmUps.Add(1)
			default:
				a.last.Store(number)
				a.packets.Add(1)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &a
}
