package kernel

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hikyaku/egress/kernel/internal/rtnl"
	"hikyaku/egress/netnstest"
)

func loadTables(t *testing.T, role string) (*netnstest.NS, *Tables) {
	t.Helper()
	ns := netnstest.New(t, role)
	tables, err := LoadTables(t.Context(), open(t, ns, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return ns, tables
}

// expectTables compares the remembered state, the kernel's state, and want.
func expectTables(t *testing.T, name string, tables *Tables, want State) {
	t.Helper()
	expectSame(t, name+", as remembered", tables.Snapshot(), want)
	expect(t, name+", in the kernel", tables.applier, want)
}

func TestTablesFollowRandomChanges(t *testing.T) {
	_, tables := loadTables(t, "changes")
	rng := rand.New(rand.NewPCG(6, 0))
	have := newModel(State{})
	for range 100 {
		change := Change{Put: randomState(rng, "lo", anchorName), Remove: randomState(rng, "lo", anchorName)}
		if !fits(have, change.Put) {
			continue
		}
		goal := newModel(have.state())
		remove(goal, change)
		insert(goal, change.Put)
		if err := tables.Apply(t.Context(), change); err != nil {
			t.Fatalf("applying %+v: %s", change, err)
		}
		expectTables(t, "after a random change", tables, goal.state())
		have = goal
	}
}

// fits reports whether no nexthop changes its family.
func fits(have *model, put State) bool {
	for _, n := range put.Nexthops {
		if old, ok := have.nexthops[n.ID]; ok && old.Family != n.Family {
			return false
		}
	}
	return true
}

func remove(m *model, change Change) {
	s, kept := change.Remove, newModel(change.Put)
	for _, n := range s.Nexthops {
		if _, ok := kept.nexthops[n.ID]; !ok {
			_ = m.apply(Op{Delete, n}) // that it is not there is no error of Tables
		}
	}
	for _, r := range s.Routes {
		_ = m.apply(Op{Delete, r})
	}
	for _, r := range s.Rules {
		_ = m.apply(Op{Delete, r})
	}
	for _, a := range s.Addresses {
		_ = m.apply(Op{Delete, a})
	}
}

func insert(m *model, s State) {
	all := newModel(s)
	for id, n := range all.nexthops {
		m.nexthops[id] = n
	}
	for key, r := range all.routes {
		m.routes[key] = r
	}
	for rule := range all.rules {
		m.rules[rule] = true
	}
	for key, a := range all.addresses {
		m.addresses[key] = a
	}
	if s.TunnelSource.IsValid() {
		m.tunnelSource = s.TunnelSource
	}
}

func TestStateAsWantedCostsNoMessage(t *testing.T) {
	_, tables := loadTables(t, "idempotent")
	put(t, tables, everything())
	ops, err := tables.plan(t.Context(), Change{Put: everything()})
	if err != nil || len(ops) > 0 {
		t.Errorf("putting what is there takes %q, %v", commands(ops), err)
	}
	ops, err = tables.plan(t.Context(), Change{Remove: State{Routes: manyRoutes(3, 9, 1)}})
	if err != nil || len(ops) > 0 {
		t.Errorf("removing what is not there takes %q, %v", commands(ops), err)
	}
}

func TestTablesReadTheStateOfAFormerRun(t *testing.T) {
	_, tables := loadTables(t, "restart")
	put(t, tables, everything())
	next, err := LoadTables(t.Context(), tables.applier)
	if err != nil {
		t.Fatal(err)
	}
	expectTables(t, "after a restart", next, everything())
	key := RouteKey{Prefix: prefix("2001:db8:2::/48"), Table: 10_001, Metric: 2000}
	if r, ok := next.Route(key); !ok || r.Key() != key || r.Nexthop != FirstNexthopID+5 {
		t.Errorf("the route %v is remembered as %+v, %t", key, r, ok)
	}
	if n := next.Routes(10_002); n != 5 {
		t.Errorf("table 10002 has %d routes, want 5", n)
	}
	smaller := everything()
	smaller.Routes, smaller.Addresses = smaller.Routes[:4], nil
	if err := next.Reset(t.Context(), smaller); err != nil {
		t.Fatal(err)
	}
	expectTables(t, "after a reset to less", next, smaller)
}

func TestAFailedChangeIsRememberedAsItIs(t *testing.T) {
	ns, tables := loadTables(t, "partly")
	ns.IP("-6 route add 2001:db8:1::/48 dev anchor table 700 proto static")
	foreign := Route{Prefix: prefix("2001:db8:1::/48"), Table: 700, Type: Blackhole}
	mine := Route{Prefix: prefix("2001:db8:2::/48"), Table: 700, Type: Blackhole}
	err := tables.Apply(t.Context(), Change{Put: State{Routes: []Route{foreign, mine}}})
	if !errors.Is(err, ErrForeign) {
		t.Fatalf("putting a route over a foreign one gives %v", err)
	}
	expectTables(t, "one of two routes", tables, State{Routes: []Route{mine}})
	ns.IP("-6 route del 2001:db8:1::/48 table 700")
	put(t, tables, State{Routes: []Route{foreign, mine}})
	expectTables(t, "after the foreign one went", tables, State{Routes: []Route{foreign, mine}})
}

func TestANexthopInUseKeepsItsFamily(t *testing.T) {
	_, tables := loadTables(t, "family")
	put(t, tables, everything())
	err := tables.Apply(t.Context(), Change{Put: State{Nexthops: []Nexthop{{ID: FirstNexthopID + 1, Family: IPv4, Blackhole: true}}}})
	if !errors.Is(err, ErrFamily) {
		t.Errorf("giving a nexthop another family gives %v", err)
	}
	expectTables(t, "after the refusal", tables, everything())
}

func TestDropIsOneMessage(t *testing.T) {
	_, tables := loadTables(t, "drop")
	put(t, tables, everything())
	sid := Route{Prefix: prefix("fc00:2::4/128"), Table: MainTable}
	e := tables.applier.encoder()
	if err := e.add(sid.Drop()); err != nil || e.batch.Len() != 1 {
		t.Errorf("a drop takes %d messages, %v", e.batch.Len(), err)
	}
	if err := tables.Drop(t.Context(), sid); err != nil {
		t.Fatal(err)
	}
	want := everything()
	for i := range want.Routes {
		if want.Routes[i].Key() == sid.Key() {
			want.Routes[i] = sid.dropped()
		}
	}
	expectTables(t, "after a drop", tables, want)
	put(t, tables, everything())
	expectTables(t, "up again", tables, everything())
	never := Route{Prefix: prefix("fc00:2::5/128"), Table: MainTable}
	if err := tables.Drop(t.Context(), never); err != nil {
		t.Errorf("dropping a SID that was not there: %s", err)
	}
	if r, ok := tables.Route(never.Key()); !ok || r.Type != Blackhole {
		t.Errorf("a dropped SID that was not there is %+v, %t", r, ok)
	}
}

// Who loses a peer shuts its SID whatever the planner is doing, which may not know yet.
func TestAShutRouteStaysShut(t *testing.T) {
	sid := Route{Prefix: prefix("fc00:2::4/128"), Table: MainTable}
	open := everything()
	shut := everything()
	for i := range shut.Routes {
		if shut.Routes[i].Key() == sid.Key() {
			shut.Routes[i] = sid.dropped()
		}
	}
	for _, test := range []struct {
		name string
		// do has the planner's steps, around the loss.
		do func(t *testing.T, tables *Tables, shut func())
	}{
		{"a state from before the loss", func(t *testing.T, tables *Tables, shut func()) {
			shut()
			reset(t, tables, open)
		}},
		{"a state from before the loss, read after someone else has removed the route", func(t *testing.T, tables *Tables, shut func()) {
			shut()
			apply(t, tables.applier, []Op{{Delete, sid}})
			reset(t, tables, open)
		}},
		{"a change from before the loss", func(t *testing.T, tables *Tables, shut func()) {
			shut()
			put(t, tables, open)
		}},
		{"a change that is planned when the loss comes", func(t *testing.T, tables *Tables, shut func()) {
			if err := tables.Apply(t.Context(), Change{Remove: State{Routes: []Route{sid}}}); err != nil {
				t.Fatal(err)
			}
			ops, err := tables.plan(t.Context(), Change{Put: open})
			if err != nil || len(ops) == 0 {
				t.Fatalf("putting the route again takes %q, %v", commands(ops), err)
			}
			shut()
			if err := tables.execute(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, tables := loadTables(t, "shut")
			put(t, tables, open)
			test.do(t, tables, func() {
				for range 2 { // the peer came up and was lost again before the planner knew
					if err := tables.Shut(t.Context(), sid); err != nil {
						t.Fatal(err)
					}
				}
			})
			expectTables(t, "after the loss", tables, shut)
			tables.Release(sid)
			put(t, tables, open)
			expectTables(t, "when the planner knows of the first loss", tables, shut)
			tables.Release(sid)
			put(t, tables, open)
			expectTables(t, "when the planner knows of both", tables, open)
		})
	}
}

func reset(t *testing.T, tables *Tables, want State) {
	t.Helper()
	if err := tables.Reset(t.Context(), want); err != nil {
		t.Fatal(err)
	}
}

func TestALostAnswerIsReadBack(t *testing.T) {
	_, tables := loadTables(t, "lost")
	// A socket that cannot send stands for one whose answer got lost.
	broken, err := rtnl.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	working := tables.applier.writing
	tables.applier.writing = broken
	route := Route{Prefix: prefix("2001:db8:1::/48"), Table: 700, Type: Blackhole}
	var failed *ApplyError
	if err := tables.Apply(t.Context(), Change{Put: State{Routes: []Route{route}}}); !errors.As(err, &failed) || failed.Lost == nil {
		t.Fatalf("a lost answer gives %v", err)
	}
	tables.applier.writing = working
	// The message had been executed all the same.
	apply(t, tables.applier, []Op{{Add, route}})
	put(t, tables, State{Routes: []Route{route}})
	expectTables(t, "after a lost answer", tables, State{Routes: []Route{route}})
}

func TestPeersChangeAtTheSameTime(t *testing.T) {
	_, tables := loadTables(t, "concurrent")
	const peers = 4
	var working sync.WaitGroup
	var mu sync.Mutex
	want := newModel(State{})
	for peer := range peers {
		working.Go(func() {
			hop := peerNexthop(FirstNexthopID+NexthopID(peer), "fc00::1")
			routes := manyRoutes(2000, uint32(1000+peer), hop.ID)
			for _, change := range []Change{
				{Put: State{Nexthops: []Nexthop{hop}, Routes: routes}},
				{Remove: State{Routes: half(routes)}},
				{Put: State{Routes: routes[:100]}},
			} {
				if err := tables.Apply(t.Context(), change); err != nil {
					t.Errorf("peer %d: %s", peer, err)
				}
				mu.Lock()
				remove(want, change)
				insert(want, change.Put)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	expectTables(t, "after all peers' changes", tables, want.state())
}
