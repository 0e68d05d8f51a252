package mptcp

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestManagerRenewsALostSubflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created)
		expect(t, "before the client can join", k.took())
		k.happen(settled)
		expect(t, "established", k.took(), announceB)
		k.happen(joinB)
		expect(t, "joined", k.took())

		var waits []time.Duration
		for range retryAttempts {
			k.happen(lostB)
			start := time.Now()
			var commands []string
			for len(commands) == 0 && time.Since(start) < time.Minute {
				time.Sleep(100 * time.Millisecond)
				commands = k.took()
			}
			waits = append(waits, time.Since(start))
			expect(t, "lost", commands, "remove id 3 token 00000001", announceB)
			k.happen(joinB)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("renewed after %v, want %v", waits, want)
		}
		k.happen(lostB)
		time.Sleep(time.Hour)
		expect(t, "lost too often", k.took())

		must(t, m.SetPaths(labPaths(PathUp, PathDown)))
		must(t, m.SetPaths(labPaths(PathUp, PathUp)))
		expect(t, "the path came back", k.took(), "remove id 3 token 00000001", announceB)
		k.happen(joinB)
		time.Sleep(retryForget)
		k.happen(lostB)
		time.Sleep(retryFirst)
		expect(t, "lost after a sound life", k.took(), "remove id 3 token 00000001", announceB)
	})
}

func TestManagerDoesNotRenew(t *testing.T) {
	prohibited, later := lostB, joinB
	prohibited.ResetReason = resetProhibited
	later.Remote = netip.MustParseAddrPort("[2001:db8:1::2]:40002")
	cases := []struct {
		name   string
		events []Event
	}{
		{"a subflow which the client prohibits", []Event{joinB, prohibited}},
		{"while another subflow to the address remains", []Event{joinB, later, lostB}},
		{"when the client came back by itself", []Event{joinB, lostB, later}},
		{"a connection which closed", []Event{joinB, lostB, {Kind: EventClosed, Token: 1}}},
		{"a connection which closes subflow by subflow", []Event{joinB, lostInitial, lostB, {Kind: EventClosed, Token: 1}}},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			k := newFakeKernel()
			k.run(t, aggregatedConfig(t))
			k.happen(created, settled)
			k.took()
			k.happen(c.events...)
			time.Sleep(time.Hour)
			expect(t, c.name, k.took())
		})
	}
}

// The initial subflow took the best path; without it that path is open to the
// path's own address.
func TestManagerReplacesALostInitialSubflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		k.took()
		k.happen(lostInitial)
		expect(t, "at once", k.took())
		time.Sleep(retryFirst)
		expect(t, "when the connection goes on", k.took(), "announce 2001:db8:5::a id 1 token 00000001")
	})
}

func TestConnectionsLeaveAPathOnWhichTheirDataAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		m := k.run(t, aggregatedConfig(t))
		k.happen(created, settled, joinB)
		k.took()
		m.SetHint(1, Hint{Avoid: []string{"b"}})
		left := k.took()
		expect(t, "the hint avoids it", left, "remove id 3 token 00000001",
			"destroy subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:40001 token 00000001")
		m.SetHint(1, Hint{Avoid: []string{"b"}})
		expect(t, "the same hint again", k.took())
		m.SetHint(1, Hint{})
		expect(t, "the hint avoids nothing", k.took(), announceB)
	})
}

func TestConnectionsLeaveAnInitialSubflowWhosePathWentDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFakeKernel()
		routes := &mutableRouter{now: Routes{Best: "a", Paths: []string{"a", "b"}}}
		cfg := aggregatedConfig(t)
		cfg.Router = routes
		m := k.run(t, cfg)
		k.happen(created, settled, joinB)
		k.took()
		routes.now = Routes{Best: "b", Paths: []string{"b"}}
		m.Reconsider()
		expect(t, "BGP's best path is another one", k.took())
		must(t, m.SetPaths(labPaths(PathDown, PathUp)))
		expect(t, "since the former is down", k.took(),
			"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 backup token 00000001",
			"remove id 0 token 00000001",
			"destroy subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 token 00000001")
	})
}

func TestWayOfTheInitialSubflow(t *testing.T) {
	type step struct {
		best  string
		a     PathState
		after time.Duration
	}
	begins := step{best: "a"}
	for name, c := range map[string]struct {
		steps []step
		lost  bool
	}{
		"it is down":                       {[]step{begins, {"b", PathDown, 0}}, true},
		"it is down, and nothing is left":  {[]step{begins, {"", PathDown, 0}}, true},
		"it is down a little later":        {[]step{begins, {"b", PathUp, 0}, {"b", PathDown, newsApart / 2}}, true},
		"it stays lost":                    {[]step{begins, {"b", PathDown, 0}, {"a", PathUp, time.Minute}}, true},
		"another became best":              {[]step{begins, {"b", PathUp, time.Minute}}, false},
		"it drains":                        {[]step{begins, {"b", PathDraining, 0}}, false},
		"it was left long before":          {[]step{begins, {"b", PathUp, 0}, {"b", PathDown, newsApart}}, false},
		"it is down, but BGP has it still": {[]step{begins, {"a", PathDown, 0}}, false},
	} {
		var way initialWay
		now := time.Now()
		for _, s := range c.steps {
			now = now.Add(s.after)
			way.follow(s.best, labPaths(s.a, PathUp), now)
		}
		if way.lost != c.lost {
			t.Errorf("%s: lost is %t", name, way.lost)
		}
	}
}
