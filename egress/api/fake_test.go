package api

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

var start = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// fake is an agent with two paths and state in memory. It publishes what the
// API changes, as an agent does.
type fake struct {
	hub *Hub

	mu          sync.Mutex
	paths       []Path
	policies    []Policy
	connections []Connection
	asked       []netip.Prefix
	// broken is returned by every method where it is set.
	broken error
}

func newFake() *fake {
	border := netip.MustParseAddr("192.0.2.1")
	return &fake{hub: &Hub{}, paths: []Path{
		{
			Name: "transit-a", Number: 1, State: Up, Reason: "the border announces it", Since: start,
			Border: border, Peer: 1, Mark: 0x680001, Table: 10001, MTU: 1536,
			Addresses: []netip.Addr{netip.MustParseAddr("2001:db8:5::a1"), netip.MustParseAddr("198.51.100.161")},
			SID:       netip.MustParseAddr("2001:db8:b1:1::"), Routes: Routes{IPv6: 200000, IPv4: 3},
			Probe: Probe{State: "up", RTT: 210},
		},
		{
			Name: "transit-b", Number: 2, State: Down, Reason: "no border announces it", Since: start,
			Border: border, Peer: 7, Mark: 0x680002, Table: 10002,
		},
	}}
}

func (f *fake) Status(context.Context) (Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{
		Version: "test", Role: "server", ASN: 64500, RouterID: netip.MustParseAddr("192.0.2.11"),
		Started: start, Ready: true,
		Features: []Feature{{Name: "mptcp", Available: true}, {Name: "vrf", Effect: "no IPv4 clients"}},
		RPKICaches: []RPKICache{
			{Name: "rpki1", Address: netip.MustParseAddrPort("[2001:db8::323]:323"), Up: true, Version: 1, VRPs: 600_000, Serial: 7,
				Updated: start, Expires: start.Add(time.Hour)},
			{Name: "rpki2", Address: netip.MustParseAddrPort("192.0.2.9:323"), Error: "connection refused"},
		},
	}, f.broken
}

func (f *fake) Paths(context.Context) ([]Path, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.paths), f.broken
}

func (f *fake) Sessions(context.Context) ([]Session, error) {
	return []Session{
		{Name: "rr1", Kind: "reflector", Address: netip.MustParseAddr("2001:db8::53"), ASN: 64500, Up: true,
			Since: start, EndOfRIB: true, Routes: Routes{IPv6: 200000}},
		{Name: "rr2", Kind: "reflector", Address: netip.MustParseAddr("fe80::1%eth0"), ASN: 64500,
			Since: start, Error: "connection refused"},
		{Name: "transit-a", Kind: "peer", Address: netip.MustParseAddr("2001:db8:a::1"), ASN: 64496, Up: true, Since: start,
			Refused: []Refused{{Reason: "martian", Routes: 2, Total: 3}}, Origins: Origins{Valid: 1, NotFound: 2}},
	}, f.broken
}

func (f *fake) Routers(context.Context) ([]Router, error) {
	peer := netip.MustParseAddr("2001:db8:a::1")
	return []Router{
		{Name: "192.0.2.1", Kind: RouterBMP, Address: netip.MustParseAddr("192.0.2.1"), Up: true, Since: start, Description: "border1",
			Ends: 1, LastError: "it closed the connection", Routes: Routes{IPv6: 2},
			Peers: []RouterPeer{
				{Name: "transit-a", Address: peer, ASN: 64496, State: RouterPeerUp, Routes: Routes{IPv6: 2}},
				{Address: peer.Next(), ASN: 64497, State: RouterPeerUnused, Reason: "it is not configured"},
			}, Refused: []Refused{{Reason: "martian", Routes: 2, Total: 3}}},
		{Name: "rr3", Kind: RouterAddPath, Address: netip.MustParseAddr("2001:db8::54"), Since: start, Error: "connection refused"},
	}, f.broken
}

func (f *fake) Lookup(_ context.Context, client netip.Prefix) (Lookup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, client)
	lookup := Lookup{Client: client}
	if client.Addr().Is6() {
		lookup.Best = "transit-a"
		lookup.Paths = []Reach{{Name: "transit-a", State: Up, Prefix: netip.MustParsePrefix("2001:db9::/32"),
			LocalPref: 100, ASPath: []uint32{64496, 4200000000}}}
	}
	return lookup, f.broken
}

func (f *fake) SetDrain(_ context.Context, name string, drain *Drain) (Path, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.paths {
		if p := &f.paths[i]; p.Name == name {
			p.Drain, p.State = drain, Up
			if drain != nil {
				p.State = Draining
			}
			f.hub.Publish(Event{Path: p})
			return *p, f.broken
		}
	}
	return Path{}, fmt.Errorf("%w: there is no path `%s`", ErrNotFound, name)
}

func (f *fake) Policies(context.Context) ([]Policy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.policies), f.broken
}

func (f *fake) SetPolicy(_ context.Context, policy Policy) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policies = append(f.policies, policy)
	f.hub.Publish(Event{Policies: &PolicyList{f.policies}})
	return f.broken
}

func (f *fake) DeletePolicy(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.policies)
	f.policies = slices.DeleteFunc(f.policies, func(p Policy) bool { return p.Name == name })
	if len(f.policies) == before {
		return fmt.Errorf("%w: there is no policy `%s`", ErrNotFound, name)
	}
	return f.broken
}

func (f *fake) Connections(_ context.Context, within netip.Prefix, limit int) (ConnectionList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	local, remote := netip.MustParseAddrPort("[2001:db8:5::1]:443"), netip.MustParseAddrPort("[2001:db9:1::7]:50310")
	list := ConnectionList{Total: 1}
	if !within.IsValid() || within.Contains(remote.Addr()) {
		list.Connections = []ManagedConnection{{
			Token: 7, Local: local, Remote: remote, Since: start, Class: "bulk", Mode: Aggregated, Reason: "as the test says",
			Subflows: []ManagedSubflow{{Local: local, Remote: remote, Path: "transit-a"}},
		}}
	}
	list.Connections = list.Connections[:min(limit, len(list.Connections))]
	return list, f.broken
}

func (f *fake) SetConnection(_ context.Context, connection Connection) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections = append(f.connections, connection)
	return f.broken
}

func (f *fake) Reload(context.Context) ([]string, error) {
	return []string{"peer transit-c is added"}, f.broken
}

// fakeRoute is the route of the path that is up.
func (f *fake) fakeRoute() Route {
	return Route{
		Path: "transit-a", Prefix: netip.MustParsePrefix("2001:db9::/32"), State: RouteUsed, Reason: "the kernel has it",
		NextHop: netip.MustParseAddr("2001:db8::b1"), SID: f.paths[0].SID, ASPath: []uint32{64496}, Communities: []string{"64500:1"},
	}
}

func (f *fake) Routes(_ context.Context, within netip.Prefix, limit int) (RouteList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := RouteList{Total: 2}
	if r := f.fakeRoute(); !within.IsValid() || r.Prefix.Overlaps(within) {
		list.Routes = []Route{r, {Path: "transit-b", Prefix: r.Prefix, State: RouteRefused, Reason: "another target"}}
	}
	list.Routes = list.Routes[:min(limit, len(list.Routes))]
	return list, f.broken
}

func (f *fake) Why(_ context.Context, client netip.Prefix) (Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Explanation{
		Client: client, Plain: PlainWay{Path: "transit-a", Reason: "it is BGP's best"},
		Paths: []PathExplanation{
			{Path: "transit-a", State: Up, Reason: "it reaches the client", Routes: []Route{f.fakeRoute()}},
			{Path: "transit-b", State: Down, Reason: "it is down"},
		},
	}, f.broken
}

func (f *fake) Peers(context.Context) ([]Peer, error) {
	return []Peer{{Name: "transit-a", Number: 1, Address: netip.MustParseAddr("2001:db8:a::1"), ASN: 64496, Source: "file"}}, f.broken
}

func (f *fake) SetPeer(_ context.Context, name string, settings PeerSettings) ([]string, error) {
	switch {
	case name == "transit-a":
		return nil, fmt.Errorf("%w: peer `%s` is in the file", ErrConflict, name)
	case settings == nil && name != "transit-c":
		return nil, fmt.Errorf("%w: there is no peer `%s`", ErrNotFound, name)
	case settings != nil && settings["number"] == nil:
		return nil, fmt.Errorf("%w: `number` is missing", ErrInvalid)
	}
	return []string{"peer " + name + " is added"}, f.broken
}
