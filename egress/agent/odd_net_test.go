package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
	"hikyaku/egress/netnstest"
	"hikyaku/egress/speaker"
)

// oddHost is a border's kernel with a planner, on a link with the peer "a".
type oddHost struct {
	*netnstest.NS
	t       *testing.T
	planner *border.Planner
	tables  *kernel.Tables
}

func newOddHost(t *testing.T) *oddHost {
	h := &oddHost{NS: netnstest.New(t, "border"), t: t}
	far := netnstest.New(t, "peer")
	netnstest.Veth(t,
		netnstest.End{NS: h.NS, Device: "eth1", Addresses: netnstest.Addresses("2001:db8:a::2/64", "fe80::2/64")},
		netnstest.End{NS: far, Device: "eth0", Addresses: netnstest.Addresses("2001:db8:a::1/64", "fe80::1/64")}, 0)
	netnstest.Veth(t,
		netnstest.End{NS: h.NS, Device: "eth2", Addresses: netnstest.Addresses("2001:db8:b::2/64")},
		netnstest.End{NS: far, Device: "eth1", Addresses: netnstest.Addresses("2001:db8:b::1/64")}, 0)
	h.Sysctl("net.ipv6.conf.all.forwarding", "1")
	// The kernel knows an address for its own only once the link has come up.
	netnstest.Eventually(t, "the host has its addresses", func() bool {
		routes := h.IP("-6 route show table local")
		return strings.Contains(routes, "local fe80::2 dev eth1") && strings.Contains(routes, "local 2001:db8:b::2 dev eth2")
	})
	loaded, err := config.Parse("border.toml", fmt.Appendf([]byte("import.ipv6_max_length = 128\nimport.default_route = true\n"),
		crossingTOML, "2001:db8:6::2", 179, "2001:db8:a::1", 179, "2001:db8:b::1", 179))
	if err != nil {
		t.Fatal(err)
	}
	h.Do(func() {
		applier, err := kernel.Open(kernel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { applier.Close() })
		if err := applier.EnsureAnchor(t.Context(), anchor, loopbackMTU); err != nil {
			t.Fatal(err)
		}
		if h.tables, err = kernel.LoadTables(t.Context(), applier); err != nil {
			t.Fatal(err)
		}
		devices, err := openDevices()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(devices.close)
		h.planner = border.New(loaded.Border, border.Options{
			Anchor: anchor, Lookup: func(*config.Peer) border.Lookup { return border.ByTable },
			Resolve: func(p *config.Peer, hop netip.Addr) (border.Hop, error) { return resolve(devices, p, hop) },
		}, kernel.State{})
	})
	h.planner.PeerUp("a")
	return h
}

// learn has the peer announce a prefix, and reports whether it is in the peer's table then.
func (h *oddHost) learn(prefix, hop string) (used bool) {
	h.t.Helper()
	h.planner.Learned(speaker.Learned{
		Peer: "a", Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
		Attributes: &speaker.Attributes{NextHop: netip.MustParseAddr(hop), ASPath: speaker.NewASPath(64601)},
	})
	for h.planner.Pending("a") {
		for _, step := range h.planner.Flush("a", batchSize) {
			if step.Change == nil {
				continue
			}
			if err := h.tables.Apply(h.t.Context(), *step.Change); err != nil {
				h.t.Errorf("%s via %s: %v", prefix, hop, err)
			}
		}
	}
	r, ok := h.tables.Route(kernel.RouteKey{Prefix: netip.MustParsePrefix(prefix), Table: h.planner.Config("a").Table})
	return ok && r.Nexthop != 0
}

// TestKernelTakesPlannedState has a peer announce odd prefixes and next hops. Those that
// the kernel would refuse must not come that far, since a refusal takes the peer out of
// use.
func TestKernelTakesPlannedState(t *testing.T) {
	h := newOddHost(t)
	for _, test := range []struct {
		hop  string
		used bool
	}{
		{"2001:db8:a::1", true},
		{"2001:db8:a::77", true}, // another router on the link
		{"2001:db8:a::2", false}, // our own
		{"2001:db8:a::", false},  // any router of the link
		{"2001:db8:b::1", false}, // on another peer's link
		{"fe80::1", true},
		{"fe80::2", false},
		{"::1", false},
		{"::ffff:192.0.2.1", false},
		{"2001:db8:ffff::1", false}, // no way there
		{"100::1", false},
	} {
		if used := h.learn("2001:db8:c::/48", test.hop); used != test.used {
			t.Errorf("a route via %s is used: %v, want %v", test.hop, used, test.used)
		}
	}
	for _, prefix := range strings.Fields("::/0 ::/1 ::/8 ::/128 ::1/128 ::ffff:0.0.0.0/96 ::ffff:192.0.2.0/120 ::ffff:192.0.2.1/128 " +
		"64:ff9b::/96 100::/64 fe80::/10 fe80::/64 fe80::1/128 ff00::/8 ff02::1/128 2001:db8:a::/64 2001:db8:a::2/128 " +
		"2001:db8:c::/48") {
		if !h.learn(prefix, "2001:db8:a::1") {
			t.Errorf("%s is not used", prefix)
		}
	}
	h.planner.Config("a").Interface = "eth1"
	for hop, want := range map[string]bool{"fe80::1": true, "fe80::2": false} {
		if used := h.learn("2001:db8:d::/48", hop); used != want {
			t.Errorf("a route via %s on the peer's link is used: %v, want %v", hop, used, want)
		}
	}
}
