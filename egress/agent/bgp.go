package agent

import (
	"fmt"
	"log/slog"
	"net/netip"

	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
	"hikyaku/egress/srv6"
)

// bgp has the methods that an agent needs of a [speaker.Speaker].
type bgp interface {
	Events() <-chan speaker.Event
	AnnounceVPN(speaker.VPNAnnouncement) error
	// Withheld counts routes not announced to a reflector, see [speaker.Withheld].
	Withheld(name string) speaker.Withheld
	// Withholds reports whether a route is one of them.
	Withholds(reflector string, rd srv6.RouteDistinguisher, prefix netip.Prefix) bool
	// AnnouncedAll ends a restart, see [speaker.Speaker.AnnouncedAll].
	AnnouncedAll()
	Close()
}

// speakerConfig is the configuration that both roles have in common.
func speakerConfig(c *config.Common, log *slog.Logger) (speaker.Config, error) {
	s := speaker.Config{
		AS: c.ASN, RouterID: c.RouterID, Listen: c.BGP.Listen, Port: c.BGP.Port,
		StaleTime: c.BGP.StaleTime, Logger: log,
	}
	for _, r := range c.Reflectors {
		n, err := reflectorNeighbor(r, c)
		if err != nil {
			return speaker.Config{}, err
		}
		s.Neighbors = append(s.Neighbors, n)
	}
	return s, nil
}

// reflectorNeighbor returns the settings of a session with a reflector.
func reflectorNeighbor(r config.Reflector, c *config.Common) (speaker.Neighbor, error) {
	n, err := neighbor(r.Session, c)
	n.AS, n.Families = c.ASN, []speaker.Family{speaker.VPNv6, speaker.VPNv4}
	return n, err
}

func neighbor(s config.Session, c *config.Common) (speaker.Neighbor, error) {
	n := speaker.Neighbor{
		Name: s.Name, Address: s.Address, Port: s.Port, LocalAddress: s.LocalAddress,
		Passive: s.Passive, HoldTime: s.HoldTime, ConnectRetry: c.BGP.ConnectRetry,
	}
	if s.PasswordFile != "" {
		password, err := config.ReadPassword(s.PasswordFile)
		if err != nil {
			return n, fmt.Errorf("session %s: %w", s.Name, err)
		}
		n.Password = password
	}
	return n, nil
}

// reflector returns the settings of a reflector's session.
func (b *Border) reflector(r config.Reflector) (speaker.Neighbor, error) {
	n, err := reflectorNeighbor(r, &b.config.Common)
	n.GracefulRestart, n.Restarting = b.config.BGP.RestartTime, b.restarting
	if b.config.Router.BestPaths {
		n.Families = append(n.Families, speaker.IPv6Unicast, speaker.IPv4Unicast)
	}
	return n, err
}

// neighbor returns the settings of a peer's session. Without families there is none.
func (b *Border) neighbor(p *config.Peer) (speaker.Neighbor, error) {
	n, err := neighbor(p.Session, &b.config.Common)
	n.AS, n.TTLSecurity, n.Families = p.ASN, p.TTLSecurity, b.families(p)
	n.Role, _ = speaker.ParseRole(string(p.LocalRole))
	n.StrictRole = p.StrictRole
	n.Monitored = p.Routes == config.RoutesByBMP
	if p.Routes == config.RoutesByAddPath {
		n.Match = matchOf(p.AddPath)
	}
	if p.Multihop > 1 {
		n.MultihopTTL = p.Multihop
	}
	return n, err
}

// matchOf says which routes of own routers are a peer's.
func matchOf(m config.AddPathMatch) *speaker.Match {
	match := speaker.Match{NextHops: m.NextHops}
	for _, c := range m.Communities {
		if c.Large {
			match.Large = append(match.Large, speaker.LargeCommunity(c.Parts))
		} else {
			match.Communities = append(match.Communities, c.Parts[0]<<16|c.Parts[1])
		}
	}
	return &match
}

// addPath returns the settings of a session with a router that sends the routes of its peers.
func (b *Border) addPath(r config.Reflector) (speaker.Neighbor, error) {
	n, err := neighbor(r.Session, &b.config.Common)
	n.AS, n.AddPath, n.Families = b.config.ASN, true, []speaker.Family{speaker.IPv6Unicast, speaker.IPv4Unicast}
	return n, err
}
