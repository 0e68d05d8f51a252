package mptcp

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"hikyaku/egress/prefixmap"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func changed(e Event, f func(*Event)) Event {
	f(&e)
	return e
}

var (
	elsewhere = changed(created, func(e *Event) { e.Remote = netip.MustParseAddrPort("[2001:db8:9::9]:1") })
	prio      = changed(joinB, func(e *Event) { e.Kind, e.Backup = EventSubPriority, true })
)

var applyCases = []struct {
	name                    string
	events                  []Event
	connections, subflows   int
	established, peerBackup bool
}{
	{"nothing", nil, 0, 0, false, false},
	{"created", []Event{created}, 1, 1, false, false},
	{"established", []Event{created, settled}, 1, 1, true, false},
	{"established, whose creation was lost", []Event{settled}, 1, 1, true, false},
	{"joined", []Event{created, settled, joinB}, 1, 2, true, false},
	{"joined, reported twice", []Event{created, joinB, joinB}, 1, 2, false, false},
	{"priority", []Event{created, joinB, prio}, 1, 2, false, true},
	{"subflow closed", []Event{created, joinB, lostB}, 1, 1, false, false},
	{"subflow closed twice", []Event{created, joinB, lostB, lostB}, 1, 1, false, false},
	{"closed", []Event{created, joinB, {Kind: EventClosed, Token: 1}}, 0, 0, false, false},
	{"subflow of an unknown connection", []Event{joinB, prio, lostB, {Kind: EventClosed, Token: 1}}, 0, 0, false, false},
	{"a token given again after a lost closing", []Event{created, settled, joinB, elsewhere}, 1, 1, false, false},
	{"events that are not ours", []Event{created, {Kind: EventAnnounced, Token: 1}, {Kind: EventListenerCreated}, {Kind: 99, Token: 1}}, 1, 1, false, false},
}

func TestApply(t *testing.T) {
	for _, c := range applyCases {
		state := newConnections()
		for _, e := range c.events {
			state.apply(e, testTime)
		}
		if len(state.byToken) != c.connections || len(state.byTuple) != c.connections {
			t.Errorf("%s: %d connections by token, %d by tuple, want %d", c.name, len(state.byToken), len(state.byTuple), c.connections)
			continue
		}
		conn := state.byToken[1]
		if conn == nil {
			continue
		}
		if len(conn.Subflows) != c.subflows || conn.Established != c.established {
			t.Errorf("%s: %d subflows, established %t, want %d, %t", c.name, len(conn.Subflows), conn.Established, c.subflows, c.established)
		}
		if got := conn.subflow(joinB.Local, joinB.Remote); (got != nil && got.PeerBackup) != c.peerBackup {
			t.Errorf("%s: subflow %+v, want backup by the peer %t", c.name, got, c.peerBackup)
		}
	}
}

func TestSnapshotsShareNothing(t *testing.T) {
	c := joined(at("2001:db8:1::1"), epeB, 2, nil)
	snapshot := c.clone()
	c.Subflows[0].LocalBackup = true
	c.Announced[0].ID = 9
	c.known[epeB] = 9
	if snapshot.Subflows[0].LocalBackup || snapshot.Announced[0].ID != 2 || snapshot.known[epeB] != 2 {
		t.Errorf("a change of the state shows in the snapshot: %+v", snapshot)
	}
}

func TestConnectionsByTheirClientsPrefix(t *testing.T) {
	cs := newConnections()
	clients := []string{"2001:db8:1::1", "2001:db8:1::2", "2001:db8:2::1", "2001:db9::1", "192.0.2.1", "192.0.99.1", "::ffff:198.51.100.1"}
	for i, client := range clients {
		cs.insert(&Connection{Token: Token(i), Remote: netip.AddrPortFrom(netip.MustParseAddr(client), uint16(i))})
	}
	for _, c := range []struct {
		prefixes []string
		want     []Token
	}{
		{[]string{"2001:db8:1::1/128"}, []Token{0}},
		{[]string{"2001:db8:1::/48", "2001:db8:1::1/128"}, []Token{0, 1}},
		{[]string{"2001:db8::/32"}, []Token{0, 1, 2}},
		{[]string{"2001:db8::/31", "192.0.2.0/24"}, []Token{0, 1, 2, 3, 4}},
		{[]string{"::/0"}, []Token{0, 1, 2, 3}},
		{[]string{"0.0.0.0/0"}, []Token{4, 5, 6}},
		{[]string{"192.0.0.0/16", "198.51.100.0/24"}, []Token{4, 5, 6}},
		{[]string{"2001:db8:3::/48", "10.0.0.0/8"}, nil},
	} {
		var prefixes []netip.Prefix
		for _, p := range c.prefixes {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		var got []Token
		for found := range cs.byArea.within(prefixmap.NewSet(prefixes)) {
			got = append(got, found.Token)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: connections %v, want %v", c.prefixes, got, c.want)
		}
	}
	for _, c := range cs.byToken {
		cs.remove(c)
	}
	if len(cs.byArea) != 0 {
		t.Errorf("without connections there are the areas %v", cs.byArea)
	}
}
