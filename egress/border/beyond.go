package border

import (
	"net/netip"

	"hikyaku/egress/importpolicy"
	"hikyaku/egress/speaker"
)

// beyond has the routes of a peer that came beyond max_prefixes, for a higher bound. Peers are
// asked for theirs again, by ROUTE-REFRESH; a router that reports by BMP cannot be asked.
type beyond struct {
	// keeps: such routes are kept, as many again as max_prefixes.
	keeps  bool
	routes map[netip.Prefix]*speaker.Attributes
	// lost: there were more.
	lost bool
}

// complete reports whether all routes beyond the bound are here.
func (b *beyond) complete() bool { return b.keeps && !b.lost }

func (b *beyond) forget() { b.routes, b.lost = nil, false }

// keepBeyond keeps a route beyond max_prefixes, and counts it. It reports whether it did.
func (p *peer) keepBeyond(prefix netip.Prefix, a *speaker.Attributes) bool {
	b := &p.beyond
	b.lost = b.lost || len(b.routes) >= int(p.config.MaxPrefixes)
	if !b.complete() {
		return false
	}
	if b.routes == nil {
		b.routes = make(map[netip.Prefix]*speaker.Attributes)
	}
	b.routes[prefix] = a
	p.countBeyond()
	return true
}

// dropBeyond forgets a route beyond max_prefixes, which is taken now or no longer there.
func (p *peer) dropBeyond(prefix netip.Prefix) {
	if !p.beyond.complete() || p.beyond.routes == nil {
		return
	}
	delete(p.beyond.routes, prefix)
	p.countBeyond()
}

func (p *peer) countBeyond() { p.now[importpolicy.MaxPrefixes] = len(p.beyond.routes) }
