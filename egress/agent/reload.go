package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hikyaku/egress/config"
)

// takeImport takes the import policy and the RPKI caches of a configuration, in the loop and with
// the mutex. No session ends for that: all routes are judged anew.
func (b *Border) takeImport(c *config.Border) {
	unfit := b.planner.SetImport(c)
	b.caches.set(c.Caches, b.config.BGP.ConnectRetry)
	for name := range b.torn {
		if !slices.Contains(unfit.Exceeded, name) {
			b.resumePeer(name)
		}
	}
	for _, name := range unfit.Exceeded {
		b.tearDownPeer(name)
	}
	for _, name := range unfit.Incomplete {
		go b.requestRoutes(name)
	}
}

func (b *Border) requestRoutes(name string) {
	if err := b.speaker.RequestRoutes(name); err != nil {
		b.log.Error("asking a peer for its routes", "peer", name, "error", err)
	}
}

// fixed is a peer without the keys that a reload takes.
func fixed(p config.Peer) config.Peer {
	p.Import, p.MaxPrefix, p.EnforceFirstAS = config.PeerImport{}, config.MaxPrefix{}, ""
	return p
}

// tearDownPeer ends the session of a peer that sends more routes than max_prefixes. Where the session
// is a router's, the peer is left out.
func (b *Border) tearDownPeer(name string) {
	if _, torn := b.torn[name]; torn {
		return
	}
	p := b.planner.Config(name)
	reason := fmt.Sprintf("it sends more than max_prefixes (%d) routes", p.MaxPrefixes)
	b.log.Error("ending the session of a peer", "peer", name, "reason", reason, "again_in", p.MaxPrefixesRestart)
	var timer *time.Timer
	if p.MaxPrefixesRestart > 0 {
		timer = time.AfterFunc(p.MaxPrefixesRestart, func() {
			b.later(func(context.Context) { b.locked(func() { b.resumePeer(name) }) })
		})
	}
	b.torn[name] = timer
	if p.Routes == config.RoutesByBMP {
		b.sessions.leaveOut(name, reason, time.Now())
		b.planner.LeaveOut(name, b.sessions.reason(name))
		return
	}
	go func() { // it waits until the session has ended
		if err := b.speaker.EndSession(name, reason); err != nil {
			b.log.Error("ending the session of a peer", "peer", name, "error", err)
		}
	}()
}

// resumePeer lets the session of such a peer come up again.
func (b *Border) resumePeer(name string) {
	if timer := b.torn[name]; timer != nil {
		timer.Stop()
	}
	delete(b.torn, name)
	if p := b.planner.Config(name); p.Routes == config.RoutesByBMP {
		b.takeIn(p)
		return
	}
	go func() {
		if err := b.speaker.ResumeSession(name); err != nil {
			b.log.Error("resuming the session of a peer", "peer", name, "error", err)
		}
	}()
}

// takeIn takes a peer into use again whose session is a router's, unless it still has too many routes.
func (b *Border) takeIn(p *config.Peer) {
	switch {
	case !b.planner.LeftOut(p.Name): // the router has ended the session
	case b.planner.Exceeds(p):
		b.tearDownPeer(p.Name)
	case b.planner.TakeIn(p.Name):
		b.sessions.takeIn(p.Name, time.Now())
	default:
		go b.requestRoutes(p.Name)
	}
}
