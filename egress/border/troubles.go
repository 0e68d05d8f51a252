package border

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hikyaku/egress/importpolicy"
)

// Refused counts routes of a peer that are refused for a reason.
type Refused struct {
	Reason importpolicy.Reason
	// Routes are refused now. Those beyond max_prefixes and of too many next hops are
	// counted by announcement, since the session came up.
	Routes int
	// Total counts since the start how often a route was refused.
	Total uint64
}

// refused lists the reasons for which routes were refused, the most frequent now first.
func (p *peer) refused() (list []Refused) {
	for _, reason := range importpolicy.Reasons() {
		if p.total[reason] > 0 {
			list = append(list, Refused{reason, p.now[reason], p.total[reason]})
		}
	}
	slices.SortStableFunc(list, func(a, b Refused) int { return cmp.Compare(b.Routes, a.Routes) })
	return list
}

// importProblems are sentences on what the import policy makes of the peer's routes.
func (p *peer) importProblems() (problems []string) {
	say := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("peer %s: "+format, append([]any{p.config.Name}, args...)...))
	}
	limit := int(p.config.MaxPrefixes)
	switch warning := int(p.config.MaxPrefixesWarning); {
	case p.now[importpolicy.MaxPrefixes] > 0:
		say("%d announcements beyond max_prefixes (%d) were refused; raise it, or ask the peer why",
			p.now[importpolicy.MaxPrefixes], limit)
	case p.count.received > limit: // max_prefixes_action is "warn"
		say("it sends %d routes, more than max_prefixes (%d); raise it, or ask the peer why", p.count.received, limit)
	case warning > 0 && p.count.received >= max(limit*warning/100, 1):
		say("it sends %d routes, %d percent of max_prefixes (%d) or more; raise it before routes are lost",
			p.count.received, warning, limit)
	}
	if n := p.now[importpolicy.NextHops]; n > 0 {
		say("%d announcements by next hops beyond the first %d were refused; ask the peer why it has so many", n, maxNextHops)
	}
	if p.up && p.count.ipv6+p.count.ipv4 == 0 {
		if text := p.nothingUsed(); text != "" {
			say("%s", text)
		}
	}
	return problems
}

// nothingUsed is why a peer whose session is up has no route in use, empty while it may
// still send some.
func (p *peer) nothingUsed() string {
	refused := p.refused()
	switch {
	case p.count.received > 0 && p.count.received == p.count.defaults:
		return "it sends a default route and nothing else, which is refused: ask it for all routes, or set `default_route` in its [peer.import]"
	case len(refused) > 0 && refused[0].Routes > 0:
		words := make([]string, 0, len(refused))
		total := 0
		for _, r := range refused {
			if r.Routes > 0 {
				words = append(words, fmt.Sprintf("%d %s", r.Routes, r.Reason))
				total += r.Routes
			}
		}
		return fmt.Sprintf("all of its %d routes are refused (%s), so that it carries nothing", total, strings.Join(words, ", "))
	case p.complete:
		return "it has sent no route, so that it carries nothing: ask it why"
	}
	return ""
}
