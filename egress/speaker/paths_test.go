package speaker

import (
	"fmt"
	"slices"
	"testing"
	"unique"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/vpn"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

func TestChangesGoTogether(t *testing.T) {
	d := newDispatcher(Config{})
	p := bgptest.Prefixes6(1, 5)
	one, two := unique.Make(VPNRoute{Attributes: Attributes{MED: 1}}), unique.Make(VPNRoute{Attributes: Attributes{MED: 2}})
	rd := []srv6.RouteDistinguisher{{7: 1}, {7: 2}}
	d.emitVPN(t.Context(), []vpn.Change{
		{NLRI: wire.NLRI{RD: rd[0], Prefix: p[0]}, Route: one}, {NLRI: wire.NLRI{RD: rd[0], Prefix: p[1]}, Route: one},
		{NLRI: wire.NLRI{RD: rd[0], Prefix: p[2]}, Route: two},
		{NLRI: wire.NLRI{RD: rd[0], Prefix: p[3]}}, {NLRI: wire.NLRI{RD: rd[1], Prefix: p[4]}},
	})
	var got []string
	for len(d.events) > 0 {
		switch e := (<-d.events).(type) {
		case VPNLearned:
			got = append(got, fmt.Sprintf("+%d %d%d", e.RD[7], len(e.Prefixes), e.Route.Attributes.MED))
		case VPNWithdrawn:
			got = append(got, fmt.Sprintf("-%d %d", e.RD[7], len(e.Prefixes)))
		}
	}
	if want := []string{"+1 21", "+1 12", "-1 1", "-2 1"}; !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}
