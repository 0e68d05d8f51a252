package agent

import (
	"fmt"
	"log/slog"

	"hikyaku/egress/config"
	"hikyaku/egress/speaker"
)

// bgp has the methods that an agent needs of a [speaker.Speaker].
type bgp interface {
	Events() <-chan speaker.Event
	AnnounceVPN(speaker.VPNAnnouncement) error
	// Withheld counts routes not announced to a reflector, see [speaker.Withheld].
	Withheld(name string) speaker.Withheld
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
		n, err := neighbor(r.Session, c)
		if err != nil {
			return speaker.Config{}, err
		}
		n.AS = c.ASN
		n.Families = []speaker.Family{speaker.VPNv6, speaker.VPNv4}
		s.Neighbors = append(s.Neighbors, n)
	}
	return s, nil
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
