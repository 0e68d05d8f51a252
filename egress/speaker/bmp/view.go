package bmp

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// View is the state of a router, for people.
type View struct {
	Address netip.Addr
	// Up: it is connected.
	Up bool
	// Since is when Up last changed, or when the router was configured.
	Since time.Time
	// Description is the router's of itself, empty before it has connected.
	Description string
	// Ends counts how often its connection has ended, and LastEnd is why the last one has.
	Ends    uint64
	LastEnd string
	// Peers are those that it reports, by address. It has none while it is not connected.
	Peers []PeerView
}

// PeerView is the state of a peer of a router.
type PeerView struct {
	Address netip.Addr
	AS      uint32
	State   PeerState
	// Reason for the state; also the fault of a peer that is up; else empty.
	Reason string
}

// PeerState is the use of a peer that a router reports.
type PeerState uint8

// The states.
const (
	// PeerUp: the peer's routes are taken from this router.
	PeerUp PeerState = iota
	// PeerDown: the router reports that the session has ended.
	PeerDown
	// PeerUnused: the peer is not configured, is taken from another router, or has none of its
	// families.
	PeerUnused
)

// record is what stays known of a router from one connection to the next. The station's lock
// guards it.
type record struct {
	since       time.Time
	description string
	ends        uint64
	lastEnd     string
}

// account is what a router says of a peer. The station's lock guards it.
type account struct {
	up bool
	// note is why it is down, or its fault.
	note string
}

// Routers are the states of all configured routers, in the order of the configuration.
func (s *Station) Routers() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	views := make([]View, 0, len(s.config.Routers))
	for _, address := range s.config.Routers {
		kept, r := s.recordOf(address), s.routers[address]
		v := View{
			Address: address, Up: r != nil, Since: kept.since, Description: kept.description,
			Ends: kept.ends, LastEnd: kept.lastEnd,
		}
		if r != nil {
			v.Peers = s.peersOf(r)
		}
		views = append(views, v)
	}
	return views
}

// peersOf are the peers that a router reports. The mutex is held.
func (s *Station) peersOf(r *router) []PeerView {
	var views []PeerView
	for k, a := range r.accounts {
		v := PeerView{Address: k.address, AS: k.as, Reason: a.note}
		switch m := s.peers[k]; {
		case !a.up:
			v.State = PeerDown
		case m == nil:
			v.State, v.Reason = PeerUnused, "it is not configured with `routes = \"bmp\"`"
		case m.by != nil && m.by != r:
			v.State, v.Reason = PeerUnused, "BMP router "+m.by.address.String()+" reports it, too"
		case m.by == nil:
			v.State = PeerUnused
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b PeerView) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.AS, b.AS))
	})
	return views
}

// recordOf is the record of a router. The mutex is held.
func (s *Station) recordOf(address netip.Addr) *record {
	kept := s.records[address]
	if kept == nil {
		kept = &record{since: time.Now()}
		s.records[address] = kept
	}
	return kept
}

// describe notes the description of a router that has connected.
func (s *Station) describe(r *router, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordOf(r.address).description = text
}

// ended notes the end of a router's connection.
func (s *Station) ended(r *router, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routers[r.address] != r {
		return
	}
	delete(s.routers, r.address)
	kept := s.recordOf(r.address)
	kept.since, kept.lastEnd = time.Now(), why.Error()
	kept.ends++
}

// note says the fault of a peer that a router reports, empty for nothing.
func (s *Station) note(k key, r *router, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := r.accounts[k]; a != nil {
		a.note = text
	}
}
