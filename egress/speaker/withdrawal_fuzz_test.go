package speaker

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"hikyaku/egress/srv6"
)

// FuzzWithdrawals lets two reflectors say what the input tells, each message through
// the parser, the VPN table and the events, and compares what a reader of the events
// has with a model: never a route that is withdrawn, always those that are not.
//
// The input is steps of three bytes: reflector and what it does, first prefix and how
// many, route or the byte that is spoiled.
func FuzzWithdrawals(f *testing.F) {
	for _, seed := range [][]byte{
		{announceStep, 0, 1, withdrawStep, 0, 0},
		{announceStep, 0x70, 1, malformedStep, 0x20, 0},                                // treat-as-withdraw of a part
		{announceStep, 0x70, 1, announceStep | second, 0x70, 2, withdrawStep, 0x70, 0}, // the other's holds
		{announceStep, 3, 1, mixedStep, 3, 2, overrunStep, 3, 0},
		{announceStep, 3, 1, twiceStep, 3, 0, announceStep, 4, 1, endStep, 0, 0},                            // reset, End-of-RIB
		{announceStep, 3, 1, resetStep, 0, 0, withdrawStep | second, 3, 0},                                  // stale, then withdrawn
		{announceStep, 0x11, 2, resetStep, 0, 0, spoiledStep | second, 0x70, 191, resetStep | second, 0, 0}, // both stale
		{announceStep, 3, 1, missingStep, 3, 1, spoiledStep, 3, 40, spoiledStep, 3, 60},
		{spoiledStep | second, 0x56, 0xe8}, // a SID that cannot be one
	} {
		f.Add(seed)
	}
	wire := fuzzRoutes(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := newWithdrawalWorld(t, wire)
		for ; len(steps) >= 3; steps = steps[3:] {
			w.step(steps[0], steps[1], steps[2])
			w.check()
		}
	})
}

// What a reflector does, in the low bits of a step; second is the other reflector.
const (
	announceStep = iota
	withdrawStep
	mixedStep     // withdraws, and announces others, in one message
	malformedStep // announces with an ORIGIN of 3
	missingStep   // announces without ORIGIN
	overrunStep   // announces with an attribute that is longer than the message
	twiceStep     // announces in two MP_REACH_NLRI
	spoiledStep   // announces with one byte changed
	resetStep     // loses its session, and has a new one
	endStep       // End-of-RIB

	stepMask = 15
	second   = 16
)

const fuzzRouteCount = 4

// fuzzRoutes are the attributes of the routes that a reflector announces, told apart
// by MED. ORIGIN is the first.
func fuzzRoutes(t testing.TB) (wire [fuzzRouteCount][]byte) {
	id := identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	for i := range wire {
		var err error
		route := NewVPNRoute(service(id, srv6.EndDT6), Attributes{ASPath: NewASPath(64601), MED: uint32(i), HasMED: true}, id.RT)
		if wire[i], err = route.wire(); err != nil {
			t.Fatal(err)
		}
	}
	return wire
}

// withdrawalWorld is a dispatcher, what a reader of its events has, and a model.
type withdrawalWorld struct {
	t          testing.TB
	wire       [fuzzRouteCount][]byte
	dispatcher *dispatcher
	sessions   [2]*session
	// view is the MED of each route, as events tell it.
	view map[netip.Prefix]uint32
	// said is what each reflector has, and stale what is kept of its former session.
	said, stale [2]map[netip.Prefix]uint32
}

func newWithdrawalWorld(t testing.TB, wire [fuzzRouteCount][]byte) *withdrawalWorld {
	d := newDispatcher(Config{AS: ownAS, RouterID: netip.MustParseAddr("192.0.2.99"), Logger: testLogger(t)})
	d.events = make(chan Event, 1024) // more than a message has prefixes
	w := &withdrawalWorld{t: t, wire: wire, dispatcher: d, view: make(map[netip.Prefix]uint32)}
	for i, name := range []string{"rr1", "rr2"} {
		s := newSession(Neighbor{Name: name, AS: ownAS}, Config{AS: ownAS, Logger: slog.New(slog.DiscardHandler)})
		s.up, s.families = true, []Family{VPNv6}
		w.sessions[i] = s
		w.said[i], w.stale[i] = make(map[netip.Prefix]uint32), make(map[netip.Prefix]uint32)
		d.vpn.up(name)
	}
	return w
}

// fuzzPrefixes returns up to 8 of 16 prefixes.
func fuzzPrefixes(b byte) []netip.Prefix { return prefixes6(int(b&15), 1+int(b>>4)%8) }

func (w *withdrawalWorld) step(what, where, how byte) {
	r, prefixes, med := int(what&second)/second, fuzzPrefixes(where), uint32(how)%fuzzRouteCount
	attributes := w.wire[med]
	origin := attributes[:4]
	switch what & stepMask {
	case announceStep:
		w.receive(r, reachMessage(prefixes, attributes), prefixes, &med, nil)
	case withdrawStep:
		w.receive(r, updateBody(unreachOf(prefixes)), nil, nil, prefixes)
	case mixedStep:
		gone := prefixes6(20, 4)
		if how&1 == 0 {
			gone = prefixes // announced in the same message
		}
		w.receive(r, updateBody(unreachOf(gone), reachOf(prefixes), attributes), prefixes, &med, gone)
	case malformedStep:
		w.receive(r, reachMessage(prefixes, slices.Concat(origin[:3], []byte{3}, attributes[4:])), nil, nil, prefixes)
	case missingStep:
		w.receive(r, reachMessage(prefixes, attributes[4:]), nil, nil, prefixes)
	case overrunStep:
		w.receive(r, reachMessage(prefixes, slices.Concat(attributes, []byte{optional, 4, 9})), nil, nil, prefixes)
	case twiceStep:
		w.mustReset(r, updateBody(reachOf(prefixes), reachOf(prefixes), attributes))
	case spoiledStep:
		w.receiveSpoiled(r, reachMessage(prefixes, attributes), prefixes, int(how))
	case resetStep:
		w.reset(r)
	case endStep:
		w.end(r)
	}
}

func reachOf(prefixes []netip.Prefix) []byte {
	value := slices.Concat([]byte{0, 2, 128, 24}, make([]byte, 8), netip.MustParseAddr("2001:db8::1").AsSlice(), []byte{0})
	return longAttribute(reachKind, value, prefixes)
}

func unreachOf(prefixes []netip.Prefix) []byte {
	return longAttribute(unreachKind, []byte{0, 2, 128}, prefixes)
}

func longAttribute(kind byte, value []byte, prefixes []netip.Prefix) []byte {
	for _, p := range prefixes {
		value = appendVPN(value, faultRD, p)
	}
	return slices.Concat([]byte{extended, kind, byte(len(value) >> 8), byte(len(value))}, value)
}

func reachMessage(prefixes []netip.Prefix, attributes []byte) []byte {
	return updateBody(reachOf(prefixes), attributes)
}

// receive takes a message that must be understood, and does to the model what it
// says: withdrawals first, as they come first to the table.
func (w *withdrawalWorld) receive(r int, body []byte, announced []netip.Prefix, med *uint32, withdrawn []netip.Prefix) {
	w.t.Helper()
	u, err := parseUpdate(body, fromReflector)
	if err != nil {
		w.t.Fatalf("the session would end: %v", err)
	}
	w.updated(r, u)
	w.modelWithdraw(r, withdrawn)
	for _, p := range announced {
		w.said[r][p] = *med
		delete(w.stale[r], p)
	}
}

func (w *withdrawalWorld) modelWithdraw(r int, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		delete(w.said[r], p)
		// Who withdraws it now knows better than a session that ended.
		delete(w.stale[0], p)
		delete(w.stale[1], p)
	}
}

func (w *withdrawalWorld) mustReset(r int, body []byte) {
	w.t.Helper()
	if _, err := parseUpdate(body, fromReflector); err == nil {
		w.t.Fatal("a second MP_REACH_NLRI is taken")
	}
	w.reset(r)
}

// receiveSpoiled takes a message of which a byte behind its routes is changed. Either
// the session ends, or all its routes are withdrawn, or all are announced alike; the
// model takes over which.
func (w *withdrawalWorld) receiveSpoiled(r int, body []byte, prefixes []netip.Prefix, at int) {
	w.t.Helper()
	at = 4 + len(reachOf(prefixes)) + at%len(w.wire[0])
	body[at] ^= 1 << (at % 8)
	u, err := parseUpdate(body, fromReflector)
	if err != nil {
		w.reset(r)
		return
	}
	if len(u.reach) != len(prefixes) {
		w.t.Fatalf("%d of %d routes were read", len(u.reach), len(prefixes))
	}
	w.updated(r, u)
	routes := w.dispatcher.vpn.reflector(w.sessions[r].neighbor.Name).routes[faultRD]
	first, there := routes[compact(prefixes[0])]
	if there && u.unusable {
		w.t.Fatalf("%s is there after a message that withdraws it: %+v", prefixes[0], u.faults)
	}
	for _, p := range prefixes {
		if rec, ok := routes[compact(p)]; ok != there || rec.route != first.route {
			w.t.Fatalf("%s and %s of the same message differ", p, prefixes[0])
		}
		if !there {
			w.modelWithdraw(r, []netip.Prefix{p})
			continue
		}
		w.said[r][p] = first.route.Value().Attributes.MED
		delete(w.stale[r], p)
	}
}

func (w *withdrawalWorld) updated(r int, u routeUpdate) {
	w.dispatcher.updated(w.t.Context(), w.sessions[r], &u)
	w.read()
}

// reset loses a session, and begins another at once. With the other reflector in
// sync what it said goes, else it stays as stale.
func (w *withdrawalWorld) reset(r int) {
	d, name, other := w.dispatcher, w.sessions[r].neighbor.Name, w.sessions[1-r].neighbor.Name
	maps.Copy(w.stale[r], w.said[r])
	clear(w.said[r])
	if d.vpn.reflector(other).synced {
		clear(w.stale[0])
		clear(w.stale[1])
	}
	d.emitVPN(w.t.Context(), d.vpn.down(name))
	d.vpn.up(name)
	w.read()
}

// end is End-of-RIB: whatever is stale goes.
func (w *withdrawalWorld) end(r int) {
	clear(w.stale[0])
	clear(w.stale[1])
	d := w.dispatcher
	d.emitVPN(w.t.Context(), d.vpn.synced(w.sessions[r].neighbor.Name))
	w.read()
}

// read does what a reader of the events does.
func (w *withdrawalWorld) read() {
	for len(w.dispatcher.events) > 0 {
		switch e := (<-w.dispatcher.events).(type) {
		case VPNLearned:
			for _, p := range e.Prefixes {
				w.view[p] = e.Route.Attributes.MED
			}
		case VPNWithdrawn:
			for _, p := range e.Prefixes {
				if _, ok := w.view[p]; !ok {
					w.t.Fatalf("%s is withdrawn, but was not there", p)
				}
				delete(w.view, p)
			}
		}
	}
}

// check compares the reader's view with the model: fresh before stale, the first
// reflector before the second.
func (w *withdrawalWorld) check() {
	w.t.Helper()
	want := make(map[netip.Prefix]uint32)
	for _, layer := range []map[netip.Prefix]uint32{w.stale[1], w.stale[0], w.said[1], w.said[0]} {
		maps.Copy(want, layer)
	}
	if !maps.Equal(w.view, want) {
		w.t.Fatalf("events tell of %v, the reflectors said %v", w.view, want)
	}
	for _, r := range w.dispatcher.vpn.reflectors {
		if stale := countStale(r); stale != r.stale {
			w.t.Fatalf("reflector %s counts %d stale routes, has %d", r.name, r.stale, stale)
		}
	}
}
