package session

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"hikyaku/egress/speaker/wire"
)

// Originated is the outbox for an egress peer: it announces the AS's own prefixes, and
// nothing else (RFC 7454 §6.2). It also asks the peer to send its routes again.
type Originated struct {
	as       uint32
	role     wire.Role
	prefixes []netip.Prefix
	log      *slog.Logger
	ready    chan struct{}

	mu      sync.Mutex
	up      bool
	terms   wire.Terms
	pending [][]byte
}

// NewOriginated returns the outbox for one egress peer. as is our own AS number,
// role our AS's.
func NewOriginated(as uint32, role wire.Role, prefixes []netip.Prefix, log *slog.Logger) *Originated {
	return &Originated{as: as, role: role, prefixes: prefixes, log: log, ready: make(chan struct{}, 1)}
}

// Begin queues the prefixes, and End-of-RIB behind them (RFC 4724 §2).
func (o *Originated) Begin(terms wire.Terms, _ func(int)) {
	var endOfRIB []byte
	for _, f := range terms.Families {
		endOfRIB = wire.AppendEndOfRIB(endOfRIB, f)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.terms, o.up = terms, true
	o.pending = append(o.messages(), endOfRIB)
	wake(o.ready)
}

// Refresh queues the prefixes again.
func (o *Originated) Refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, o.messages()...)
	wake(o.ready)
}

// RequestRoutes asks the neighbour to send its routes again (RFC 2918 §4). It reports whether
// they come: a neighbour without a session sends them when it has one. Not every neighbour
// can be asked.
func (o *Originated) RequestRoutes() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.up || !o.terms.RouteRefresh {
		return !o.up
	}
	for _, f := range o.terms.Families {
		family := f.GoBGP()
		message, err := bgp.NewBGPRouteRefreshMessage(family.Afi(), 0, family.Safi()).Serialize()
		if err != nil {
			return false
		}
		o.pending = append(o.pending, message)
	}
	wake(o.ready)
	return true
}

// End empties the outbox.
func (o *Originated) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending, o.up = nil, false
}

// Ready has a value while there may be something to send.
func (o *Originated) Ready() <-chan struct{} { return o.ready }

// Next returns the next messages, false when nothing waits.
func (o *Originated) Next() (messages []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) == 0 {
		return nil, false
	}
	messages, o.pending = o.pending[0], o.pending[1:]
	return messages, true
}

// messages announce the prefixes whose family the session has.
func (o *Originated) messages() (messages [][]byte) {
	for _, prefix := range o.prefixes {
		family := wire.IPv6Unicast
		if prefix.Addr().Is4() {
			family = wire.IPv4Unicast
		}
		if !slices.Contains(o.terms.Families, family) {
			continue
		}
		if prefix.Addr().Is4() != o.terms.Local.Is4() {
			o.log.Warn("own prefix not announced: the session's address cannot be its next hop",
				slog.String("prefix", prefix.String()), slog.String("address", o.terms.Local.String()))
			continue
		}
		message, err := o.message(prefix, family)
		if err != nil { // not of a prefix that the configuration's check has let through
			o.log.Error("encoding own prefix", slog.String("prefix", prefix.String()), slog.Any("error", err))
			continue
		}
		messages = append(messages, message)
	}
	return messages
}

// message is the UPDATE for one of our own prefixes. The next hop is our end.
func (o *Originated) message(prefix netip.Prefix, family wire.Family) ([]byte, error) {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return nil, err
	}
	routes := []bgp.PathNLRI{{NLRI: nlri}}
	attributes := wire.Attributes{ASPath: wire.NewASPath(o.as)}.GoBGP()
	if o.role.MarksOnlyToCustomer() {
		attributes = append(attributes, wire.NewOnlyToCustomer(o.as))
	}
	if family == wire.IPv4Unicast {
		hop, err := bgp.NewPathAttributeNextHop(o.terms.Local)
		if err != nil {
			return nil, err
		}
		return bgp.NewBGPUpdateMessage(nil, append(attributes, hop), routes).Serialize()
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(family.GoBGP(), routes, o.terms.Local)
	if err != nil {
		return nil, err
	}
	return bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nil).Serialize()
}
