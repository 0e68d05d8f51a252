package kernel

import (
	"net"
	"net/netip"
	"testing"

	"hikyaku/egress/netnstest"
)

// A connected socket keeps its route until the kernel invalidates it.
func TestLiveSocketsLeaveAtOnce(t *testing.T) {
	for name, change := range map[string]Change{
		"the prefix is withdrawn":   {Remove: State{Routes: serverState().Routes[:1]}},
		"the nexthop is removed":    {Remove: State{Nexthops: serverState().Nexthops}},
		"the nexthop is blackholed": {Put: State{Nexthops: []Nexthop{{ID: FirstNexthopID, Family: IPv6, Blackhole: true}}}},
		"the prefix is blackholed":  {Put: State{Routes: []Route{serverState().Routes[0].dropped()}}},
		"the lookup rule goes":      {Remove: State{Rules: serverState().Rules[:1]}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPath(t)
			arrived := p.count(t, client)
			conn := p.dialUDP(t, client)
			p.warmUp(t, conn, arrived)
			if err := p.serverTables.Apply(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			before := arrived.packets.Load()
			for range 50 {
				_, _ = conn.Write(make([]byte, 8)) // the kernel may refuse, too
			}
			// Whatever was to arrive has, when another packet has come to the peer.
			other := p.count(t, unadvertised)
			p.reachPeer(t, other)
			if n := arrived.packets.Load() - before; n != 0 {
				t.Errorf("%d packets still took the path", n)
			}
		})
	}
}

// reachPeer sends from the border to the peer until something arrives.
func (p *path) reachPeer(t *testing.T, at *arrivals) {
	t.Helper()
	var conn *net.UDPConn
	var err error
	p.border.Do(func() {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(unadvertised, 7000)))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	netnstest.Eventually(t, "a packet from the border", func() bool {
		send(t, conn, 1)
		return at.packets.Load() > 0
	})
}
