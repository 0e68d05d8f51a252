// Package importpolicy decides which routes of an egress peer are used. It goes by the rules
// of RFCs for every BGP speaker, by the operator's lists, and by the RPKI. It is pure.
package importpolicy

import (
	"encoding/binary"
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/prefixmap"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
)

// Policy is the import policy for one egress peer. It never changes.
type Policy struct {
	peer           *config.Peer
	all            config.Import
	firstAS        bool
	role           speaker.Role
	within         *prefixmap.Map[struct{}] // of the own AS
	accept, refuse prefixRanges
}

// New returns the policy that a border's configuration has for one of its peers.
func New(b *config.Border, p *config.Peer) *Policy {
	role, _ := speaker.ParseRole(string(p.LocalRole))
	return &Policy{
		peer: p, all: b.Import, firstAS: p.FirstAS(), role: role,
		// Packets to a SID must never follow a route that somebody else announces.
		within: prefixmap.NewSet(append([]netip.Prefix{b.SRv6.Locator}, b.Import.Refuse...)),
		accept: newPrefixRanges(p.Import.AcceptPrefixes), refuse: newPrefixRanges(p.Import.RefusePrefixes),
	}
}

// NewInside returns the policy for best paths of the AS's other borders, which have judged
// attributes and origins.
func NewInside(b *config.Border) *Policy {
	return New(&config.Border{Import: config.Import{
		Refuse: b.Import.Refuse, Martians: b.Import.Martians, ASSets: true,
	}, SRv6: b.SRv6}, &config.Peer{EnforceFirstAS: config.ToggleOff, Import: config.PeerImport{
		IPv6MaxLength: b.Import.IPv6MaxLength, IPv4MaxLength: b.Import.IPv4MaxLength,
		DefaultRoute: b.Import.DefaultRoute, RPKIInvalid: true,
	}})
}

// Attributes is the part of a verdict that the path attributes alone decide. Many routes
// share them.
type Attributes struct {
	reason Reason
	origin uint32
}

// Attributes judges path attributes.
func (p *Policy) Attributes(a *speaker.Attributes) Attributes {
	return Attributes{p.attributes(a), a.ASPath.Origin()}
}

func (p *Policy) attributes(a *speaker.Attributes) Reason {
	switch {
	case !p.all.ASSets && a.ASPath.HasSet():
		return ASSet
	case p.firstAS && a.ASPath.First() != p.peer.ASN:
		return FirstAS
	case p.role.Leaks(*a, p.peer.ASN):
		return RouteLeak
	case !p.acceptsPath(a):
		return ASPathList
	case !p.acceptsCommunities(a):
		return CommunityList
	}
	return Accepted
}

// Judge returns the verdict on a route with attributes that [Policy.Attributes] has judged.
func (p *Policy) Judge(prefix netip.Prefix, a Attributes, vrps *rpki.Table) Verdict {
	reason := a.reason
	if reason == Accepted {
		reason = p.prefix(prefix)
	}
	if reason != Accepted {
		return NewVerdict(reason, rpki.Unchecked)
	}
	origin := vrps.Validate(prefix, a.origin)
	if origin == rpki.Invalid && !p.peer.Import.RPKIInvalid {
		reason = RPKIInvalid
	}
	return NewVerdict(reason, origin)
}

func (p *Policy) prefix(prefix netip.Prefix) Reason {
	longest := p.peer.Import.IPv6MaxLength
	if prefix.Addr().Is4() {
		longest = p.peer.Import.IPv4MaxLength
	}
	switch {
	case prefix.Bits() == 0 && !p.peer.Import.DefaultRoute:
		return DefaultRoute
	case prefix.Bits() > 0 && !p.all.Martians && martian(prefix):
		return Martian
	case prefix.Bits() > int(longest):
		return MaxLength
	case p.within.Covers(prefix), p.refuse.match(prefix), !p.accept.empty() && !p.accept.match(prefix):
		return PrefixList
	}
	return Accepted
}

func (p *Policy) acceptsPath(a *speaker.Attributes) bool {
	accept, refuse := p.peer.Import.AcceptASPaths, p.peer.Import.RefuseASPaths
	if len(accept)+len(refuse) == 0 {
		return true
	}
	text := a.ASPath.String()
	for _, pattern := range refuse {
		if pattern.Matches(text) {
			return false
		}
	}
	for _, pattern := range accept {
		if pattern.Matches(text) {
			return true
		}
	}
	return len(accept) == 0
}

func (p *Policy) acceptsCommunities(a *speaker.Attributes) bool {
	accept, refuse := p.peer.Import.AcceptCommunities, p.peer.Import.RefuseCommunities
	if len(accept)+len(refuse) == 0 {
		return true
	}
	list := communities(a)
	return !anyMatches(refuse, list) && (len(accept) == 0 || anyMatches(accept, list))
}

func anyMatches(patterns []config.CommunityPattern, list [][]byte) bool {
	for _, pattern := range patterns {
		for _, c := range list {
			if pattern.Matches(c) {
				return true
			}
		}
	}
	return false
}

// communities are all of a route, as on the wire.
func communities(a *speaker.Attributes) (list [][]byte) {
	for _, c := range a.Communities() {
		list = append(list, binary.BigEndian.AppendUint32(nil, c))
	}
	for _, c := range a.ExtendedCommunities() {
		list = append(list, c[:])
	}
	for _, c := range a.LargeCommunities() {
		var b []byte
		for _, part := range c {
			b = binary.BigEndian.AppendUint32(b, part)
		}
		list = append(list, b)
	}
	return list
}

// prefixRanges is a prefix list.
type prefixRanges struct {
	lengths prefixmap.Map[[]config.PrefixRange]
	any     bool
}

func newPrefixRanges(list []config.PrefixRange) prefixRanges {
	r := prefixRanges{any: len(list) > 0}
	for _, entry := range list {
		r.lengths.Set(entry.Prefix, append(r.lengths.Get(entry.Prefix), entry))
	}
	return r
}

func (r *prefixRanges) empty() bool { return !r.any }

func (r *prefixRanges) match(p netip.Prefix) bool {
	if !r.any {
		return false
	}
	for entries := range r.lengths.Covering(p) {
		for _, entry := range entries {
			if int(entry.Min) <= p.Bits() && p.Bits() <= int(entry.Max) {
				return true
			}
		}
	}
	return false
}
