package oam

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// TestProbesInAKernel sends probes over a router to a border's kernel. The second link takes
// less than the first.
func TestProbesInAKernel(t *testing.T) {
	server, router, border := netnstest.New(t, "server"), netnstest.New(t, "router"), netnstest.New(t, "border")
	end := func(ns *netnstest.NS, device, address string) netnstest.End {
		return netnstest.End{NS: ns, Device: device, Addresses: netnstest.Addresses(address)}
	}
	netnstest.Veth(t, end(server, "eth0", "2001:db8:5::10/64"), end(router, "left", "2001:db8:5::1/64"), 1600)
	netnstest.Veth(t, end(router, "right", "2001:db8:6::1/64"), end(border, "eth0", "2001:db8:6::b1/64"), 1500)
	for _, ns := range []*netnstest.NS{router, border} {
		ns.Sysctl("net.ipv6.conf.all.forwarding", "1")
	}
	server.IP("-6 route add default via 2001:db8:5::1")
	router.IP("-6 route add 2001:db8:b1::/48 via 2001:db8:6::b1")
	border.IP("-6 route add default via 2001:db8:6::1")
	border.IP("link add anchor up type veth peer name anchorp")
	border.IP("link set anchorp up")
	border.IP("-6 route add 2001:db8:b1:1::/128 encap seg6local action End.DT6 table 10001 dev anchor")
	border.IP("-6 route add local 2001:db8:b1:1::/128 dev lo table 10001")

	var c *Conn
	var err error
	server.Do(func() { c, err = Open(source) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await := func(what string, want func(Message) bool) {
		t.Helper()
		netnstest.Eventually(t, what, func() bool {
			for {
				m, ok := c.Receive()
				if ok && want(m) {
					return true
				}
				if !ok {
					return false
				}
			}
		})
	}
	send := func(sid netip.Addr, token Token) {
		t.Helper()
		if err := c.Send(sid, token); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []uint32{0, 1500} {
		token := Token{Cookie: 7, Sequence: size, Size: size}
		before := time.Now()
		send(sid, token)
		await("the border answers", func(m Message) bool {
			return m.Reply != nil && *m.Reply == token && m.At.After(before.Add(-time.Second)) && m.At.Before(time.Now().Add(time.Second))
		})
	}
	send(sid, Token{Size: 1501})
	want := TooBig{Source: source, SID: sid, MTU: 1500}
	await("the router reports a packet that is too big", func(m Message) bool { return m.TooBig != nil && *m.TooBig == want })

	if err := c.SendToSelf(Token{Cookie: 9}); err != nil {
		t.Fatal(err)
	}
	await("this machine answers itself", func(m Message) bool { return m.Reply != nil && m.Reply.Cookie == 9 })
	if err := c.Send(sid, Token{Size: 1601}); err == nil {
		t.Error("a probe that the link does not take is sent")
	}
	for _, kind := range []string{"unreachable", "blackhole", "prohibit"} {
		server.IP("-6 route add " + kind + " 2001:db8:b1::/48")
		if err := c.Send(sid, Token{}); !errors.Is(err, ErrNoRoute) {
			t.Errorf("with a route of type %s, Send returns %v", kind, err)
		}
		server.IP("-6 route del " + kind + " 2001:db8:b1::/48")
	}
	server.IP("link set eth0 down")
	if err := c.Send(sid, Token{}); !errors.Is(err, ErrNoRoute) {
		t.Errorf("over a link that is down, Send returns %v", err)
	}
}
