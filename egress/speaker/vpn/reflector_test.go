package vpn

import (
	"net/netip"
	"testing"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
)

func TestReflectorThatLeavesTooMuchUnread(t *testing.T) {
	a := NewAnnouncer()
	r := a.NewReflector(ReflectorConfig{})
	var full []int
	r.Begin(wire.Terms{Local: netip.MustParseAddr("2001:db8::1"), MaxMessage: wire.MaxMessage}, func(waiting int) { full = append(full, waiting) })
	r.box.keys += maxWaiting // as if that many waited
	for i := range 2 {
		a.Announce(queueRD, wire.VPNRoute{}, bgptest.Prefixes6(i, 1))
	}
	if len(full) != 1 || full[0] != maxWaiting+1 {
		t.Errorf("the session was ended with %d routes waiting, want once, with %d", full, maxWaiting+1)
	}
	r.End()
	if n := r.Waiting(); n != 0 {
		t.Errorf("%d routes wait for a reflector without a session", n)
	}
}
