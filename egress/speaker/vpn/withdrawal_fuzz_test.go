package vpn

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"unique"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// FuzzWithdrawals has two reflectors send the messages of the input, each message through the
// parser and the table. It compares the routes that follow from the table's changes with a
// model: never a route that is withdrawn, always those that are not.
//
// The input is steps of three bytes: reflector and its action, first prefix and how
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
	encoded := fuzzRoutes(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := newWithdrawalWorld(t, encoded)
		for ; len(steps) >= 3; steps = steps[3:] {
			w.step(steps[0], steps[1], steps[2])
			w.check()
		}
	})
}

// The action of a reflector, in the low bits of a step; second is the other reflector.
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

var (
	fuzzReflectors = [2]string{"rr1", "rr2"}
	fuzzRouter     = Router{AS: bgptest.OwnAS, ID: netip.MustParseAddr("192.0.2.99")}
)

// fuzzRoutes are the attributes of the routes that a reflector announces, which differ in
// MED. ORIGIN is the first.
func fuzzRoutes(t testing.TB) (encoded [fuzzRouteCount][]byte) {
	id := bgptest.Identity(t, netip.MustParseAddr("192.0.2.1"), "transit")
	for i := range encoded {
		var err error
		route := wire.NewVPNRoute(bgptest.Service(id, srv6.EndDT6), wire.Attributes{ASPath: wire.NewASPath(64601), MED: uint32(i), HasMED: true}, id.RT)
		if encoded[i], err = route.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	return encoded
}

// withdrawalWorld is a table, the routes that follow from its changes, and a model.
type withdrawalWorld struct {
	t       testing.TB
	encoded [fuzzRouteCount][]byte
	table   *Table
	// view is the MED of each route, by the table's changes.
	view map[netip.Prefix]uint32
	// announced has each reflector's routes, and stale the kept routes of its former
	// session.
	said, stale [2]map[netip.Prefix]uint32
}

func newWithdrawalWorld(t testing.TB, encoded [fuzzRouteCount][]byte) *withdrawalWorld {
	w := &withdrawalWorld{t: t, encoded: encoded, table: NewTable(), view: make(map[netip.Prefix]uint32)}
	for i, name := range fuzzReflectors {
		w.said[i], w.stale[i] = make(map[netip.Prefix]uint32), make(map[netip.Prefix]uint32)
		w.table.Up(name)
	}
	return w
}

// fuzzPrefixes returns up to 8 of 16 prefixes.
func fuzzPrefixes(b byte) []netip.Prefix { return bgptest.Prefixes6(int(b&15), 1+int(b>>4)%8) }

func (w *withdrawalWorld) step(what, where, how byte) {
	r, prefixes, med := int(what&second)/second, fuzzPrefixes(where), uint32(how)%fuzzRouteCount
	attributes := w.encoded[med]
	origin := attributes[:4]
	switch what & stepMask {
	case announceStep:
		w.receive(r, reachMessage(prefixes, attributes), prefixes, &med, nil)
	case withdrawStep:
		w.receive(r, bgptest.UpdateBody(unreachOf(prefixes)), nil, nil, prefixes)
	case mixedStep:
		gone := bgptest.Prefixes6(20, 4)
		if how&1 == 0 {
			gone = prefixes // announced in the same message
		}
		w.receive(r, bgptest.UpdateBody(unreachOf(gone), reachOf(prefixes), attributes), prefixes, &med, gone)
	case malformedStep:
		w.receive(r, reachMessage(prefixes, slices.Concat(origin[:3], []byte{3}, attributes[4:])), nil, nil, prefixes)
	case missingStep:
		w.receive(r, reachMessage(prefixes, attributes[4:]), nil, nil, prefixes)
	case overrunStep:
		w.receive(r, reachMessage(prefixes, slices.Concat(attributes, []byte{bgptest.Optional, 4, 9})), nil, nil, prefixes)
	case twiceStep:
		w.mustReset(r, bgptest.UpdateBody(reachOf(prefixes), reachOf(prefixes), attributes))
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
	return longAttribute(bgptest.ReachKind, value, prefixes)
}

func unreachOf(prefixes []netip.Prefix) []byte {
	return longAttribute(bgptest.UnreachKind, []byte{0, 2, 128}, prefixes)
}

func longAttribute(kind byte, value []byte, prefixes []netip.Prefix) []byte {
	for _, p := range prefixes {
		value = wire.AppendVPN(value, bgptest.RD, p)
	}
	return slices.Concat([]byte{bgptest.Extended, kind, byte(len(value) >> 8), byte(len(value))}, value)
}

func reachMessage(prefixes []netip.Prefix, attributes []byte) []byte {
	return bgptest.UpdateBody(reachOf(prefixes), attributes)
}

// receive takes a message that must be understood, and does to the model what it
// says: withdrawals first, as they come first to the table.
func (w *withdrawalWorld) receive(r int, body []byte, announced []netip.Prefix, med *uint32, withdrawn []netip.Prefix) {
	w.t.Helper()
	u, err := wire.ParseUpdate(body, wire.FromReflector)
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
	if _, err := wire.ParseUpdate(body, wire.FromReflector); err == nil {
		w.t.Fatal("a second MP_REACH_NLRI is taken")
	}
	w.reset(r)
}

// receiveSpoiled takes a message of which a byte behind its routes is changed. Either
// the session ends, or all its routes are withdrawn, or all are announced alike; the
// model takes over which.
func (w *withdrawalWorld) receiveSpoiled(r int, body []byte, prefixes []netip.Prefix, at int) {
	w.t.Helper()
	at = 4 + len(reachOf(prefixes)) + at%len(w.encoded[0])
	body[at] ^= 1 << (at % 8)
	u, err := wire.ParseUpdate(body, wire.FromReflector)
	if err != nil {
		w.reset(r)
		return
	}
	if len(u.Reach) != len(prefixes) {
		w.t.Fatalf("%d of %d routes were read", len(u.Reach), len(prefixes))
	}
	w.updated(r, u)
	routes := w.table.reflector(fuzzReflectors[r]).routes[bgptest.RD]
	first, there := routes[compact(prefixes[0])]
	if there && u.Unusable {
		w.t.Fatalf("%s is there after a message that withdraws it: %+v", prefixes[0], u.Faults)
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

func (w *withdrawalWorld) updated(r int, u wire.Update) {
	changes, _ := w.table.Receive(fuzzReflectors[r], &u, fuzzRouter)
	w.apply(changes)
}

// reset loses a session, and begins another at once. With the other reflector in
// sync what it said goes, else it stays as stale.
func (w *withdrawalWorld) reset(r int) {
	name, other := fuzzReflectors[r], fuzzReflectors[1-r]
	maps.Copy(w.stale[r], w.said[r])
	clear(w.said[r])
	if w.table.reflector(other).synced {
		clear(w.stale[0])
		clear(w.stale[1])
	}
	w.apply(w.table.Down(name))
	w.table.Up(name)
}

// end is End-of-RIB and the end of the stale time: whatever is stale goes.
func (w *withdrawalWorld) end(r int) {
	clear(w.stale[0])
	clear(w.stale[1])
	name := fuzzReflectors[r]
	w.table.Synced(name)
	w.table.Mature(name, w.table.reflector(name).session)
	w.apply(w.table.Expire())
}

// apply does the work of a reader of the changes.
func (w *withdrawalWorld) apply(changes []Change) {
	for g := range Runs(changes) {
		for _, p := range g.Prefixes {
			if g.Route != (unique.Handle[wire.VPNRoute]{}) {
				w.view[p] = g.Route.Value().Attributes.MED
				continue
			}
			if _, ok := w.view[p]; !ok {
				w.t.Fatalf("%s is withdrawn, but was not there", p)
			}
			delete(w.view, p)
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
		w.t.Fatalf("the changes come to %v, the reflectors announce %v", w.view, want)
	}
	for _, r := range w.table.reflectors {
		if stale := countStale(r); stale != r.stale {
			w.t.Fatalf("reflector %s counts %d stale routes, has %d", r.name, r.stale, stale)
		}
	}
}
