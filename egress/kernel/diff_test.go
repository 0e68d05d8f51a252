package kernel

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// commands turns operations into text that a reader can compare.
func commands(ops []Op) []string {
	lines := make([]string, len(ops))
	for i, op := range ops {
		lines[i] = op.String()
	}
	return lines
}

func TestDiff(t *testing.T) {
	sid := func(id NexthopID, sid string) Nexthop {
		return Nexthop{ID: id, Family: IPv6, Device: "lo", Encap: Encap, SID: addr(sid)}
	}
	local := Nexthop{ID: 9, Family: IPv6, Device: "lo", Local: Local{Action: EndDT6, Table: 101}}
	route := func(p string, id NexthopID) Route {
		return Route{Prefix: prefix(p), Table: 101, Nexthop: id}
	}
	enter := Rule{Family: IPv6, Priority: 100, From: prefix("2001:db8::5/128"), Table: 101}
	stop := Rule{Family: IPv6, Priority: 101, From: prefix("2001:db8::5/128"), Action: RuleUnreachable}
	epe := Address{Device: "lo", Prefix: prefix("2001:db8::5/128"), Deprecated: true, NoDAD: true}
	path := State{
		Addresses: []Address{epe}, Rules: []Rule{enter, stop},
		Routes: []Route{route("2001:db8:1::/48", 7)}, Nexthops: []Nexthop{sid(7, "fc00::1")},
		TunnelSource: TunnelSource{addr("2001:db8::1")},
	}
	endpoint := Route{Prefix: prefix("fc00::1/128"), Table: MainTable, Nexthop: 9}
	for _, c := range []struct {
		name       string
		have, want State
		ops        []string
	}{
		{"nothing changes", path, path, nil},
		{"a new path is built from its nexthop to its address, and the stopping rule first", State{}, path, []string{
			"ip sr tunsrc set 2001:db8::1",
			"ip -6 nexthop add id 7 encap seg6 mode encap segs fc00::1 dev lo proto 200",
			"ip -6 route add 2001:db8:1::/48 nhid 7 table 101 proto 200",
			"ip -6 rule add pref 101 from 2001:db8::5/128 unreachable protocol 200",
			"ip -6 rule add pref 100 from 2001:db8::5/128 lookup 101 protocol 200",
			"ip -6 addr add 2001:db8::5/128 dev lo nodad preferred_lft 0",
		}},
		{"a path is taken down the other way round, its routes with their nexthop", path, State{}, []string{
			"ip -6 addr del 2001:db8::5/128 dev lo",
			"ip -6 rule del pref 100 from 2001:db8::5/128 lookup 101 protocol 200",
			"ip -6 rule del pref 101 from 2001:db8::5/128 unreachable protocol 200",
			"ip -6 nexthop del id 7",
		}},
		{"a path moves to another SID by its nexthop alone", path, State{
			Addresses: path.Addresses, Rules: path.Rules, Routes: path.Routes, Nexthops: []Nexthop{sid(7, "fc00::2")},
		}, []string{"ip -6 nexthop replace id 7 encap seg6 mode encap segs fc00::2 dev lo proto 200"}},
		{"a withdrawn prefix leaves the nexthop before that goes elsewhere", path, State{
			Addresses: path.Addresses, Rules: path.Rules, Nexthops: []Nexthop{sid(7, "fc00::2")},
		}, []string{
			"ip -6 route del 2001:db8:1::/48 table 101 proto 200",
			"ip -6 nexthop replace id 7 encap seg6 mode encap segs fc00::2 dev lo proto 200",
		}},
		{"routes move off a nexthop that goes", path, State{
			Addresses: path.Addresses, Rules: path.Rules, Routes: []Route{route("2001:db8:1::/48", 8)}, Nexthops: []Nexthop{sid(8, "fc00::2")},
		}, []string{
			"ip -6 nexthop add id 8 encap seg6 mode encap segs fc00::2 dev lo proto 200",
			"ip -6 route replace 2001:db8:1::/48 nhid 8 table 101 proto 200",
			"ip -6 nexthop del id 7",
		}},
		{"an endpoint opens after the routes behind it",
			State{Nexthops: []Nexthop{sid(7, "fc00::9")}},
			State{Nexthops: []Nexthop{sid(7, "fc00::9"), local}, Routes: []Route{endpoint, {Prefix: prefix("ff00::/8"), Table: 900, Nexthop: 7}}},
			[]string{
				"ip -6 nexthop add id 9 encap seg6local action End.DT6 table 101 dev lo proto 200",
				"ip -6 route add ff00::/8 nhid 7 table 900 proto 200",
				"ip -6 route add fc00::1/128 nhid 9 table 254 proto 200",
			}},
		{"an endpoint closes before the routes behind it",
			State{Nexthops: []Nexthop{sid(7, "fc00::9"), local}, Routes: []Route{route("2001:db8:1::/48", 7), endpoint}},
			State{Nexthops: []Nexthop{sid(7, "fc00::9"), local}},
			[]string{
				"ip -6 route del fc00::1/128 table 254 proto 200",
				"ip -6 route del 2001:db8:1::/48 table 101 proto 200",
			}},
		{"the kernel's default metric and mask are no change",
			State{Routes: []Route{{Prefix: prefix("::/0"), Table: 101, Metric: 1024, Type: Blackhole}},
				Rules: []Rule{{Family: IPv6, Mark: 5, Mask: 0xffffffff, Action: Lookup, Table: 101}}},
			State{Routes: []Route{{Prefix: prefix("::/0"), Table: 101, Type: Blackhole}},
				Rules: []Rule{{Family: IPv6, Mark: 5, Table: 101, From: prefix("::/0")}}}, nil},
		{"an address whose length changes goes first",
			State{Addresses: []Address{{Device: "lo", Prefix: prefix("2001:db8::5/128")}}},
			State{Addresses: []Address{{Device: "lo", Prefix: prefix("2001:db8::5/64")}}},
			[]string{"ip -6 addr del 2001:db8::5/128 dev lo", "ip -6 addr add 2001:db8::5/64 dev lo"}},
		{"a nexthop whose family changes is made again with its routes",
			State{Nexthops: []Nexthop{sid(7, "fc00::1")}, Routes: []Route{route("2001:db8:1::/48", 7)}},
			State{Nexthops: []Nexthop{{ID: 7, Family: IPv4, Device: "lo"}}, Routes: []Route{{Prefix: prefix("10.0.0.0/8"), Table: 101, Nexthop: 7}}},
			[]string{
				"ip -6 nexthop del id 7", "ip -4 nexthop add id 7 dev lo proto 200",
				"ip -4 route add 10.0.0.0/8 nhid 7 table 101 proto 200",
			}},
		{"of two routes with one key the first counts", State{}, State{Routes: []Route{
			{Prefix: prefix("::/0"), Table: 101, Type: Blackhole}, {Prefix: prefix("::/0"), Table: 101, Type: Unreachable},
		}}, []string{"ip -6 route add blackhole ::/0 table 101 proto 200"}},
	} {
		if got := commands(Diff(c.have, c.want)); !slices.Equal(got, c.ops) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.ops)
		}
	}
}

func TestDiffReachesTheWantedState(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range 5_000 {
		have, want := randomState(rng, "lo", "anchor"), randomState(rng, "lo", "anchor")
		m := newModel(have)
		before, goal := newModel(have), newModel(want)
		for _, op := range Diff(have, want) {
			if err := m.apply(op); err != nil {
				t.Fatalf("pair %d: the kernel refuses %s\nhave %+v\nwant %+v", i, err, have, want)
			}
			for key := range m.routes {
				if way := m.outcome(key); way != before.outcome(key) && way != goal.outcome(key) {
					t.Fatalf("pair %d: after `%s` %v goes a third way, %+v\nhave %+v\nwant %+v", i, op, key, way, have, want)
				}
			}
		}
		if !want.TunnelSource.IsValid() {
			want.TunnelSource = have.TunnelSource
		}
		if got := m.state(); !reflect.DeepEqual(got, want) {
			t.Fatalf("pair %d: from %+v\ncame %+v\nwant %+v", i, have, got, want)
		}
	}
}

func TestDiffStopsPacketsBeforeItLetsThemIn(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for range 2_000 {
		var adds, deletes []RuleAction
		for _, op := range Diff(randomState(rng, "lo"), randomState(rng, "lo")) {
			if rule, ok := op.Object.(Rule); ok && op.Verb == Add {
				adds = append(adds, rule.Action)
			} else if ok {
				deletes = append(deletes, rule.Action)
			}
		}
		slices.Reverse(deletes)
		for _, order := range [][]RuleAction{adds, deletes} {
			if i := slices.Index(order, Lookup); i >= 0 && slices.Contains(order[i:], RuleUnreachable) {
				t.Fatalf("rules go in, or out in reverse, as %v: one that stops comes after a lookup", order)
			}
		}
	}
}
