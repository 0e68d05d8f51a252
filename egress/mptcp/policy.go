package mptcp

import (
	"fmt"
	"net/netip"
	"slices"

	"hikyaku/egress/policies"
)

// Mode is how a connection is delivered.
type Mode uint8

const (
	// Plain: nothing is announced; the initial subflow alone, on BGP's best path.
	Plain Mode = iota
	// Aggregated: EPE addresses are announced, so that a client which accepts
	// them opens a subflow on each path.
	Aggregated
)

// String returns the mode as it is written in the configuration.
func (m Mode) String() string {
	if m == Aggregated {
		return "aggregated"
	}
	return "plain"
}

// PathUse names a path of a rule and its role.
type PathUse struct {
	Path string
	// Backup: carries data only when no other subflow can.
	Backup bool
}

// Rule is one line of a policy.
type Rule struct {
	// Name is for logs and for explaining a decision.
	Name string
	// Clients and ASes are the clients that it is for: those in one of the prefixes, or in
	// one of the ASes by [Routes.AS]. Without either it is for all clients of both
	// families.
	Clients []netip.Prefix
	ASes    []uint32
	// Class is the content class it is for; "" is every one.
	Class string
	Mode  Mode
	// Open: a connection whose hint sets [Hint.Plain] is Plain after all.
	Open bool
	// Paths are those to use, in order of announcement; none means all, none
	// of them backup. Ignored for Plain.
	Paths []PathUse
	// InitialBackup makes the initial subflow backup once another one carries
	// data, for clients whose best path by BGP is poor.
	InitialBackup bool
	// UseBest announces the path which the initial subflow takes, too.
	UseBest bool
}

// Policy decides which paths a connection may use. It is immutable and does no I/O.
// Connections which no rule matches are Plain.
type Policy struct {
	ports []uint16
	rules []Rule
	// matcher knows rules by their places.
	matcher *policies.Matcher
}

// NewPolicy compiles rules, of which the first that matches a connection decides.
// Connections to other local ports than those given are Plain; without ports all are
// decided by the rules. It refuses unmasked prefixes.
func NewPolicy(ports []uint16, rules []Rule) (*Policy, error) {
	p := &Policy{ports: slices.Clone(ports), rules: slices.Clone(rules)}
	scopes := make([]policies.Scope, len(rules))
	for i, rule := range p.rules {
		for _, prefix := range rule.Clients {
			if !prefix.IsValid() || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
				return nil, fmt.Errorf("rule %q: %s is no network prefix; write it with its host bits zero", rule.Name, prefix)
			}
		}
		scopes[i] = policies.Scope{Prefixes: rule.Clients, ASes: rule.ASes}
	}
	p.matcher = policies.New(scopes)
	return p, nil
}

// Use is one EPE address which a connection shall have.
type Use struct {
	Path   string
	Addr   netip.Addr
	Backup bool
}

// Decision has the addresses that a connection shall have. Addresses neither
// in Announce nor in Keep are withdrawn and their subflows destroyed.
type Decision struct {
	Mode Mode
	// Open: the connection's hint counts, see [Rule.Open].
	Open bool
	// Rule is the name of the rule which decided, "" for none.
	Rule string
	// Reason says why in words, for people.
	Reason string
	// Announce lists the addresses that the client shall know.
	Announce []Use
	// Keep lists addresses which are not announced anew, but whose
	// announcement and subflows stay.
	Keep []Use
	// InitialBackup: the initial subflow shall be backup once another carries
	// data. InitialDown: it leads over a path that is down or to be avoided, and
	// goes once there are others.
	InitialBackup, InitialDown bool
}

// Decide decides which addresses a connection shall have, given the paths and the client's routes.
func (p *Policy) Decide(c *Connection, paths []Path, routes Routes) Decision {
	if !c.ServerSide {
		return Decision{Reason: "opened by this host"}
	}
	if len(p.ports) > 0 && !slices.Contains(p.ports, c.Local.Port()) {
		return Decision{Reason: fmt.Sprintf("no rules for port %d", c.Local.Port())}
	}
	d := Decision{Reason: "no rule for this client"}
	if rule, found := p.match(c, routes.AS); found {
		d = decideByRule(c, rule, paths, routes)
	}
	switch initialState(c, paths, routes) {
	case PathDraining:
		d.InitialBackup = true
	case PathDown:
		d.InitialBackup, d.InitialDown = true, true
	}
	if c.Adopted {
		d.Keep = append(d.Keep, p.keepAdopted(c, d, paths, routes)...)
	}
	return d
}

// match finds the first rule for the client and the class.
func (p *Policy) match(c *Connection, as uint32) (Rule, bool) {
	for _, i := range p.matcher.Client(c.Client(), as) {
		if rule := p.rules[i]; rule.Class == "" || rule.Class == c.Hint.Class {
			return rule, true
		}
	}
	return Rule{}, false
}

func decideByRule(c *Connection, rule Rule, paths []Path, routes Routes) Decision {
	d := Decision{Mode: rule.Mode, Open: rule.Open, Rule: rule.Name, Reason: fmt.Sprintf("rule %q", rule.Name)}
	if rule.Open && c.Hint.Plain {
		d.Mode, d.Reason = Plain, d.Reason+", plain as the server program decided"
	}
	if d.Mode == Plain {
		return d
	}
	d.InitialBackup = rule.InitialBackup
	for _, use := range usesOf(rule, paths) {
		i := slices.IndexFunc(paths, func(p Path) bool { return p.Name == use.Path })
		if i < 0 || !slices.Contains(routes.Paths, use.Path) || slices.Contains(routes.Avoid, use.Path) {
			continue
		}
		addr, ok := addressFor(paths[i], c)
		if !ok {
			continue
		}
		entry := Use{Path: use.Path, Addr: addr, Backup: use.Backup}
		if use.Path == routes.Best && !rule.UseBest && c.keepsInitial() {
			// A path that became the best since may carry data while the initial subflow leads
			// nowhere. Routing may follow BGP later, or not at all.
			if paths[i].State != PathDown && c.hasSubflow(addr) {
				d.Keep = append(d.Keep, entry)
			}
			continue
		}
		switch stateFor(paths[i], routes) {
		case PathUp:
			d.Announce = append(d.Announce, entry)
		case PathDraining:
			entry.Backup = true
			d.Keep = append(d.Keep, entry)
		}
	}
	return d
}

// stateFor is the state of a path for a connection: one that is full drains.
func stateFor(path Path, routes Routes) PathState {
	if path.State == PathUp && slices.Contains(routes.Full, path.Name) {
		return PathDraining
	}
	return path.State
}

func usesOf(rule Rule, paths []Path) []PathUse {
	if len(rule.Paths) > 0 {
		return rule.Paths
	}
	all := make([]PathUse, 0, len(paths))
	for _, path := range paths {
		all = append(all, PathUse{Path: path.Name})
	}
	return all
}

// addressFor returns the path's address of the client's family, unless the
// client connected to that very address and still has a subflow there.
func addressFor(path Path, c *Connection) (netip.Addr, bool) {
	for _, addr := range path.Addresses {
		if addr.Is4() == c.Client().Is4() && (addr != c.Local.Addr().Unmap() || !c.hasInitial()) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// initialState is that of the path which the initial subflow takes: by the EPE
// address that the client connected to, else BGP's best. A best path that
// drains loses its traffic by BGP; one that went down had packets in flight.
func initialState(c *Connection, paths []Path, routes Routes) PathState {
	name, state := routes.Best, PathUp
	if c.initial.lost {
		state = PathDown
	}
	for _, path := range paths {
		if slices.Contains(path.Addresses, c.Local.Addr().Unmap()) {
			name, state = path.Name, path.State
		} else if path.Name == name && path.State == PathDown {
			state = PathDown // and BGP has not noticed yet
		}
	}
	if slices.Contains(routes.Avoid, name) {
		return PathDown
	}
	if state == PathUp && slices.Contains(routes.Full, name) {
		return PathDraining // and BGP does not know
	}
	return state
}

// keepAdopted returns the addresses that some class of this client may use beyond the
// decision. The class of an adopted connection may have been set in an earlier
// Manager. Until it is set again, nothing that a class may use is torn down.
func (p *Policy) keepAdopted(c *Connection, d Decision, paths []Path, routes Routes) []Use {
	var keep []Use
	decided := slices.Concat(d.Announce, d.Keep)
	for _, i := range p.matcher.Client(c.Client(), routes.AS) {
		other := decideByRule(c, p.rules[i], paths, routes)
		for _, use := range slices.Concat(other.Announce, other.Keep) {
			same := func(u Use) bool { return u.Addr == use.Addr }
			if !slices.ContainsFunc(decided, same) && !slices.ContainsFunc(keep, same) {
				keep = append(keep, use)
			}
		}
		if p.rules[i].Class == "" {
			break // no class gets to a later one
		}
	}
	return keep
}
