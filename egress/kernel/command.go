package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// line is a command line of ip(8), word by word.
type line []string

func begin(family Family, object string, verb Verb) line {
	if family == IPv4 {
		return line{"ip", "-4", object, verb.String()}
	}
	return line{"ip", "-6", object, verb.String()}
}

func (l *line) word(format string, args ...any) {
	*l = append(*l, fmt.Sprintf(format, args...))
}

// String joins the words.
func (l line) String() string { return strings.Join(l, " ") }

// String returns ip(8)'s word for the verb.
func (v Verb) String() string {
	switch v {
	case Add:
		return "add"
	case Replace:
		return "replace"
	default:
		return "del"
	}
}

func (r Route) command(verb Verb, protocol uint8) string {
	r = r.normal()
	c := begin(FamilyOf(r.Prefix.Addr()), "route", verb)
	if verb != Delete && r.Type != Unicast {
		c.word("%s", typeWords[r.Type])
	}
	c.word("%s", r.Prefix)
	if verb != Delete && r.Nexthop != 0 {
		c.word("nhid %d", r.Nexthop)
	}
	if verb != Delete && r.Type == Delivery {
		c.word("dev lo")
	}
	c.word("table %d", r.Table)
	if r.Metric != 0 {
		c.word("metric %d", r.Metric)
	}
	if verb != Delete && r.MTU != 0 {
		c.word("mtu %d", r.MTU)
	}
	if verb != Delete && r.AdvMSS != 0 {
		c.word("advmss %d", r.AdvMSS)
	}
	c.word("proto %d", protocol)
	return c.String()
}

var typeWords = map[RouteType]string{Blackhole: "blackhole", Unreachable: "unreachable", Delivery: "local"}

func (n Nexthop) command(verb Verb, protocol uint8) string {
	c := begin(n.Family, "nexthop", verb)
	c.word("id %d", n.ID)
	if verb == Delete {
		return c.String()
	}
	switch {
	case n.Blackhole:
		c.word("blackhole")
	case n.Encap == Encap:
		c.word("encap seg6 mode encap segs %s", n.SID)
	case n.Encap == EncapReduced:
		c.word("encap seg6 mode encap.red segs %s", n.SID)
	case n.Local.Action != NoLocal && n.Local.VRF:
		c.word("encap seg6local action %s vrftable %d", localActions[n.Local.Action].name, n.Local.Table)
	case n.Local.Action != NoLocal:
		c.word("encap seg6local action %s table %d", localActions[n.Local.Action].name, n.Local.Table)
	}
	if n.Gateway.IsValid() {
		c.word("via %s", n.Gateway)
	}
	if !n.Blackhole {
		c.word("dev %s", n.Device)
	}
	c.word("proto %d", protocol)
	return c.String()
}

func (r Rule) command(verb Verb, protocol uint8) string {
	r = r.normal()
	c := begin(r.Family, "rule", verb)
	c.word("pref %d", r.Priority)
	c.word("from %s", orAll(r.From))
	if r.To.IsValid() {
		c.word("to %s", r.To)
	}
	if r.Mask != 0 {
		c.word("fwmark %#x/%#x", r.Mark, r.Mask)
	}
	if r.InDevice != "" {
		c.word("iif %s", r.InDevice)
	}
	switch r.Action {
	case RuleBlackhole:
		c.word("blackhole")
	case RuleUnreachable:
		c.word("unreachable")
	default:
		c.word("lookup %d", r.Table)
	}
	c.word("protocol %d", protocol)
	return c.String()
}

func orAll(p netip.Prefix) string {
	if !p.IsValid() {
		return "all"
	}
	return p.String()
}

// ip(8) before 6.4 cannot give an address its protocol, so the command leaves it out.
func (a Address) command(verb Verb, _ uint8) string {
	c := begin(FamilyOf(a.Prefix.Addr()), "addr", verb)
	c.word("%s dev %s", a.Prefix, a.Device)
	if verb == Delete {
		return c.String()
	}
	if a.normal().NoDAD {
		c.word("nodad")
	}
	if a.Deprecated {
		c.word("preferred_lft 0")
	}
	return c.String()
}

func (s TunnelSource) command(Verb, uint8) string { return "ip sr tunsrc set " + s.Addr.String() }
