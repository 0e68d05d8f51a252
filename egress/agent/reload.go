package agent

import (
	"context"
	"fmt"
	"time"

	"hikyaku/egress/config"
)

// takeImport takes the import policy and the RPKI caches of a configuration, in the loop and with
// the mutex. No session ends for that: all routes are judged anew.
func (b *Border) takeImport(c *config.Border) {
	incomplete := b.planner.SetImport(c)
	b.caches.set(c.Caches, b.config.BGP.ConnectRetry)
	for name := range b.torn {
		b.resumePeer(name)
	}
	for _, name := range incomplete {
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

// tearDownPeer ends the session of a peer that sends more routes than max_prefixes.
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
			b.later(func(context.Context) { b.resumePeer(name) })
		})
	}
	b.torn[name] = timer
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
	go func() {
		if err := b.speaker.ResumeSession(name); err != nil {
			b.log.Error("resuming the session of a peer", "peer", name, "error", err)
		}
	}()
}
