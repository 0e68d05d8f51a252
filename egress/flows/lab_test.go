package flows

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// lab is a server whose packets to a client go through SRv6, in four manners,
// over one link. Each manner has a client address, a SID and a server port of its own.
type lab struct {
	tb             testing.TB
	server, client *netnstest.NS
	unread         Counts // the interface's traffic before it was counted
}

const device = "eth0"

// manner is how packets to a client address are encapsulated.
type manner struct {
	name    string
	client  netip.Addr
	source  netip.Addr
	sid     netip.Addr
	port    uint16 // of the server, another one for each
	headers int    // of a packet, until the inner transport header
	mode    string
	action  string
}

func manners() []manner {
	at, source6, source4 := netip.MustParseAddr, host, host4
	return []manner{
		{"IPv6 in SRv6 with SRH", at("2001:db8:2::1"), source6, at("2001:db8:a:1::"), 4430, 14 + 40 + 24 + 40, "encap", "End.DT6 table 255"},
		{"IPv6 in SRv6 without SRH", at("2001:db8:2::2"), source6, at("2001:db8:a:2::"), 4431, 14 + 40 + 40, "encap.red", "End.DT6 table 255"},
		{"IPv4 in SRv6 with SRH", at("198.51.100.1"), source4, at("2001:db8:a:3::"), 4432, 14 + 40 + 24 + 20, "encap", "End.DX4 nh4 198.51.100.1"},
		{"IPv4 in SRv6 without SRH", at("198.51.100.2"), source4, at("2001:db8:a:4::"), 4433, 14 + 40 + 20, "encap.red", "End.DX4 nh4 198.51.100.2"},
	}
}

// newLab makes the namespaces and their link. configure is called while the link
// is still down, so that it can attach before the first packet.
func newLab(tb testing.TB, mtu int, configure func(*lab)) *lab {
	tb.Helper()
	l := &lab{tb: tb, server: netnstest.New(tb, "server"), client: netnstest.New(tb, "client")}
	netnstest.Veth(tb, netnstest.End{NS: l.server, Device: device}, netnstest.End{NS: l.client, Device: device}, mtu)
	l.server.IP("link set eth0 down")
	l.unread = l.sent()
	configure(l)
	l.server.IP("link set eth0 up")
	for _, ns := range []*netnstest.NS{l.server, l.client} {
		ns.Sysctl("net.ipv6.conf.all.forwarding", "1")
		ns.Sysctl("net.ipv4.ip_forward", "1")
		ns.Sysctl("net.ipv4.conf.all.rp_filter", "0")
		ns.Sysctl("net.ipv4.conf.eth0.rp_filter", "0")
		ns.Sysctl("net.ipv6.conf.eth0.seg6_enabled", "1")
	}
	l.server.IP("addr add fd00::1/64 dev eth0 nodad")
	l.server.IP("addr add 10.9.0.1/24 dev eth0")
	l.client.IP("addr add fd00::2/64 dev eth0 nodad")
	l.client.IP("addr add 10.9.0.2/24 dev eth0")
	l.server.IP("addr add " + host.String() + "/128 dev lo nodad")
	l.server.IP("addr add " + host4.String() + "/32 dev lo")
	l.server.IP("sr tunsrc set fd00::1")
	l.client.IP("route add " + host.String() + "/128 via fd00::1")
	l.client.IP("route add " + host4.String() + "/32 via 10.9.0.1")
	l.server.IP("route add 2001:db8:a::/48 via fd00::2")
	for _, m := range manners() {
		l.addManner(m)
	}
	return l
}

func (l *lab) addManner(m manner) {
	family, length, nodad := "-6", "/128", " nodad"
	if m.client.Is4() {
		family, length, nodad = "-4", "/32", ""
	}
	l.client.IP("addr add " + m.client.String() + length + " dev lo" + nodad)
	l.client.IP("-6 route add " + m.sid.String() + "/128 encap seg6local action " + m.action + " dev eth0")
	l.server.IP(family + " route add " + m.client.String() + length +
		" encap seg6 mode " + m.mode + " segs " + m.sid.String() + " dev eth0 src " + m.source.String())
}

// attach attaches in the server's namespace.
func (l *lab) attach(opts Options) *Counter {
	l.tb.Helper()
	opts.Interface = device
	var c *Counter
	var err error
	l.server.Do(func() { c, err = Attach(opts) })
	if errors.Is(err, ebpf.ErrNotSupported) {
		l.tb.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		l.tb.Fatal(err)
	}
	l.tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			l.tb.Error(err)
		}
	})
	return c
}

// sent reads the interface's own counters of its sent traffic.
func (l *lab) sent() Counts {
	l.tb.Helper()
	var counts Counts
	l.server.Do(func() {
		link, err := netlink.LinkByName(device)
		if err != nil {
			l.tb.Fatal(err)
		}
		stats := link.Attrs().Statistics
		counts = Counts{Packets: stats.TxPackets, Bytes: stats.TxBytes}
	})
	return Counts{Packets: counts.Packets - l.unread.Packets, Bytes: counts.Bytes - l.unread.Bytes}
}

// segmentInSoftware switches TSO off: the kernel then cuts super-packets after
// the egress hook, and the interface's counters are those of the wire.
func (l *lab) segmentInSoftware() {
	l.tb.Helper()
	const setTSO = 0x1f // ETHTOOL_STSO
	l.server.Do(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			l.tb.Fatal(err)
		}
		defer unix.Close(fd)
		request := [2]uint32{setTSO, 0}
		ifreq := struct {
			name [16]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&request)}
		copy(ifreq.name[:15], device)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))); errno != 0 {
			l.tb.Fatalf("switching TSO off: %v", errno)
		}
	})
}

// listen opens a UDP socket or TCP listener on the client.
func (l *lab) listen(network string, at netip.AddrPort) (packets net.PacketConn, listener net.Listener) {
	l.tb.Helper()
	var err error
	var config net.ListenConfig
	l.client.Do(func() {
		if network == "udp" {
			packets, err = config.ListenPacket(context.Background(), network, at.String())
		} else {
			listener, err = config.Listen(context.Background(), network, at.String())
		}
	})
	if err != nil {
		l.tb.Fatal(err)
	}
	return packets, listener
}

// dial connects from the server.
func (l *lab) dial(network string, from, to netip.AddrPort) net.Conn {
	l.tb.Helper()
	dialer := net.Dialer{Timeout: 30 * time.Second}
	if network == "udp" {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(from)
	} else {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(from)
		dialer.SetMultipathTCP(false)
	}
	var conn net.Conn
	var err error
	l.server.Do(func() { conn, err = dialer.Dial(network, to.String()) })
	if err != nil {
		l.tb.Fatalf("connecting to %v: %v", to, err)
	}
	l.tb.Cleanup(func() { conn.Close() })
	return conn
}

// ledger sums the records of a counter.
type ledger map[Key]map[Kind]Counts

func (l ledger) read(tb testing.TB, c *Counter) {
	tb.Helper()
	var s Sample
	if err := c.Read(time.Now(), &s); err != nil {
		tb.Fatal(err)
	}
	for _, r := range s.Records {
		if l[r.Key] == nil {
			l[r.Key] = make(map[Kind]Counts)
		}
		l[r.Key][r.Kind] = l[r.Key][r.Kind].Plus(r.Delta)
	}
}

func (l ledger) all() Counts {
	var sum Counts
	for _, kinds := range l {
		for _, counts := range kinds {
			sum = sum.Plus(counts)
		}
	}
	return sum
}
