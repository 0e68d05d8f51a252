package importpolicy

import "hikyaku/egress/rpki"

// Reason is why a route is refused.
type Reason uint8

// The reasons. The zero value is none.
const (
	Accepted Reason = iota
	// Malformed: a path attribute is malformed, so that the route counts as withdrawn
	// (RFC 7606 §2).
	Malformed
	// OwnAS: the own AS is in the AS_PATH (RFC 4271 §9.1.2).
	OwnAS
	// ASSet: the AS_PATH has an AS_SET or AS_CONFED_SET (RFC 9774 §3).
	ASSet
	// FirstAS: the AS_PATH does not begin with the peer's AS (RFC 4271 §6.3).
	FirstAS
	// RouteLeak: OTC and the own AS's role say that the route is leaked (RFC 9234 §5).
	RouteLeak
	// Family: the peer's SID does not take IPv4.
	Family
	// DefaultRoute: it is one.
	DefaultRoute
	// Martian: the prefix is nobody's in the Internet (RFC 7454 §6.1).
	Martian
	// MaxLength: the prefix is too long (RFC 7454 §6.1.3).
	MaxLength
	// PrefixList: the operator's prefixes.
	PrefixList
	// ASPathList: the operator's AS_PATH patterns.
	ASPathList
	// CommunityList: the operator's communities.
	CommunityList
	// RPKIInvalid: the origin is invalid (RFC 6811 §2).
	RPKIInvalid
	// MaxPrefixes: the peer sends more routes than it may.
	MaxPrefixes
	// NextHops: the peer has more next hops than are resolved.
	NextHops
	reasons
)

var names = [reasons]string{
	"accepted", "malformed", "own_as", "as_set", "first_as", "route_leak", "family", "default_route", "martian",
	"max_length", "prefix", "as_path", "community", "rpki_invalid", "max_prefixes", "next_hops",
}

// String returns the name that the API and metrics use.
func (r Reason) String() string { return names[r] }

// Lasting reports whether no change of the policy or of the RPKI changes the refusal.
func (r Reason) Lasting() bool { return r == Malformed || r == OwnAS }

// Reasons are all reasons to refuse.
func Reasons() []Reason {
	list := make([]Reason, 0, reasons-1)
	for r := Accepted + 1; r < reasons; r++ {
		list = append(list, r)
	}
	return list
}

// Verdict is what becomes of a route, and the validation state of its origin. It takes a
// byte, as there is one for each route.
type Verdict uint8

const reasonBits = 6

// NewVerdict joins both.
func NewVerdict(reason Reason, origin rpki.State) Verdict {
	return Verdict(reason) | Verdict(origin)<<reasonBits
}

// Reason is why the route is refused, [Accepted] where it is not.
func (v Verdict) Reason() Reason { return Reason(v & (1<<reasonBits - 1)) }

// Origin is the validation state. Routes that are refused anyway are not validated.
func (v Verdict) Origin() rpki.State { return rpki.State(v >> reasonBits) }

// Refuses reports whether the route is refused.
func (v Verdict) Refuses() bool { return v.Reason() != Accepted }
