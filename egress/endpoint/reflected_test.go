package endpoint_test

import (
	"net/netip"
	"strings"
	"testing"

	"hikyaku/egress/endpoint"
	"hikyaku/egress/kernel"
	"hikyaku/egress/speaker"
)

// best has a reflector report its best path, by a next hop and an originator.
func (w *world) best(prefix, hop, originator string) []netip.Prefix {
	e := speaker.ReflectedBest{Reflector: "rr", Prefixes: prefixes(prefix)}
	if hop != "" {
		e.NextHop = netip.MustParseAddr(hop)
	}
	if originator != "" {
		e.Originator = netip.MustParseAddr(originator)
	}
	return w.planner.Best(e)
}

func (w *world) sentAll() {
	w.planner.ReflectorSent("rr", speaker.IPv6Unicast)
	w.planner.ReflectorSent("rr", speaker.IPv4Unicast)
}

// TestPlainByTheReflectorsBestPath: the server's main table leads to a router that is no border.
func TestPlainByTheReflectorsBestPath(t *testing.T) {
	const client, hopA, hopB = "2001:db8:c::/48", "2001:db8:a1::1", "2001:db8:a2::1"
	for _, test := range []struct {
		name  string
		steps func(*world)
		want  string
		// unknown is a part of the reason.
		unknown string
	}{
		{"a peer's own address", func(w *world) { w.best(client, hopB, ""); w.sentAll() }, "b", ""},
		{"the longest one", func(w *world) { w.best("::/0", hopA, ""); w.best(client, hopB, ""); w.sentAll() }, "b", ""},
		{"another one later", func(w *world) { w.best(client, hopB, ""); w.sentAll(); w.best(client, hopA, "") }, "a", ""},
		{"a withdrawal", func(w *world) { w.best(client, hopB, ""); w.sentAll(); w.best(client, "", "") }, "", "reflector rr has no best path for the client"},
		{"before all are there", func(w *world) { w.best(client, hopB, "") }, "", "has not sent all best paths of the family ipv6"},
		{"all of the other family", func(w *world) { w.best(client, hopB, ""); w.planner.ReflectorSent("rr", speaker.IPv4Unicast) }, "", "has not sent all"},
		{"all VPN routes", func(w *world) { w.best(client, hopB, ""); w.planner.ReflectorSent("rr", speaker.VPNv6) }, "", "has not sent all"},
		{"the session ended", func(w *world) { w.best(client, hopB, ""); w.sentAll(); w.planner.ReflectorDown("rr") }, "", "reflector rr is not connected"},
		{"a new session", func(w *world) {
			w.best(client, hopB, "")
			w.sentAll()
			w.planner.ReflectorDown("rr")
			w.planner.ReflectorUp("rr")
			w.sentAll()
		}, "", "no best path"},
		{"next-hop-self", func(w *world) {
			w.itself("2001:db8:5::1/128")
			w.planner.Learned(learned(1, plainRoute(1, sidA), client))
			w.best(client, "2001:db8:5::1", "")
			w.sentAll()
		}, "a", ""},
		{"the border by its router ID", func(w *world) {
			w.itself("2001:db8:5::1/128")
			w.planner.Learned(learned(1, plainRoute(1, sidA), client))
			w.best(client, "2001:db8:ffff::1", "192.0.2.1")
			w.sentAll()
		}, "a", ""},
		{"a next hop of nobody", func(w *world) { w.best(client, "2001:db8:ffff::1", "192.0.2.9"); w.sentAll() }, "",
			"the next hop of reflector rr's best path, 2001:db8:ffff::1, is no address of a border; `next_hops` of a path can name it"},
		{"a path without such a route", func(w *world) {
			w.best(client, hopA, "")
			w.sentAll()
			w.planner.Withdrawn(speaker.VPNWithdrawn{RD: rd(1), Prefixes: prefixes(client)})
		}, "", "path a has no route for the client"},
		{"the server's main table shows the way", func(w *world) {
			w.itself("2001:db8:5::1/128")
			w.route("::/0", gateway)
			w.planner.Learned(learned(1, plainRoute(1, sidA), client))
			w.best(client, hopB, "")
			w.sentAll()
		}, "a", ""},
		{"the border's main table shows that it is none", func(w *world) {
			w.itself("2001:db8:5::1/128")
			w.route("::/0", gateway)
			w.best(client, hopB, "")
			w.sentAll()
		}, "", "by none of its paths"},
		{"the border does not report", func(w *world) { w.config.Plain.Border = border; w.best(client, hopB, ""); w.sentAll() }, "b", ""},
		{"a reflector that is not asked", func(w *world) { w.config.Plain.Reflectors = nil; w.best(client, hopB, ""); w.sentAll() }, "", "`plain.border` can name one"},
	} {
		w := newWorld(t)
		w.config.Plain.Reflectors = []string{"rr"}
		w.config.Paths[0].NextHops = []netip.Addr{netip.MustParseAddr(hopA)}
		w.config.Paths[1].NextHops = []netip.Addr{netip.MustParseAddr(hopB)}
		w.planner = endpoint.New(w.config, endpoint.Options{Main: w.main}, kernel.State{})
		w.planner.ReflectorUp("rr")
		w.route("::/0", stranger)
		w.planner.Learned(learned(1, route(1, sidA, speaker.Attributes{}), client))
		w.planner.Learned(learned(2, route(2, sidB, speaker.Attributes{}), client))
		test.steps(w)
		_, plain := w.planner.Lookup(netip.MustParsePrefix("2001:db8:c::1/128"))
		if plain.Path != test.want || (plain.Path == "") == (plain.Unknown == "") || !strings.Contains(plain.Unknown, test.unknown) {
			t.Errorf("%s: plain is %+v, want %q, unknown since %q", test.name, plain, test.want, test.unknown)
		}
	}
}

func TestBestPathsOfPartsAndReflectors(t *testing.T) {
	const client = "2001:db8:c::/48"
	w := newWorld(t)
	w.config.Plain.Reflectors = []string{"rr", "rr2"}
	w.config.Paths[0].NextHops = []netip.Addr{netip.MustParseAddr("2001:db8:a1::1")}
	w.config.Paths[1].NextHops = []netip.Addr{netip.MustParseAddr("2001:db8:a2::1")}
	w.planner = endpoint.New(w.config, endpoint.Options{Main: w.main}, kernel.State{})
	for n, sid := range []string{sidA, sidB} {
		w.planner.Learned(learned(uint16(n+1), route(uint16(n+1), sid, speaker.Attributes{}), client))
	}
	w.planner.ReflectorUp("rr")
	if changed := w.best("2001:db8:c::/48", "2001:db8:a1::1", ""); len(changed) != 0 {
		t.Errorf("before all are there %v are reported", changed)
	}
	w.planner.TakePlainChanged()
	w.sentAll()
	if !w.planner.TakePlainChanged() {
		t.Error("with all best paths there is no change for watchers")
	}
	whole := netip.MustParsePrefix(client)
	if _, plain := w.planner.Lookup(whole); plain.Path != "a" {
		t.Errorf("the whole prefix leaves by %+v", plain)
	}
	if changed := w.best("2001:db8:c:8000::/49", "2001:db8:a2::1", ""); len(changed) != 1 {
		t.Errorf("a change of a part is reported as %v", changed)
	}
	if _, plain := w.planner.Lookup(whole); !strings.Contains(plain.Unknown, "the best path of reflector rr to 2001:db8:c:8000::/49 is another one") {
		t.Errorf("with a part elsewhere the prefix leaves by %+v", plain)
	}
	// The second one is asked where the first one has no answer.
	w.planner.ReflectorDown("rr")
	w.planner.ReflectorUp("rr2")
	w.planner.Best(speaker.ReflectedBest{Reflector: "rr2", Prefixes: prefixes(client), NextHop: netip.MustParseAddr("2001:db8:a2::1")})
	w.planner.ReflectorSent("rr2", speaker.IPv6Unicast)
	if _, plain := w.planner.Lookup(whole); plain.Path != "b" {
		t.Errorf("by the second reflector the prefix leaves by %+v", plain)
	}
}
