package rtr

import (
	"slices"

	"hikyaku/egress/rpki"
)

// maxVRPs bounds the VRPs of a cache; the Internet has some 700,000.
const maxVRPs = 8_000_000

// change is a VRP that a cache announces or withdraws.
type change struct {
	vrp       rpki.VRP
	announced bool
}

// apply returns sorted VRPs after a cache's changes, which come in any order. It fails where
// one is announced that is there already, or withdrawn that is not (RFC 8210 §12).
func apply(vrps []rpki.VRP, changes []change) ([]rpki.VRP, error) {
	// A stable sort keeps the order of a VRP's own changes.
	slices.SortStableFunc(changes, func(a, b change) int { return rpki.Compare(a.vrp, b.vrp) })
	result := make([]rpki.VRP, 0, len(vrps)+len(changes))
	for len(changes) > 0 {
		v := changes[0].vrp
		n, there := slices.BinarySearchFunc(vrps, v, rpki.Compare)
		result = append(result, vrps[:n]...)
		vrps = vrps[n:]
		if there {
			vrps = vrps[1:]
		}
		for ; len(changes) > 0 && changes[0].vrp == v; changes = changes[1:] {
			switch c := changes[0]; {
			case c.announced && there:
				return nil, faulty(duplicateAnnouncement, nil, "%s is announced twice", v)
			case !c.announced && !there:
				return nil, faulty(withdrawalOfUnknown, nil, "%s is withdrawn, and was not announced", v)
			}
			there = changes[0].announced
		}
		if there {
			result = append(result, v)
		}
	}
	return append(result, vrps...), nil
}
