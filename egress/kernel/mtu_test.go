package kernel

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/netnstest"
)

// TestTheAnchorsMTUCountsAtOnce changes the MTU of an anchor under sockets whose packets go
// into SRv6 by it, IPv6 and IPv4.
func TestTheAnchorsMTUCountsAtOnce(t *testing.T) {
	ns := netnstest.New(t, "mtu")
	a := open(t, ns, Options{})
	six := Nexthop{ID: FirstNexthopID, Family: IPv6, Device: anchorName, Encap: Encap, SID: addr("fc00:1::1")}
	four := Nexthop{ID: FirstNexthopID + 1, Family: IPv4, Device: anchorName, Encap: Encap, SID: addr("fc00:1::1")}
	reach(t, a, State{
		Addresses: []Address{{Device: anchorName, Prefix: prefix("2001:db8:5::6/128"), NoDAD: true}},
		Nexthops:  []Nexthop{six, four},
		Routes: []Route{
			{Prefix: prefix("2001:db8:c::/48"), Table: MainTable, Nexthop: six.ID},
			{Prefix: prefix("203.0.113.0/24"), Table: MainTable, Nexthop: four.ID},
		},
	})
	sockets := map[string]net.Conn{}
	for _, to := range []string{"2001:db8:c::1", "203.0.113.1"} {
		var conn net.Conn
		var err error
		ns.Do(func() { conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(to), 9))) })
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sockets[to] = conn
	}
	for _, mtu := range []uint32{1500, 1400, 1344, 1600} {
		if err := a.EnsureAnchor(t.Context(), anchorName, mtu); err != nil {
			t.Fatal(err)
		}
		for to, conn := range sockets {
			if got, want := pathMTU(t, conn), int(mtu)-64; got != want {
				t.Errorf("with an MTU of %d a socket to %s sends up to %d bytes, want %d", mtu, to, got, want)
			}
		}
	}
}

// pathMTU is the kernel's for a connected socket.
func pathMTU(t *testing.T, conn net.Conn) (mtu int) {
	t.Helper()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	level, option := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if conn.RemoteAddr().(*net.UDPAddr).IP.To4() != nil {
		level, option = unix.IPPROTO_IP, unix.IP_MTU
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { mtu, failed = unix.GetsockoptInt(int(fd), level, option) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return mtu
}
