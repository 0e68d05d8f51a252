package netnstest

import (
	"fmt"
	"net/netip"
	"testing"
)

// End is one end of a link.
type End struct {
	NS *NS
	// Device is the interface's name, at most 15 bytes.
	Device string
	// Addresses are set without duplicate address detection.
	Addresses []netip.Prefix
}

// Addresses parses address/length pairs, for [End]. It panics on a typing error.
func Addresses(texts ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// Veth joins two ends by a veth pair that is up, offloads on. mtu 0 is 1500 bytes.
func Veth(tb testing.TB, a, b End, mtu int) {
	tb.Helper()
	if mtu == 0 {
		mtu = 1500
	}
	a.NS.IP(fmt.Sprintf("link add name %s mtu %d type veth peer name %s mtu %d netns %s",
		a.Device, mtu, b.Device, mtu, b.NS.Name))
	for _, end := range []End{a, b} {
		end.NS.IP(fmt.Sprintf("link set dev %s up", end.Device))
		for _, address := range end.Addresses {
			flags := ""
			if address.Addr().Is6() {
				flags = " nodad"
			}
			end.NS.IP(fmt.Sprintf("addr add %s dev %s%s", address, end.Device, flags))
		}
	}
}
