package border

import (
	"net/netip"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/fib"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// TestWithdrawnPrefixesTakeNoMemory: the main table never changes, and peers announce ever
// other prefixes.
func TestWithdrawnPrefixesTakeNoMemory(t *testing.T) {
	most := config.MaxPrefix{MaxPrefixes: 8, MaxPrefixesAction: config.MaxPrefixRefuse}
	c := &config.Border{
		Common: config.Common{RouterID: netip.MustParseAddr("192.0.2.1")}, Import: config.Import{IPv6MaxLength: 48, Martians: true},
		Peers: []config.Peer{{Session: config.Session{Name: "a"}, MaxPrefix: most, Import: config.PeerImport{IPv6MaxLength: 48, IPv4MaxLength: 24}, EnforceFirstAS: config.ToggleOff, ASN: 64601}, {Session: config.Session{Name: "b"}, MaxPrefix: most, Import: config.PeerImport{IPv6MaxLength: 48, IPv4MaxLength: 24}, EnforceFirstAS: config.ToggleOff, ASN: 64601}},
	}
	p := New(c, Options{
		Lookup: func(*config.Peer) Lookup { return ByTable }, Main: fib.New(),
		Resolve: func(_ *config.Peer, hop netip.Addr) (Hop, error) { return Hop{Device: "eth1", Gateway: hop}, nil },
	}, kernel.State{})
	flush := func() {
		for _, name := range p.Names() {
			for p.Pending(name) {
				p.Flush(name, 8)
			}
		}
	}
	a := speaker.Attributes{NextHop: netip.MustParseAddr("fe80::1"), ASPath: speaker.NewASPath(64601)}
	p.PeerUp("a")
	p.PeerUp("b")
	for n := range 100 {
		list := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(n)}), 48)}
		for _, peer := range []string{"a", "b"} {
			p.Learned(speaker.Learned{Peer: peer, Prefixes: list, Attributes: &a})
			flush()
		}
		if len(p.plain.uncovered) != 1 {
			t.Fatalf("with one prefix announced %d are remembered", len(p.plain.uncovered))
		}
		for _, peer := range []string{"a", "b"} {
			p.Withdrawn(speaker.Withdrawn{Peer: peer, Prefixes: list})
			flush()
		}
		p.Recheck()
	}
	if n := len(p.plain.uncovered) + len(p.plain.recheck); n > 0 {
		t.Errorf("of withdrawn prefixes %d are remembered", n)
	}
}
