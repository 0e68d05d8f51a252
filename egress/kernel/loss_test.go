package kernel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"hikyaku/egress/netnstest"
)

// TestRemovalsByOthersAreUndone removes objects that others may remove, as systemd-networkd
// does at its restart, and everything that hangs on them.
func TestRemovalsByOthersAreUndone(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		also  State
	}{
		{"rules", []string{"-6 rule flush protocol 200", "-4 rule flush protocol 200"}, State{}},
		{"a rule", []string{"-6 rule del pref 101"}, State{}},
		{"addresses", []string{"-6 addr del 2001:db8::5/128 dev anchor", "-4 addr del 198.51.100.7/32 dev anchor"}, State{}},
		{"the routes of each table", nil, State{Routes: everything().Routes}},
		{"a SID", []string{"-6 route del fc00:2::4/128"}, State{}},
		{"a nexthop and its routes", []string{"nexthop del id 1207959553"}, State{}},
		{"all nexthops", []string{"nexthop flush protocol 200"}, State{}},
		{"everything", nil, everything()},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns, tables := loadTables(t, "loss")
			put(t, tables, everything())
			losses := watchLosses(t, tables.applier, func() {})
			for _, line := range test.lines {
				ns.IP(line)
			}
			removeAsOther(t, ns, test.also)
			if len(Diff(read(t, tables.applier), everything())) == 0 {
				t.Fatal("nothing is gone: this test tests nothing")
			}
			restore(t, tables, losses)
			expectTables(t, "what was removed", tables, everything())
		})
	}
}

func TestOwnRemovalsAreNoLoss(t *testing.T) {
	ns, tables := loadTables(t, "own")
	losses := watchLosses(t, tables.applier, func() {})
	put(t, tables, everything())
	for id := range NexthopID(3) {
		hop := Nexthop{ID: FirstNexthopID + 100 + id, Family: IPv6, Device: anchorName}
		routes := manyRoutes(3000, 700, hop.ID)
		put(t, tables, State{Nexthops: []Nexthop{hop}, Routes: routes})
		if err := tables.Drop(t.Context(), routes[0]); err != nil {
			t.Fatal(err)
		}
		for _, remove := range []State{{Routes: routes[:1000]}, {Nexthops: []Nexthop{hop}}} { // with the other routes
			if err := tables.Apply(t.Context(), Change{Remove: remove}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ns.IP("-6 route add blackhole 2001:db8:aaaa::/48 table 900 proto 201")
	ns.IP("-6 route del blackhole 2001:db8:aaaa::/48 table 900 proto 201")
	ns.IP("-4 rule del pref 91")
	back := restore(t, tables, losses)
	if len(back.Rules) != 1 || len(back.Routes)+len(back.Nexthops)+len(back.Addresses) > 0 {
		t.Errorf("after the loss of a rule %+v was put back", back)
	}
	expectTables(t, "with the rule again", tables, everything())
}

// State on a device that is down cannot be put back, and is when the device comes up.
func TestStateOfALostDeviceIsLeftToReset(t *testing.T) {
	ns, tables := loadTables(t, "downloss")
	put(t, tables, everything())
	losses := watchLosses(t, tables.applier, func() {})
	ns.IP("link set anchor down")
	ns.IP("-4 rule del pref 91")
	back := restore(t, tables, losses)
	if len(back.Rules) != 1 || len(back.Routes)+len(back.Nexthops)+len(back.Addresses) > 0 {
		t.Errorf("while the device is down %+v was put back", back)
	}
}

func TestAResetMakesFormerLossesGood(t *testing.T) {
	ns, tables := loadTables(t, "late")
	put(t, tables, everything())
	losses := watchLosses(t, tables.applier, func() {})
	ns.IP("-4 rule del pref 91")
	loss := <-losses
	reset(t, tables, everything())
	if back, err := tables.Restore(t.Context(), loss); err != nil || len(back.Rules) > 0 {
		t.Errorf("what a reset has put back is put back once more: %+v, %v", back, err)
	}
}

func TestLossesThatTheKernelCannotReportAreAnOverrun(t *testing.T) {
	ns, tables := loadTables(t, "lossoverrun")
	want := everything()
	want.Routes = append(want.Routes, manyRoutes(60_000, 700, FirstNexthopID+7)...)
	put(t, tables, want)
	// The watcher stops at the first loss, until released.
	var once sync.Once
	begun, released := make(chan struct{}), make(chan struct{})
	losses := watchLosses(t, tables.applier, func() {
		once.Do(func() { close(begun) })
		select {
		case <-released:
		case <-t.Context().Done(): // the test has failed
		}
	})
	ns.IP("-4 rule del pref 91")
	<-begun
	removeAsOther(t, ns, want)
	close(released)
	for overrun := false; !overrun; {
		select {
		case loss := <-losses:
			overrun = loss.Overrun
		case <-time.After(netnstest.Deadline):
			t.Fatal("no overrun is reported")
		}
	}
	reset(t, tables, want)
	ns.IP("-6 rule del pref 90")
	restore(t, tables, losses)
	expectTables(t, "what was removed after the overrun", tables, want)
}

// removeAsOther removes the objects in s, as another program would.
func removeAsOther(t *testing.T, ns *netnstest.NS, s State) {
	t.Helper()
	var other *Applier
	var err error
	ns.Do(func() { other, err = Open(Options{}) })
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	apply(t, other, Diff(s, State{}))
}

// restore puts reported removals back until there was one.
func restore(t *testing.T, tables *Tables, losses <-chan Loss) State {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case loss := <-losses:
			if loss.Overrun {
				t.Fatal("an overrun is reported")
			}
			back, err := tables.Restore(t.Context(), loss)
			if err != nil {
				t.Fatal(err)
			}
			if len(back.Rules)+len(back.Routes)+len(back.Nexthops)+len(back.Addresses) > 0 {
				return back
			}
		case <-timeout:
			t.Fatal("no loss is reported")
		}
	}
}

// watchLosses calls before with each loss before it is reported. It returns when the
// watcher is there.
func watchLosses(t *testing.T, a *Applier, before func()) <-chan Loss {
	t.Helper()
	losses := make(chan Loss, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	begun := make(chan struct{})
	done.Go(func() {
		err := a.WatchLosses(ctx, func() { close(begun) }, func(l Loss) { before(); losses <- l })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("watching what others remove: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	<-begun
	return losses
}
