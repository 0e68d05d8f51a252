package border

import (
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/kernel"
	"hikyaku/egress/rib"
	"hikyaku/egress/speaker"
)

// peer is the state of one egress peer.
type peer struct {
	config *config.Peer
	policy *importpolicy.Policy
	lookup Lookup
	up     bool
	// leftOut: the session is a router's and up, and the peer is out of use, see [Planner.LeaveOut].
	leftOut bool
	// complete: the peer has sent all that it had when the session came up.
	complete bool
	// failed is why the kernel cannot have the peer's routes, nil when it can.
	failed error
	reason string
	drain  bool
	// removed: no session counts any more, see [Planner.Remove].
	removed bool

	sid endpoint
	// local is the object behind the open SID.
	local kernel.Nexthop
	// enter leads packets of the IPv4 SID into the pair of devices, and inner is the endpoint
	// behind it; see [ByPair].
	enter, inner kernel.Nexthop
	// lost asks for the drop at the next flush.
	lost bool
	// marked: the path's [Marker] was announced to servers. remark: it is to be announced
	// again, since it says more of the path now.
	marked, remark bool
	// port is the state of the port that the peer's packets leave by, nil where it has none.
	port   []speaker.LargeCommunity
	routes rib.Table[route]
	hops   map[netip.Addr]resolution
	// uses counts the routes by each next hop.
	uses map[netip.Addr]int

	// queue has the prefixes whose route is not as it should be. clearing has those that
	// are withdrawn from servers and still in the table of a lost peer.
	queue, clearing []netip.Prefix
	// leftover counts routes in the table that nobody advertises. While there are
	// some, a closed SID stays closed.
	leftover int
	// gone are objects that lost their last route.
	gone  []kernel.Nexthop
	count counts
	refusals
	beyond beyond
	bars
	// again has the routes to judge anew.
	again recheck
}

type counts struct {
	ipv6, ipv4 int // used
	received   int // also those that are refused and kept
	received4  int // those of IPv4 among them
	defaults   int // of those
	origins    Origins
}

// maxNextHops bounds the next hops of a peer's routes: the way to each is resolved once a
// second, and events of others wait meanwhile. The largest route servers have
// half as many members.
const maxNextHops = 4096

// endpoint is the state of a SID in the kernel.
type endpoint uint8

const (
	closed  endpoint = iota // no route of its own
	dropped                 // a blackhole
	open
)

type resolution struct {
	hop Hop
	err error
}

// route is the state of one prefix of a peer.
type route struct {
	// want is the route that the peer advertises, nil for none. It is kept where verdict
	// refuses it: a change of the policy may need it.
	want *speaker.Attributes
	// have is the object that the table's route points to, 0 without one.
	have kernel.NexthopID
	// announced is the route that servers have of it.
	announced announcement
	// main: the announced route says that the main table sends the prefix this way.
	main bool
	// stale: a former run put it there, and the peer has not yet announced all.
	stale   bool
	queued  bool
	verdict importpolicy.Verdict
}

// used reports whether there is a route that the import policy accepts.
func (r route) used() bool { return r.want != nil && !r.verdict.Refuses() }

type announcement uint8

const (
	nothing announcement = iota
	current
	outdated
)

// usable reports whether the peer's routes may be in use.
func (p *peer) usable() bool { return p.up && !p.leftOut && p.failed == nil }

// wanted are the attributes that the table and the servers shall have.
func (p *peer) wanted(r route) *speaker.Attributes {
	if !p.usable() || !r.used() {
		return nil
	}
	return r.want
}

func (p *peer) isLeftover(r route) bool { return r.have != 0 && p.wanted(r) == nil && !r.stale }

// store replaces the state of a prefix; was comes from [rib.Table.Get].
func (p *peer) store(prefix netip.Prefix, was, now route) {
	if p.isLeftover(was) {
		p.leftover--
	}
	if p.isLeftover(now) {
		p.leftover++
	}
	p.recount(prefix, was, now)
	p.bar(prefix, was, now)
	if now.want == nil && now.have == 0 && now.announced == nothing && !now.queued {
		p.routes.Delete(prefix)
		return
	}
	p.routes.Set(prefix, now)
}

// recount counts the new state of a prefix in place of the former.
func (p *peer) recount(prefix netip.Prefix, was, now route) {
	if was.verdict == now.verdict &&
		(was.want == now.want || was.want != nil && now.want != nil && was.want.NextHop == now.want.NextHop) {
		return
	}
	p.tally(prefix, now, +1) // first, so that an object that both need is not forgotten
	p.tally(prefix, was, -1)
}

func (p *peer) tally(prefix netip.Prefix, r route, n int) {
	if r.want == nil {
		return
	}
	if p.count.received += n; prefix.Bits() == 0 {
		p.count.defaults += n
	}
	if prefix.Addr().Is4() {
		p.count.received4 += n
	}
	if r.verdict.Refuses() {
		p.now[r.verdict.Reason()] += n
		return
	}
	p.count.origins.add(r.verdict.Origin(), n)
	hop := r.want.NextHop
	if p.uses[hop] += n; p.uses[hop] == 0 {
		delete(p.uses, hop)
		if p.up { // else its device may still be asked for
			delete(p.hops, hop)
		}
	}
	switch {
	case prefix.Addr().Is4():
		p.count.ipv4 += n
	default:
		p.count.ipv6 += n
	}
}

// enqueue stores a route whose state differs from the wanted one.
func (p *peer) enqueue(prefix netip.Prefix, was, now route) {
	if !was.queued {
		p.queue = append(p.queue, prefix)
	}
	now.queued = true
	p.store(prefix, was, now)
}

// requeue makes change apply to every route and plans all of them anew. It also counts the
// routes left over, since that depends on the peer's state.
func (p *peer) requeue(change func(*route)) {
	p.queue, p.clearing = p.queue[:0], nil
	p.leftover = 0
	for prefix, was := range p.routes.All() {
		now := was
		change(&now)
		now.queued = true
		p.recount(prefix, was, now)
		p.bar(prefix, was, now)
		if p.isLeftover(now) {
			p.leftover++
		}
		p.routes.Set(prefix, now)
		p.queue = append(p.queue, prefix)
	}
}

// take removes up to limit prefixes from a queue.
func take(queue *[]netip.Prefix, limit int) []netip.Prefix {
	n := min(limit, len(*queue))
	batch := (*queue)[:n:n]
	*queue = (*queue)[n:]
	return batch
}
