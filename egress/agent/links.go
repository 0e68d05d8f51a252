package agent

import (
	"slices"

	"hikyaku/egress/border"
	"hikyaku/egress/kernel"
)

// linkStates are the devices that there are, by name, and whether they are up.
type linkStates map[string]bool

// take notes how a device is and reports whether that is news. A device that was up when
// the watch began is as it shall be.
func (s linkStates) take(link kernel.Link) bool {
	was, known := s[link.Device]
	if link.Gone {
		delete(s, link.Device)
		return was
	}
	s[link.Device] = link.Up
	if !known {
		// Nothing hung on a new one yet, but something may have hung on its namesake.
		return link.Up == link.New
	}
	return link.Up != was
}

// uses: SIDs hang on the anchor and look up by VRFs or pairs, what peers advertise on the devices
// of its next hops.
func (b *Border) uses(device string) (parts []string, used bool) {
	used = isAnchor(device) || slices.Contains(b.config.SRv6.Interfaces, device)
	for _, name := range b.names() {
		p := b.planner.Config(name)
		isOwn := p != nil && b.lookups[name] != border.ByTable && isOf(p.Table, device)
		if used || isOwn || slices.Contains(b.planner.Devices(name), device) {
			parts = append(parts, name)
		}
	}
	return parts, used || len(parts) > 0
}

// uses: all paths hang on the anchor, and their EPE addresses on the interface.
func (s *Server) uses(device string) ([]string, bool) {
	if device != s.config.SRv6.Interface && !isAnchor(device) {
		return nil, false
	}
	return s.planner.Names(), true
}
