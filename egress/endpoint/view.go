package endpoint

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"hikyaku/egress/config"
	"hikyaku/egress/port"
	"hikyaku/egress/speaker"
)

// View is the state of a path, for people.
type View struct {
	Config *config.Path
	// Up: the path has routes and the kernel has them.
	Up bool
	// Draining: nothing new shall begin. ByBorder: because its border said so.
	Draining, ByBorder bool
	// Reason for the state, a sentence.
	Reason string
	// Routed: it has routes and nothing of BGP or the kernel keeps it out of use.
	Routed bool
	// Confirmed: a reflector announces it now. Else its routes are from a former run.
	Confirmed bool
	// SID of the path; the zero address until one is announced.
	SID netip.Addr
	// IPv4SID is that of its IPv4 routes.
	IPv4SID netip.Addr
	// IPv6 and IPv4 count the prefixes that the path reaches.
	IPv6, IPv4 int
	// BeyondLimit and Strange count the routes that are refused, see [Refusal].
	BeyondLimit, Strange int
	// Port is the state of the port that the path's packets leave by, nil where its border
	// says nothing of it.
	Port *port.State
	// Problems that an operator should know of, as sentences.
	Problems []string
}

// View returns the state of a path.
func (p *Planner) View(name string) (View, bool) {
	state := p.paths[name]
	if state == nil {
		return View{}, false
	}
	c := state.count
	v := View{Config: state.config, SID: state.anySID(), Port: state.port, IPv4SID: state.ipv4SID, Confirmed: state.confirmed(), IPv6: c.ipv6, IPv4: c.ipv4}
	v.BeyondLimit, v.Strange = len(state.refused), len(state.strange)
	v.ByBorder = c.draining > 0 && c.draining == c.ipv6+c.ipv4
	v.Draining = state.drain || v.ByBorder
	v.Up = state.inUse()
	v.Routed = state.blocked == nil && !state.lost && state.routes.Len() > 0
	v.Reason = state.reason(v)
	if state.blocked != nil || state.dead != nil && !state.lost && state.routes.Len() > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("path %s: %s", name, v.Reason))
	}
	if state.portStripped {
		v.Problems = append(v.Problems, fmt.Sprintf("path %s: a reflector takes the large communities (RFC 8092) off its routes, by which border %s "+
			"reports the state of the port, so that its capacity and price do not count: have the reflector pass them on", name, state.config.Border))
	}
	if refused := len(state.refused); refused > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("path %s: %d routes beyond limits.routes_per_path (%d) are refused",
			name, refused, p.config.Limits.RoutesPerPath))
	}
	if strange := len(state.strange); strange > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf(
			"path %s: %d routes are refused, since their SID is in none of srv6.locators or their target is not %s",
			name, strange, state.config.RT))
	}
	return v, true
}

// SharedSIDs describes, as sentences, paths that are in use with the SID of another one.
// Routing leads a SID to one border and one peer, whatever else was announced.
func (p *Planner) SharedSIDs() []string {
	var problems []string
	first := make(map[netip.Addr]*path)
	for _, name := range p.Names() {
		state := p.paths[name]
		for _, sid := range []netip.Addr{state.sid, state.ipv4SID} {
			other := first[sid]
			if !sid.IsValid() || !state.inUse() || other == state {
				continue
			}
			if other == nil {
				first[sid] = state
				continue
			}
			problems = append(problems, fmt.Sprintf(
				"paths %s and %s have one SID, %s, announced by border %s and border %s: packets of one of them leave by "+
					"the other's peer; give each border a locator and each peer a SID of its own",
				other.config.Name, name, sid, other.config.Border, state.config.Border))
		}
	}
	return problems
}

func (p *path) reason(v View) string {
	switch {
	case p.blocked != nil:
		return p.blocked.Error()
	case p.lost:
		return "its border has lost the peer"
	case p.dead != nil && p.routes.Len() > 0:
		return p.dead.Error()
	case p.routes.Len() == 0:
		return "no reflector has a route of the path"
	case p.drain:
		return "an operator drains it"
	case v.ByBorder:
		return "its border drains it"
	default:
		return "routes are in the kernel"
	}
}

// Reach is a path's route to a client.
type Reach struct {
	Path   string
	Prefix netip.Prefix
	Route  *speaker.VPNRoute
	// Draining: the path or this route shall be used for nothing new.
	Draining bool
}

// Lookup returns the paths that reach all of a prefix, by name, each with its longest
// route. It also returns how plain packets leave, which may be by a path to whose SID packets
// are lost: BGP does not know that yet.
func (p *Planner) Lookup(client netip.Prefix) (reaches []Reach, plain Plain) {
	for _, name := range p.Names() {
		state := p.paths[name]
		if !state.usable() {
			continue
		}
		prefix, r, ok := state.routes.Longest(client, func(r route) bool { return r.want != nil })
		if !ok {
			continue
		}
		reaches = append(reaches, Reach{Path: name, Prefix: prefix, Route: r.want, Draining: r.draining || state.drain})
	}
	return reaches, p.plainTo(client)
}

// OriginAS returns the AS that a client is in by the result of [Planner.Lookup] for it. It
// is the last of the AS path of the route that plain packets take, or of the first where that
// is not known. It is 0 where no path reaches the client, and for the own AS.
func OriginAS(reaches []Reach, plain string) uint32 {
	i := slices.IndexFunc(reaches, func(r Reach) bool { return r.Path == plain })
	if len(reaches) == 0 {
		return 0
	}
	path := ASes(reaches[max(i, 0)].Route.Attributes.ASPath)
	if len(path) == 0 {
		return 0
	}
	return path[len(path)-1]
}

// ASes lists the AS numbers of a path in order; a set stands as its members.
func ASes(path speaker.ASPath) []uint32 {
	ases := []uint32{}
	words := strings.FieldsFunc(path.String(), func(r rune) bool { return r < '0' || r > '9' })
	for _, word := range words {
		// AS numbers have 32 bits (RFC 6793), so this cannot fail.
		number, _ := strconv.ParseUint(word, 10, 32)
		ases = append(ases, uint32(number))
	}
	return ases
}
