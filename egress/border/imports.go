package border

import (
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/importpolicy"
	"hikyaku/egress/prefixmap"
	"hikyaku/egress/rpki"
	"hikyaku/egress/speaker"
)

// refusals counts the routes of a peer that are refused, by [importpolicy.Reason].
type refusals struct {
	// now are refused at present. Those beyond max_prefixes and of too many next hops are
	// not kept: they count for each announcement of the session.
	now [32]int
	// total counts since the start how often a route was refused.
	total [32]uint64
}

func (r *refusals) countTotal(v importpolicy.Verdict) {
	if v.Refuses() {
		r.total[v.Reason()]++
	}
}

// forget starts again with a new session.
func (r *refusals) forget() {
	r.now[importpolicy.MaxPrefixes], r.now[importpolicy.NextHops] = 0, 0
}

// Origins counts used routes by the validation state of their origins (RFC 6811 §2). Without
// VRPs none is counted.
type Origins struct{ Valid, NotFound, Invalid int }

func (o *Origins) add(state rpki.State, n int) {
	switch state {
	case rpki.Valid:
		o.Valid += n
	case rpki.NotFound:
		o.NotFound += n
	case rpki.Invalid:
		o.Invalid += n
	}
}

// Learned takes the announcements of a peer. It reports whether the session must end, since
// the peer sends more routes than max_prefixes.
func (p *Planner) Learned(event speaker.Learned) (exceeded bool) {
	state := p.peers[event.Peer]
	if state == nil || !state.up {
		return false
	}
	judged := state.policy.Attributes(event.Attributes)
	for _, prefix := range event.Prefixes {
		was, _ := state.routes.Get(prefix)
		verdict := p.judge(state, prefix, was, judged, event.Attributes.NextHop)
		exceeded = exceeded || verdict.Reason() == importpolicy.MaxPrefixes
		state.learn(prefix, was, event.Attributes, verdict)
	}
	return exceeded && state.config.MaxPrefixesAction == config.MaxPrefixTeardown
}

// judge returns the verdict on a route that a peer announces, with these attributes.
func (p *Planner) judge(state *peer, prefix netip.Prefix, was route, a importpolicy.Attributes, nextHop netip.Addr) importpolicy.Verdict {
	refuse := func(r importpolicy.Reason) importpolicy.Verdict { return importpolicy.NewVerdict(r, rpki.Unchecked) }
	if was.want == nil && state.full() && state.config.MaxPrefixesAction != config.MaxPrefixWarn {
		return refuse(importpolicy.MaxPrefixes)
	}
	if state.isOwn(prefix) || prefix.Addr().Is4() && state.lookup == ByTable {
		return refuse(importpolicy.Family)
	}
	verdict := state.policy.Judge(prefix, a, p.vrps)
	if !verdict.Refuses() && state.crowded(nextHop) {
		return refuse(importpolicy.NextHops)
	}
	return verdict
}

// full reports whether the peer has as many routes as it may.
func (p *peer) full() bool { return p.count.received >= int(p.config.MaxPrefixes) }

// exceeds reports whether the peer has so many routes that its session must end by a bound.
func (p *peer) exceeds(bound config.MaxPrefix) bool {
	return p.up && bound.MaxPrefixesAction == config.MaxPrefixTeardown &&
		p.count.received+len(p.beyond.routes) > int(bound.MaxPrefixes)
}

// learn stores a route with its verdict.
func (p *peer) learn(prefix netip.Prefix, was route, a *speaker.Attributes, verdict importpolicy.Verdict) {
	reason := verdict.Reason()
	p.countTotal(verdict)
	p.dropBeyond(prefix)
	if reason == importpolicy.MaxPrefixes || reason == importpolicy.NextHops {
		if reason == importpolicy.NextHops || !p.keepBeyond(prefix, a) {
			p.now[reason]++
		}
		if was != (route{}) {
			p.withdraw(prefix, was)
		}
		return
	}
	now := was
	now.stale, now.verdict = false, verdict
	if now.announced == current && (now.want == nil || *now.want != *a) {
		now.announced = outdated
	}
	now.want = a
	if verdict.Refuses() && was.have == 0 && was.announced == nothing && !was.queued {
		p.store(prefix, was, now) // nobody has it
		return
	}
	p.enqueue(prefix, was, now)
}

// none stands for the attributes of routes that count as withdrawn.
var none = new(speaker.Attributes)

// lasting are the reasons of announcements that count as withdrawn.
var lasting = map[speaker.WithdrawalCause]importpolicy.Reason{
	speaker.Looped: importpolicy.OwnAS, speaker.Malformed: importpolicy.Malformed,
}

// Withdrawn takes the prefixes that a peer announces no more.
func (p *Planner) Withdrawn(event speaker.Withdrawn) {
	state := p.peers[event.Peer]
	if state == nil {
		return
	}
	reason, announced := lasting[event.Cause]
	for _, prefix := range event.Prefixes {
		was, known := state.routes.Get(prefix)
		state.dropBeyond(prefix)
		switch {
		case announced && state.up && (was.want != nil || !state.full()):
			state.learn(prefix, was, none, importpolicy.NewVerdict(reason, rpki.Unchecked))
		case known:
			state.withdraw(prefix, was)
		}
	}
}

func (p *peer) withdraw(prefix netip.Prefix, was route) {
	now := was
	now.want, now.stale, now.verdict = nil, false, 0
	p.enqueue(prefix, was, now)
}

// recheck says which routes of a peer are to be judged anew.
type recheck struct {
	all bool
	// within has the prefixes of changed VRPs; nil for none.
	within *prefixmap.Map[struct{}]
	// queue has the prefixes that are left of those.
	queue []netip.Prefix
}

func (r recheck) pending() bool { return r.begins() || len(r.queue) > 0 }

// begins reports whether the queue is still to be made.
func (r recheck) begins() bool { return r.all || r.within != nil }

func (r recheck) has(prefix netip.Prefix) bool { return r.all || r.within.Covers(prefix) }

// SetVRPs takes other VRPs. Routes whose state may be another one by them are judged anew by
// [Planner.Flush].
func (p *Planner) SetVRPs(vrps *rpki.Table) {
	whole := (vrps.Len() == 0) != (p.vrps.Len() == 0)
	var within *prefixmap.Map[struct{}]
	if changed := rpki.Difference(p.vrps, vrps); !whole && len(changed) > 0 {
		within = prefixmap.NewSet(changed)
	}
	p.vrps = vrps
	for _, state := range p.peers {
		switch {
		case state.again.all || within == nil && !whole:
		case whole || state.again.pending():
			state.again = recheck{all: true}
		default:
			state.again = recheck{within: within}
		}
	}
}

// Unfit are peers that cannot take another import policy as they are.
type Unfit struct {
	// Incomplete peers need to send their routes again, since some were not kept.
	Incomplete []string
	// Exceeded peers have more routes than max_prefixes now, and their sessions must end.
	Exceeded []string
}

// Exceeds reports whether the session of a peer must end by its next settings, since it has more
// routes than max_prefixes there.
func (p *Planner) Exceeds(next *config.Peer) bool {
	state := p.peers[next.Name]
	return state != nil && state.exceeds(next.MaxPrefix)
}

// SetImport takes the import policy of another configuration, for the peers that both have.
// All routes are judged anew by [Planner.Flush].
func (p *Planner) SetImport(c *config.Border) (unfit Unfit) {
	p.config.Import = c.Import
	p.inside = importpolicy.NewInside(p.config)
	for i := range c.Peers {
		now := &c.Peers[i]
		state := p.peers[now.Name]
		if state == nil {
			continue
		}
		had := state.config
		admits := now.MaxPrefixes > had.MaxPrefixes || now.MaxPrefixesAction != had.MaxPrefixesAction
		had.Import, had.MaxPrefix, had.EnforceFirstAS = now.Import, now.MaxPrefix, now.EnforceFirstAS
		state.policy = importpolicy.New(p.config, had)
		state.again = recheck{all: true}
		switch {
		case state.exceeds(now.MaxPrefix):
			unfit.Exceeded = append(unfit.Exceeded, now.Name)
		case admits && !state.leftOut && state.now[importpolicy.MaxPrefixes] > 0 && !state.beyond.complete():
			state.now[importpolicy.MaxPrefixes] = 0 // those that are beyond still count when they come
			unfit.Incomplete = append(unfit.Incomplete, now.Name)
		}
	}
	return unfit
}

// judgeAgain judges routes anew that a change concerns, at most limit of them.
func (p *Planner) judgeAgain(state *peer, limit int) {
	if again := state.again; again.begins() {
		state.again = recheck{}
		for prefix, r := range state.routes.All() {
			if r.want != nil && again.has(prefix) {
				state.again.queue = append(state.again.queue, prefix)
			}
		}
		for prefix := range state.beyond.routes {
			if !state.full() && again.has(prefix) {
				state.again.queue = append(state.again.queue, prefix)
			}
		}
	}
	judged := make(map[*speaker.Attributes]importpolicy.Attributes)
	defer func() {
		if len(state.again.queue) == 0 {
			state.again.queue = nil // and its memory
		}
	}()
	for _, prefix := range take(&state.again.queue, limit) {
		was, _ := state.routes.Get(prefix)
		want := was.want
		if want == nil {
			want = state.beyond.routes[prefix]
		}
		if want == nil || was.verdict.Reason().Lasting() {
			continue // it is another one meanwhile
		}
		a, known := judged[want]
		if !known {
			a = state.policy.Attributes(want)
			judged[want] = a
		}
		verdict := p.judge(state, prefix, was, a, want.NextHop)
		switch {
		case was.want == nil && verdict.Reason() == importpolicy.MaxPrefixes: // still beyond
		case was.want == nil:
			state.learn(prefix, was, want, verdict)
		case verdict == was.verdict:
		case verdict.Refuses() == was.verdict.Refuses() && verdict.Reason() != importpolicy.NextHops:
			now := was // for another reason, or by another origin state: nothing to do
			now.verdict = verdict
			state.countTotal(verdict)
			state.store(prefix, was, now)
		default:
			state.learn(prefix, was, was.want, verdict)
			p.bestJudged(state, prefix, verdict.Refuses())
		}
	}
}
