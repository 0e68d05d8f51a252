package agent

import (
	"fmt"

	"hikyaku/egress/border"
	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// noFamily is why there is no session with a peer.
const noFamily = "there is no session: IPv4 is its only family, and this kernel has neither VRF devices for End.DT46 nor End.DX4 and veth devices"

// families are those of a peer which its SID can take.
func (b *Border) families(p *config.Peer) []speaker.Family {
	var families []speaker.Family
	for _, f := range p.Families {
		switch {
		case f == config.FamilyIPv6:
			families = append(families, speaker.IPv6Unicast)
		case b.lookups[p.Name] != border.ByTable:
			families = append(families, speaker.IPv4Unicast)
		}
	}
	return families
}

func (b *Border) problems() []string {
	var all []string
	for _, name := range b.planner.Names() {
		v, _ := b.planner.View(name)
		all = append(all, v.Problems...)
		switch left := len(b.families(v.Config)); {
		case left == 0: // the session has this as its error
		case left < len(v.Config.Families):
			all = append(all, fmt.Sprintf("peer %s: IPv4 is left out, since this kernel has neither VRF devices for End.DT46 nor End.DX4 and veth devices; "+
				"IPv6 works", name))
		}
	}
	all = append(append(append(all, b.host.trouble...), b.caches.problems()...), b.ports.problems()...)
	return append(all, b.withheld()...)
}
