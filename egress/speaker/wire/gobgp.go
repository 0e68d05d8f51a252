package wire

import (
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/srv6"
)

// UnicastPrefix is the prefix of a unicast route that GoBGP has decoded, false for other
// routes.
func UnicastPrefix(nlri bgp.NLRI) (netip.Prefix, bool) {
	p, ok := nlri.(*bgp.IPAddrPrefix)
	if !ok {
		return netip.Prefix{}, false
	}
	return p.Prefix, p.Prefix.IsValid()
}

// VPNNLRI is the key of a VPN route that GoBGP has decoded, false for other routes.
func VPNNLRI(nlri bgp.NLRI) (NLRI, bool) {
	p, ok := nlri.(*bgp.LabeledVPNIPAddrPrefix)
	if !ok {
		return NLRI{}, false
	}
	rd, err := srv6.DistinguisherFromGoBGP(p.RD)
	return NLRI{RD: rd, Prefix: p.Prefix}, err == nil && p.Prefix.IsValid()
}

// Seconds rounds a time up to whole seconds, as messages have it.
func Seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }
