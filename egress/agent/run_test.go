package agent

import (
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/config"
	"hikyaku/egress/kernel"
)

// Without a mark the agent would not recognise its own addresses when it reads the kernel.
// It would fail to add them again, and leave them at its stop.
func TestAddressesOfAKernelWithoutMarks(t *testing.T) {
	a, b, c := netip.MustParseAddr("2001:db8:5::a1"), netip.MustParseAddr("198.51.100.161"), netip.MustParseAddr("2001:db8:5::a2")
	server := &Server{config: &config.Server{Paths: []config.Path{{Addresses: []netip.Addr{a, b}}, {Addresses: []netip.Addr{c}}}}}
	for _, test := range []struct {
		name  string
		marks bool
		role  starter
		want  []netip.Addr
	}{
		{"a server without marks", false, server, []netip.Addr{a, b, c}},
		{"a server with marks", true, server, nil},
		{"a border without marks", false, &Border{}, nil},
	} {
		if got := unmarked(kernel.Features{AddressProtocol: test.marks}, test.role); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
