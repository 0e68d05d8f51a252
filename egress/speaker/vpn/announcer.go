// Package vpn has the VPN routes of a BGP speaker. It has those that the speaker learned
// from route reflectors ([Table]), and those that it announces to them ([Announcer]). It
// does no I/O.
package vpn

import (
	"net/netip"
	"sync"
	"time"
	"unique"

	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Announcer has the routes that the speaker announces, and one [Reflector] for each route
// reflector that they go to. It may be used from any goroutine.
type Announcer struct {
	mu         sync.Mutex
	out        outTable
	reflectors map[*Reflector]struct{}
	restart    restartPhase
}

// NewAnnouncer returns one without routes.
func NewAnnouncer() *Announcer {
	return &Announcer{out: make(outTable), reflectors: make(map[*Reflector]struct{})}
}

// Announce announces routes to all reflectors, or changes them.
func (a *Announcer) Announce(rd srv6.RouteDistinguisher, route wire.VPNRoute, prefixes []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out.set(rd, unique.Make(route), prefixes)
	for r := range a.live {
		r.box.announce(rd, prefixes)
		r.bound()
	}
}

// Withdraw withdraws routes, ahead of announcements that wait for a slow reflector. It
// returns those that had been announced, and ignores others.
func (a *Announcer) Withdraw(rd srv6.RouteDistinguisher, prefixes []netip.Prefix) (known []netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known = a.out.remove(rd, prefixes)
	for r := range a.live {
		r.box.withdraw(rd, known)
		r.bound()
	}
	return known
}

// Groups returns all routes, so that few messages hold them.
func (a *Announcer) Groups() (groups []Group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for rd := range a.out {
		groups = append(groups, a.out.groups(rd)...)
	}
	return groups
}

// live yields the reflectors whose sessions are up. It needs mu.
func (a *Announcer) live(yield func(*Reflector) bool) {
	for r := range a.reflectors {
		if r.up && !yield(r) {
			return
		}
	}
}

// restartPhase is the progress of a speaker whose forwarding state outlived it.
type restartPhase uint8

const (
	notRestarting restartPhase = iota
	// restarting: reflectors keep our old routes, since End-of-RIB is held back.
	restarting
	restarted
)

// BeginRestart says that forwarding state of an earlier run is in the kernel. Reflectors
// keep our old routes until [Announcer.AnnouncedAll], or until the time has passed. Later
// calls do nothing.
func (a *Announcer) BeginRestart(wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restart == notRestarting {
		a.restart = restarting
		time.AfterFunc(wait, a.AnnouncedAll)
	}
}

// Restarting reports whether neighbours are to keep our former routes.
func (a *Announcer) Restarting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restart == restarting
}

// AnnouncedAll says that all routes of the earlier run have been announced again:
// reflectors drop our former routes that they kept (RFC 4724 §4.1).
func (a *Announcer) AnnouncedAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restart = restarted
	for r := range a.live {
		if r.owesEndOfRIB {
			r.owesEndOfRIB = false
			r.box.send(r.endOfRIB())
		}
	}
}
