package agent

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"hikyaku/egress/config"
)

// reloads takes the configurations of [Options.Reloads] until ctx ends.
func (b *Border) reloads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case file := <-b.opts.Reloads:
			if file.Border == nil {
				b.log.Error("the configuration is not read again: it is not a border's any more")
				continue
			}
			b.post(ctx, func(context.Context) { b.reload(file.Border) })
		}
	}
}

// reload takes the import policy and the RPKI caches of a configuration. No session ends for
// that: all routes are judged anew. Other changes need a restart, and are named.
func (b *Border) reload(c *config.Border) {
	var incomplete []string
	b.locked(func() {
		for _, key := range needRestart(b.config, c) {
			b.log.Warn("a change of the configuration takes effect at the next start alone", "key", key)
		}
		incomplete = b.planner.SetImport(c)
	})
	b.caches.set(c.Caches, b.config.BGP.ConnectRetry)
	for name := range b.torn {
		b.resumePeer(name)
	}
	for _, name := range incomplete {
		go b.requestRoutes(name)
	}
	b.log.Info("the import policy was read again", "peers", len(c.Peers), "rpki_caches", len(c.Caches))
}

func (b *Border) requestRoutes(name string) {
	if err := b.speaker.RequestRoutes(name); err != nil {
		b.log.Error("asking a peer for its routes", "peer", name, "error", err)
	}
}

// needRestart names the sections and peers whose changes a reload leaves out.
func needRestart(had, now *config.Border) (keys []string) {
	differs := func(key string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, key)
		}
	}
	a, b := *had, *now
	a.Import, a.Caches, a.Peers = config.Import{}, nil, nil
	b.Import, b.Caches, b.Peers = config.Import{}, nil, nil
	differs("router", a.Router, b.Router)
	differs("srv6", a.SRv6, b.SRv6)
	differs("kernel", a.Kernel, b.Kernel)
	differs("asn, router_id, bgp, reflector, api, state, log or flows", a.Common, b.Common)
	peers := make(map[string]config.Peer)
	for _, p := range had.Peers {
		peers[p.Name] = fixed(p)
	}
	for _, p := range now.Peers {
		was, known := peers[p.Name]
		if !known || !reflect.DeepEqual(was, fixed(p)) {
			keys = append(keys, "peer "+p.Name)
		}
		delete(peers, p.Name)
	}
	for name := range peers {
		keys = append(keys, "peer "+name)
	}
	return keys
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
