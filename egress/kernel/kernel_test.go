package kernel

import (
	"reflect"
	"testing"

	"hikyaku/egress/netnstest"
)

// anchorName is an anchor device in each test namespace.
const anchorName = "anchor"

// open returns an applier in the namespace, which has an anchor.
func open(t testing.TB, ns *netnstest.NS, opts Options) *Applier {
	t.Helper()
	var a *Applier
	var err error
	ns.Do(func() { a, err = Open(opts) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := a.EnsureAnchor(t.Context(), anchorName, 1500); err != nil {
		t.Fatal(err)
	}
	// A gateway must be on link before a nexthop names it.
	ns.IP("addr add 192.0.2.98/24 dev " + anchorName)
	return a
}

func read(t testing.TB, a *Applier) State {
	t.Helper()
	s, err := a.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(t testing.TB, a *Applier, ops []Op) {
	t.Helper()
	if err := a.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
}

// reach brings the kernel to want, whatever is there.
func reach(t testing.TB, a *Applier, want State) {
	t.Helper()
	apply(t, a, Diff(read(t, a), want))
}

// expect compares the kernel with want, whose tunnel source may be any if unset.
func expect(t testing.TB, name string, a *Applier, want State) {
	t.Helper()
	expectSame(t, name, read(t, a), want)
}

// expectSame brings both to the form that Read returns by asking Diff.
func expectSame(t testing.TB, name string, got, want State) {
	t.Helper()
	if ops := Diff(got, want); len(ops) > 0 {
		t.Fatalf("%s: still to do: %q; there is %+v", name, commands(ops), got)
	}
	// Diff can be blind; the model's state is sorted like Read's.
	sorted := newModel(want).state()
	if !sorted.TunnelSource.IsValid() {
		sorted.TunnelSource = got.TunnelSource
	}
	if !reflect.DeepEqual(newModel(got).state(), sorted) {
		t.Fatalf("%s:\n got %+v\nwant %+v", name, got, sorted)
	}
}

// everything uses each field of each object that this kernel has.
func everything() State {
	hop := func(id NexthopID, family Family) Nexthop {
		return Nexthop{ID: FirstNexthopID + id, Family: family, Device: anchorName}
	}
	encap, reduced, encap4, local, via, via4, hole, hole4 := hop(1, IPv6), hop(2, IPv6), hop(3, IPv4),
		hop(4, IPv6), hop(5, IPv6), hop(6, IPv4), hop(7, IPv6), hop(8, IPv4)
	encap.Encap, encap.SID = Encap, addr("fc00:1::1")
	reduced.Encap, reduced.SID = EncapReduced, addr("fc00:1::2")
	encap4.Encap, encap4.SID = Encap, addr("fc00:1::3")
	local.Local = Local{Action: EndDT6, Table: 10_001}
	via.Gateway = addr("fe80::99")
	via4.Gateway = addr("192.0.2.99")
	hole.Blackhole, hole.Device = true, ""
	hole4.Blackhole, hole4.Device = true, ""
	return State{
		Addresses: []Address{
			{Device: anchorName, Prefix: prefix("2001:db8::5/128"), Deprecated: true, NoDAD: true},
			{Device: anchorName, Prefix: prefix("2001:db8:5::6/64"), NoDAD: true},
			{Device: anchorName, Prefix: prefix("192.0.2.1/24")},
			{Device: anchorName, Prefix: prefix("198.51.100.7/32"), Deprecated: true},
		},
		Rules: []Rule{
			{Family: IPv6, Priority: 100, From: prefix("2001:db8::5/128"), Table: 10_001},
			{Family: IPv6, Priority: 101, From: prefix("2001:db8::5/128"), Action: RuleUnreachable},
			{Family: IPv6, Priority: 102, To: prefix("2001:db8:9::/48"), InDevice: "lo", Action: RuleBlackhole},
			{Family: IPv6, Priority: 90, Mark: 0x100, Mask: 0xff00, Table: 10_001},
			{Family: IPv4, Priority: 90, Mark: 7, Table: 10_002},
			{Family: IPv4, Priority: 91, From: prefix("198.51.100.7/32"), Table: 10_002},
		},
		Routes: []Route{
			{Prefix: prefix("2001:db8:1::/48"), Table: 10_001, Nexthop: encap.ID, MTU: 1400, AdvMSS: 1340},
			{Prefix: prefix("2001:db8:2::/48"), Table: 10_001, Nexthop: reduced.ID},
			{Prefix: prefix("2001:db8:2::/48"), Table: 10_001, Nexthop: via.ID, Metric: 2000},
			{Prefix: prefix("2001:db8:3::/48"), Table: 10_001, Nexthop: hole.ID},
			{Prefix: prefix("2001:db8:4::/48"), Table: 10_001, Type: Unreachable},
			{Prefix: prefix("2001:db8:7::1/128"), Table: 10_001, Type: Delivery},
			{Prefix: prefix("::/0"), Table: 10_001, Type: Blackhole, Metric: 0xffffffff},
			{Prefix: prefix("fc00:2::4/128"), Table: MainTable, Nexthop: local.ID},
			{Prefix: prefix("203.0.113.0/24"), Table: 10_002, Nexthop: encap4.ID, MTU: 1400},
			{Prefix: prefix("203.0.113.0/25"), Table: 10_002, Nexthop: via4.ID},
			{Prefix: prefix("203.0.113.0/25"), Table: 10_002, Nexthop: encap4.ID, Metric: 3},
			{Prefix: prefix("203.0.113.128/25"), Table: 10_002, Nexthop: hole4.ID},
			{Prefix: prefix("0.0.0.0/0"), Table: 10_002, Type: Unreachable, Metric: 5},
		},
		Nexthops:     []Nexthop{encap, reduced, encap4, local, via, via4, hole, hole4},
		TunnelSource: TunnelSource{addr("2001:db8::1")},
	}
}
