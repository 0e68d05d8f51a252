package mptcp

import (
	"net/netip"
	"slices"
	"testing"
)

// joined gives a connection a subflow to an EPE address, and its announcement.
func joined(c *Connection, addr netip.Addr, id uint8, change func(*Subflow)) *Connection {
	c.done(Command{Kind: Announce, Addr: addr, ID: id})
	s := Subflow{
		Local: netip.AddrPortFrom(addr, 443), Remote: netip.AddrPortFrom(c.Remote.Addr(), 50000+uint16(id)),
		LocalID: id, confirmed: true,
	}
	if change != nil {
		change(&s)
	}
	c.Subflows = append(c.Subflows, s)
	return c
}

// ordered orders a connection's subflows: that from an address first, then the others.
func ordered(c *Connection, first netip.Addr) *Connection {
	for _, s := range c.Subflows {
		c.Hint.Order = append(c.Hint.Order, Ends{Local: s.Local, Remote: s.Remote})
	}
	slices.SortStableFunc(c.Hint.Order, func(a, b Ends) int {
		switch first {
		case a.Local.Addr():
			return -1
		case b.Local.Addr():
			return 1
		}
		return 0
	})
	return c
}

func planClient() *Connection { return at("2001:db8:1::1") }

func announce(u ...Use) Decision { return Decision{Mode: Aggregated, Announce: u} }

func asBackup(u Use) Use {
	u.Backup = true
	return u
}

var (
	planIDs    = map[netip.Addr]uint8{epeA: 1, epeB: 2, epeC: 3}
	useB, useC = Use{Path: "b", Addr: epeB}, Use{Path: "c", Addr: epeC}
	planCases  = []struct {
		name string
		conn *Connection
		d    Decision
		want []string
	}{
		{"nothing for a plain connection", planClient(), Decision{}, nil},
		{"announces in order", planClient(), announce(useC, useB), []string{
			"announce 2001:db8:5::c id 3 token 00000001", "announce 2001:db8:5::b id 2 token 00000001"}},
		{"not before the client can join", change(planClient(), func(c *Connection) { c.Established = false }), announce(useB), nil},
		{"nothing when all is there", joined(planClient(), epeB, 2, nil), announce(useB), nil},
		{"another ID where the preferred one is taken", joined(planClient(), epeA, 2, nil), announce(Use{Addr: epeA}, useB), []string{
			"announce 2001:db8:5::b id 1 token 00000001"}},
		{"the ID that an address had before", change(planClient(), func(c *Connection) { c.remember(epeB, 9) }), announce(useB), []string{
			"announce 2001:db8:5::b id 9 token 00000001"}},
		{"an ID never passes to another address", change(planClient(), func(c *Connection) { c.remember(epeA, 2) }), announce(useB), []string{
			"announce 2001:db8:5::b id 1 token 00000001"}},
		{"announces as backup", planClient(), announce(asBackup(useB)), []string{"announce 2001:db8:5::b id 2 token 00000001 backup"}},
		{"sets backup", joined(planClient(), epeB, 2, nil), announce(asBackup(useB)), []string{
			"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"sets backup where only the announcement's flag says it", joined(planClient(), epeB, 2, func(s *Subflow) { s.LocalBackup, s.confirmed = true, false }),
			announce(asBackup(useB)), []string{"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"makes active first, then adds, then makes backup, then removes",
			joined(joined(joined(planClient(), epeA, 1, func(s *Subflow) { s.LocalBackup = true }), netip.MustParseAddr("2001:db8:5::d"), 4, nil), epeC, 3, nil),
			announce(Use{Addr: epeA}, useB, asBackup(useC)), []string{
				"set subflow [2001:db8:5::a]:443 to [2001:db8:1::1]:50001 active token 00000001",
				"announce 2001:db8:5::b id 2 token 00000001",
				"set subflow [2001:db8:5::c]:443 to [2001:db8:1::1]:50003 backup token 00000001",
				"remove id 4 token 00000001",
				"destroy subflow [2001:db8:5::d]:443 to [2001:db8:1::1]:50004 token 00000001"}},
		{"a draining path's subflow stays, as backup", joined(planClient(), epeB, 2, nil), Decision{Keep: []Use{asBackup(useB)}}, []string{
			"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"what is only kept is not announced", planClient(), Decision{Keep: []Use{useB}}, nil},
		{"the last subflow is never destroyed", change(joined(planClient(), epeB, 2, nil), func(c *Connection) { c.Subflows = c.Subflows[1:] }),
			Decision{}, []string{"remove id 2 token 00000001"}},
		{"foreign subflows are left alone", change(planClient(), func(c *Connection) {
			c.Subflows = append(c.Subflows, Subflow{Local: netip.MustParseAddrPort("[2001:db8:99::1]:443"), Remote: c.Remote, LocalID: 5})
		}), Decision{}, nil},
		{"the initial subflow is no backup while it is alone", planClient(), Decision{InitialBackup: true, Announce: nil}, nil},
		{"the initial subflow is backup beside an active one", joined(planClient(), epeB, 2, nil),
			Decision{InitialBackup: true, Announce: []Use{useB}}, []string{"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 backup token 00000001"}},
		{"the initial subflow is active again when the other is backup",
			change(joined(planClient(), epeB, 2, func(s *Subflow) { s.LocalBackup = true }), func(c *Connection) { c.Subflows[0].LocalBackup = true }),
			Decision{InitialBackup: true, Announce: []Use{asBackup(useB)}}, []string{"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 active token 00000001"}},
		{"only the first subflow of the order stays regular", ordered(joined(planClient(), epeB, 2, nil), epeB),
			announce(useB), []string{"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 backup token 00000001"}},
		{"another one comes first, and is made active before the former is backup",
			change(ordered(joined(planClient(), epeB, 2, nil), epeB), func(c *Connection) {
				c.Subflows[0].LocalBackup = true
				slices.Reverse(c.Hint.Order)
			}), announce(useB), []string{
				"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 active token 00000001",
				"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"all are regular again without an order", joined(change(planClient(), func(c *Connection) { c.Subflows[0].LocalBackup = true }), epeB, 2, nil),
			announce(useB), []string{"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 active token 00000001"}},
		{"the order passes over a subflow that is backup by policy",
			ordered(joined(joined(planClient(), epeB, 2, nil), epeC, 3, func(s *Subflow) { s.LocalBackup = true }), epeC),
			announce(useB, asBackup(useC)), []string{"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"and over one that the client wants used last",
			ordered(joined(planClient(), epeB, 2, func(s *Subflow) { s.PeerBackup = true }), epeB),
			announce(useB), []string{"set subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 backup token 00000001"}},
		{"an order of subflows that have gone is void", change(joined(planClient(), epeB, 2, nil), func(c *Connection) {
			c.Hint.Order = []Ends{{Local: netip.AddrPortFrom(epeC, 443), Remote: c.Remote}}
		}), announce(useB), nil},
		{"the first of the order is on a path to be avoided, and the next takes over at once",
			change(ordered(joined(planClient(), epeB, 2, nil), epeB), func(c *Connection) { c.Subflows[0].LocalBackup = true }),
			Decision{}, []string{
				"set subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 active token 00000001",
				"remove id 2 token 00000001",
				"destroy subflow [2001:db8:5::b]:443 to [2001:db8:1::1]:50002 token 00000001"}},
		{"the initial subflow of a path that is down goes beside another", joined(planClient(), epeB, 2, nil),
			Decision{InitialDown: true, Announce: []Use{useB}}, []string{
				"remove id 0 token 00000001", "destroy subflow [2001:db8:5::1]:443 to [2001:db8:1::1]:40000 token 00000001"}},
		{"the initial subflow of a path that is down stays alone", planClient(), Decision{InitialDown: true}, nil},
	}
)

func TestPlan(t *testing.T) {
	for _, c := range planCases {
		var got []string
		for _, cmd := range Plan(c.conn, c.d, planIDs) {
			got = append(got, cmd.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestPlanEndpoints(t *testing.T) {
	foreign := Endpoint{ID: 1, Addr: netip.MustParseAddr("2001:db8:99::1"), Subflow: true}
	b := Endpoint{ID: 2, Addr: epeB, Signal: true}
	draining := Endpoint{ID: 2, Addr: epeB, Signal: true, Backup: true}
	only := func(state PathState) []Path { return []Path{{Name: "b", Addresses: []netip.Addr{epeB}, State: state}} }
	backup := func(state PathState) []Path {
		return []Path{{Name: "b", Addresses: []netip.Addr{epeB}, State: state, Backup: true}}
	}
	cases := []struct {
		name  string
		have  []Endpoint
		paths []Path
		want  []string
	}{
		{"adds with a free ID", []Endpoint{foreign}, only(PathUp), []string{"ip mptcp endpoint add 2001:db8:5::b id 2 signal"}},
		{"nothing when it is there", []Endpoint{foreign, b}, only(PathUp), nil},
		{"makes a draining path's backup", []Endpoint{b}, only(PathDraining), []string{"ip mptcp endpoint change 2001:db8:5::b backup"}},
		{"does not add a draining path's", nil, only(PathDraining), nil},
		{"makes it active again", []Endpoint{draining}, only(PathUp), []string{"ip mptcp endpoint change 2001:db8:5::b nobackup"}},
		{"adds a backup path's as backup", nil, backup(PathUp), []string{"ip mptcp endpoint add 2001:db8:5::b id 1 signal backup"}},
		{"makes that of a path backup which became so", []Endpoint{b}, backup(PathUp), []string{"ip mptcp endpoint change 2001:db8:5::b backup"}},
		{"leaves a backup path's after a drain", []Endpoint{draining}, backup(PathUp), nil},
		{"deletes that of a path which is down", []Endpoint{foreign, b}, only(PathDown), []string{"ip mptcp endpoint delete id 2"}},
		{"nothing to delete", []Endpoint{foreign}, only(PathDown), nil},
		{"leaves a foreign endpoint", []Endpoint{foreign}, nil, nil},
		{"makes room first", []Endpoint{b}, append([]Path{{Name: "c", Addresses: []netip.Addr{epeC}}}, only(PathDown)...),
			[]string{"ip mptcp endpoint delete id 2", "ip mptcp endpoint add 2001:db8:5::c id 1 signal"}},
	}
	for _, c := range cases {
		var got []string
		for _, op := range PlanEndpoints(c.have, c.paths) {
			got = append(got, op.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
