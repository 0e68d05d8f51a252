package srv6

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
)

// Identity names one egress peer to the rest of the AS. All four come
// from one number, so that an operator sees which belong together.
type Identity struct {
	// Peer is the key it was allocated for.
	Peer string
	// Function is the number: the SID's function, and the assigned part of RD and RT.
	Function uint16
	// SID is the address whose endpoint looks up the peer's own table.
	SID netip.Addr
	// RD makes the peer's routes different from the same prefixes of other peers.
	RD RouteDistinguisher
	// RT identifies to receivers the peer that a route belongs to.
	RT RouteTarget
}

// ErrLocatorFull is returned when every function of the locator is taken.
var ErrLocatorFull = errors.New("every function of the locator is taken")

// Allocator gives each peer its [Identity]. It is not safe for concurrent use.
//
// The number is a hash of the peer's key, so that a border which lost its disk gives the
// same SIDs again. When two keys hash alike, the one allocated later takes the next free
// number. Allocate in a fixed order (or [Allocator.Reserve] the recorded SIDs first) and
// such a pair stays stable over restarts, too.
type Allocator struct {
	locator  Locator
	routerID netip.Addr
	byPeer   map[string]Identity
	byNumber map[uint16]string
}

// NewAllocator returns an empty allocator. routerID is the BGP identifier of the
// border and must be unique in the AS: it is part of each RD and RT.
func NewAllocator(locator Locator, routerID netip.Addr) (*Allocator, error) {
	if err := locator.Validate(); err != nil {
		return nil, err
	}
	if !routerID.Is4() || routerID.IsUnspecified() {
		return nil, fmt.Errorf("router ID %s: must be written as an IPv4 address other than 0.0.0.0", routerID)
	}
	return &Allocator{
		locator:  locator,
		routerID: routerID,
		byPeer:   make(map[string]Identity),
		byNumber: make(map[uint16]string),
	}, nil
}

// Allocate returns the peer's identity, a new one when it has none yet. The key
// is the peer's configured name or address; a peer that needs one SID for each
// family (End.DT6 and End.DT4) takes two keys.
//
// It fails with [ErrLocatorFull] only.
func (a *Allocator) Allocate(peer string) (Identity, error) {
	if id, ok := a.byPeer[peer]; ok {
		return id, nil
	}
	last := a.lastNumber()
	first := uint32(hashKey(peer))%last + 1
	for n := first; ; {
		if _, taken := a.byNumber[uint16(n)]; !taken {
			return a.take(peer, uint16(n)), nil
		}
		if n = n%last + 1; n == first {
			return Identity{}, fmt.Errorf("allocating a SID for %q in %s: %w", peer, a.locator.Prefix, ErrLocatorFull)
		}
	}
}

// AllocateAll allocates every key in sorted order, so that the same set of keys
// gives the same identities whatever order the caller's configuration has.
func (a *Allocator) AllocateAll(peers []string) ([]Identity, error) {
	ids := make([]Identity, 0, len(peers))
	for _, peer := range slices.Sorted(slices.Values(peers)) {
		id, err := a.Allocate(peer)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Reserve gives the peer a chosen SID: pinned in the configuration, or recorded
// before a restart. It refuses a SID outside the locator or of another peer.
func (a *Allocator) Reserve(peer string, sid netip.Addr) (Identity, error) {
	function, ok := a.locator.Function(sid)
	if !ok || function > a.lastNumber() {
		return Identity{}, fmt.Errorf("reserving SID %s for %q: not a function 1 to %d of locator %s",
			sid, peer, a.lastNumber(), a.locator.Prefix)
	}
	if owner, taken := a.byNumber[uint16(function)]; taken && owner != peer {
		return Identity{}, fmt.Errorf("reserving SID %s for %q: it is %q's", sid, peer, owner)
	}
	a.Release(peer)
	return a.take(peer, uint16(function)), nil
}

// Release makes the peer's number free again. Unknown peers are ignored.
func (a *Allocator) Release(peer string) {
	if id, ok := a.byPeer[peer]; ok {
		delete(a.byNumber, id.Function)
		delete(a.byPeer, peer)
	}
}

// Identities returns all that is allocated, sorted by peer.
func (a *Allocator) Identities() []Identity {
	ids := make([]Identity, 0, len(a.byPeer))
	for _, peer := range slices.Sorted(maps.Keys(a.byPeer)) {
		ids = append(ids, a.byPeer[peer])
	}
	return ids
}

func (a *Allocator) take(peer string, number uint16) Identity {
	sid, err := a.locator.SID(uint32(number))
	if err != nil {
		// The locator was validated and number lies within 1..lastNumber.
		panic("srv6: " + err.Error())
	}
	id := Identity{
		Peer:     peer,
		Function: number,
		SID:      sid,
		RD:       NewRouteDistinguisher(a.routerID, number),
		RT:       NewRouteTarget(a.routerID, number),
	}
	a.byPeer[peer] = id
	a.byNumber[number] = peer
	return id
}

// lastNumber is the highest number: RD and RT of type 1 have 16 bits for it.
func (a *Allocator) lastNumber() uint32 {
	return 1<<min(a.locator.FunctionBits, 16) - 1
}

// hashKey must never change between releases: SIDs of running networks hang on it.
func hashKey(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	v := h.Sum64()
	// FNV's low bits of keys that differ in the last letter only are close to
	// each other; fold the high bits in.
	return v ^ v>>32
}
