package agent

import "hikyaku/egress/kernel"

// linkStates are the devices that there are, by name, and whether they are up.
type linkStates map[string]bool

// take notes how a device is and tells whether that is news: a device that was up when
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
