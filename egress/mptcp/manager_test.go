package mptcp

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReconsideringLeavesTimeForOtherThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		routes := &slowRouter{now: Routes{Best: "a", Paths: []string{"a", "b"}}}
		cfg.Router = routes
		m := k.run(t, cfg)
		k.happen(created, settled)
		before := routes.asked.Load()
		for range 1000 {
			m.Reconsider(netip.MustParsePrefix("2001:db8:1::/48"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		// Each check takes 10 ms; with the waits, 20 fit into a second.
		if asked := routes.asked.Load() - before; asked < 15 || asked > 25 {
			t.Errorf("a client was decided for %d times in a second, want about 20", asked)
		}
	})
}

// slowRouter takes 10 ms for an answer.
type slowRouter struct {
	now   Routes
	asked atomic.Int32
}

func (r *slowRouter) Routes(netip.Addr) Routes {
	r.asked.Add(1)
	time.Sleep(10 * time.Millisecond)
	return r.now
}

func TestClassBeforeTheConnectionIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Policy = policy(t, Rule{Name: "bulk", Class: "bulk", Mode: Aggregated})
		m := k.run(t, cfg)
		m.SetHintByAddress(serverAddr, clientAddr, Hint{Class: "bulk"})
		k.happen(created, settled)
		expect(t, "hint just before", k.took(), announceB)

		k.happen(Event{Kind: EventClosed, Token: 1})
		m.SetHintByAddress(serverAddr, clientAddr, Hint{Class: "bulk"})
		time.Sleep(hintLife)
		k.happen(created, settled)
		expect(t, "hint for an earlier connection of the same addresses", k.took())

		k.happen(Event{Kind: EventClosed, Token: 1})
		m.SetHint(1, Hint{Class: "bulk"})
		k.happen(created, settled)
		expect(t, "hint by its token", k.took(), announceB)

		k.happen(Event{Kind: EventClosed, Token: 1})
		m.SetHint(1, Hint{Class: "bulk"})
		for i := range maxHints {
			m.SetHint(Token(i+2), Hint{Class: "live"})
		}
		k.happen(created, settled)
		expect(t, "hint before as many others as are kept", k.took(), announceB)

		k.happen(Event{Kind: EventClosed, Token: 1})
		m.SetHint(1, Hint{Class: "bulk"})
		for i := range 2 * maxHints {
			m.SetHint(Token(i+2), Hint{Class: "live"})
		}
		k.happen(created, settled)
		expect(t, "hint before twice as many", k.took())
	})
}

// Where the server program decides, a path is not announced only to be taken back.
func TestNewConnectionAwaitsTheWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		cfg := aggregatedConfig(t)
		cfg.Policy = policy(t, Rule{Name: "open", Mode: Aggregated, Open: true})
		m := k.run(t, cfg)
		begin := func() {
			t.Helper()
			k.happen(created, settled)
			expect(t, "no hint", k.took())
		}
		end := func() {
			k.happen(Event{Kind: EventClosed, Token: 1})
			k.took()
		}
		begin()
		m.SetHint(1, Hint{Plain: true})
		time.Sleep(time.Second)
		expect(t, "plain", k.took())
		end()

		begin()
		m.SetHint(1, Hint{})
		expect(t, "several paths", k.took(), announceB)
		end()

		begin()
		time.Sleep(hintWait + retryApart)
		expect(t, "no hint for a while", k.took(), announceB)
		m.SetHint(1, Hint{Plain: true})
		expect(t, "plain after all", k.took(), "remove id 3 token 00000001")
	})
}

func TestReconsiderTouchesOnlyThePrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		routes := &mutableRouter{}
		cfg := aggregatedConfig(t)
		cfg.Router = routes
		m := k.run(t, cfg)
		second := created
		second.Token, second.Remote = 2, netip.MustParseAddrPort("[2001:db8:2::1]:40000")
		settled2 := second
		settled2.Kind = EventEstablished
		k.happen(created, settled, second, settled2)
		expect(t, "no path reaches the clients", k.took())
		routes.now = Routes{Best: "a", Paths: []string{"a", "b"}}
		m.Reconsider(netip.MustParsePrefix("2001:db8:1::/48"))
		expect(t, "one prefix", k.took(), announceB)
		m.Reconsider()
		expect(t, "all", k.took(), "announce 2001:db8:5::b id 3 token 00000002")
		routes.now = Routes{Best: "a", Paths: []string{"a"}}
		m.Reconsider(netip.MustParsePrefix("2001:db8:2::/48"))
		expect(t, "the peer withdrew the prefix", k.took(), "remove id 3 token 00000002")
		d, err := m.Explain(1)
		if err != nil || d.Rule != "all" || d.Mode != Aggregated {
			t.Errorf("explained as %+v, %v", d, err)
		}
		if _, err := m.Explain(3); !errors.Is(err, ErrUnknownConnection) {
			t.Errorf("explaining an unknown connection: %v", err)
		}
	})
}

func TestAddressIDsRunOut(t *testing.T) {
	m, err := newManager(Config{}, newFakeKernel(), newFakeKernel())
	must(t, err)
	var many []Path
	for i := range 256 {
		many = append(many, Path{Name: "p", Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}})
	}
	must(t, m.SetPaths(many[:255]))
	must(t, m.SetPaths(many[:3]))
	if err := m.SetPaths(many); err == nil {
		t.Error("256 EPE addresses were accepted, but there are 255 address IDs")
	}
}
