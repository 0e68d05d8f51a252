package endpoint

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"hikyaku/egress/config"
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
	// IPv6 and IPv4 count the prefixes that the path reaches.
	IPv6, IPv4 int
	// BeyondLimit and Strange count the routes that are refused, see [Refusal].
	BeyondLimit, Strange int
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
	v := View{Config: state.config, SID: state.sid, Confirmed: state.confirmed(), IPv6: c.ipv6, IPv4: c.ipv4}
	v.BeyondLimit, v.Strange = len(state.refused), len(state.strange)
	v.ByBorder = c.draining > 0 && c.draining == c.ipv6+c.ipv4
	v.Draining = state.drain || v.ByBorder
	v.Up = state.inUse()
	v.Routed = state.blocked == nil && !state.lost && state.routes.Len() > 0
	v.Reason = state.reason(v)
	if state.blocked != nil || state.dead != nil && !state.lost && state.routes.Len() > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("path %s: %s", name, v.Reason))
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
		if !state.sid.IsValid() || !state.inUse() {
			continue
		}
		other := first[state.sid]
		if other == nil {
			first[state.sid] = state
			continue
		}
		problems = append(problems, fmt.Sprintf(
			"paths %s and %s have one SID, %s, announced by border %s and border %s: packets of one of them leave by "+
				"the other's peer; give each border a locator and each peer a SID of its own",
			other.config.Name, name, state.sid, other.config.Border, state.config.Border))
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
// route. It also returns the one that plain packets take, where BGP's attributes decide
// that. This may be one to whose SID packets are lost: BGP does not know that yet.
func (p *Planner) Lookup(client netip.Prefix) (reaches []Reach, best string) {
	var announced []Reach
	for _, name := range p.Names() {
		state := p.paths[name]
		if state.blocked != nil || state.lost {
			continue
		}
		prefix, r, ok := state.routes.Longest(client, func(r route) bool { return r.want != nil })
		if !ok {
			continue
		}
		reach := Reach{Path: name, Prefix: prefix, Route: r.want, Draining: r.draining || state.drain}
		announced = append(announced, reach)
		if state.dead == nil {
			reaches = append(reaches, reach)
		}
	}
	return reaches, bestOf(announced)
}

// bestOf is BGP's decision process (RFC 4271 §9.1.2) as far as a server can follow. It
// compares the longest prefix, then LOCAL_PREF, AS_PATH length, ORIGIN, and MED between
// routes of one neighbouring AS. Further steps depend on IGP costs and router IDs of the
// plain way, so of several nothing is said.
func bestOf(reaches []Reach) string {
	var best []Reach
	for _, r := range reaches {
		switch order := preference(r, best); {
		case order < 0:
			best = []Reach{r}
		case order == 0:
			best = append(best, r)
		}
	}
	best = lowestMED(best)
	if len(best) != 1 {
		return ""
	}
	return best[0].Path
}

// preference compares a route with the best ones so far: below zero it is better.
func preference(r Reach, best []Reach) int {
	if len(best) == 0 {
		return -1
	}
	a, b := r.Route.Attributes, best[0].Route.Attributes
	for _, difference := range []int{
		best[0].Prefix.Bits() - r.Prefix.Bits(),
		int(int64(localPref(b)) - int64(localPref(a))),
		a.ASPath.Len() - b.ASPath.Len(),
		int(a.Origin) - int(b.Origin),
	} {
		if difference != 0 {
			return difference
		}
	}
	return 0
}

// defaultLocalPref is the value that routers take where none was set.
const defaultLocalPref = 100

func localPref(a speaker.Attributes) uint32 {
	if a.LocalPref == 0 {
		return defaultLocalPref
	}
	return a.LocalPref
}

// lowestMED leaves routes out that have a higher MED than another one of the same
// neighbouring AS (RFC 4271 §9.1.2.2 c); none counts as 0.
func lowestMED(routes []Reach) []Reach {
	var left []Reach
	for i, r := range routes {
		beaten := false
		for j, other := range routes {
			beaten = beaten || (i != j && neighbour(r) == neighbour(other) && neighbour(r) != 0 &&
				other.Route.Attributes.MED < r.Route.Attributes.MED)
		}
		if !beaten {
			left = append(left, r)
		}
	}
	return left
}

func neighbour(r Reach) uint32 {
	if path := ASes(r.Route.Attributes.ASPath); len(path) > 0 {
		return path[0]
	}
	return 0
}

// OriginAS returns the AS that a client is in by the result of [Planner.Lookup] for it. It
// is the last of the AS path of the best route, or of the first where none is known to be
// the best. It is 0 where no path reaches the client, and for the own AS.
func OriginAS(reaches []Reach, best string) uint32 {
	i := slices.IndexFunc(reaches, func(r Reach) bool { return r.Path == best })
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
