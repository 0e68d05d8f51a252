package vpn

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unique"

	"hikyaku/egress/speaker/bgptest"
	"hikyaku/egress/speaker/wire"
	"hikyaku/egress/srv6"
)

// Steps: +a1 announces prefix a as route 1, -a withdraws it, t queues the whole table, e is
// End-of-RIB, > sends a parcel, * sends all. Sent messages read the same.
func TestMessagesThatWaitForASlowReflector(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"announcements go in order", "+a1 +b1 +c2 *", "+a1 +b1 +c2"},
		{"a withdrawal goes first", "+a1 * +b1 +c1 -a *", "+a1 -a +b1 +c1"},
		{"a withdrawal goes before End-of-RIB", "+a1 * e -a *", "+a1 -a e"},
		{"a withdrawal replaces an announcement", "+a1 +b1 -a *", "-a +b1"},
		{"an announcement replaces a withdrawal", "+a1 * -a +a2 *", "+a1 +a2"},
		{"the last of several announcements wins", "+a1 +a2 +a3 *", "+a3"},
		{"announced, withdrawn, announced", "+a1 +b1 -a +a2 *", "+a2 +b1"},
		{"withdrawn, announced, withdrawn", "+a1 * -a +a2 -a *", "+a1 -a"},
		{"announced after its withdrawal went", "+a1 -a > +a2 *", "-a +a2"},
		{"withdrawn after its announcement went", "+a1 > -a *", "+a1 -a"},
		{"withdrawal of what is unknown", "-a *", ""},
		{"the table as it is when its turn comes", "+a1 +b1 * t -a +c1 *", "+a1 +b1 -a +b1 +c1"},
		{"a table that waits is not queued twice", "+a1 * t t *", "+a1 +a1"},
		{"End-of-RIB comes behind what waits", "+a1 * t e +b1 *", "+a1 +a1 +b1 e"},
		{"End-of-RIB comes before what is announced later", "t +a1 e +b1 *", "+a1 e +b1"},
		{"a table is sent whole, whatever was queued before", "+a1 t *", "+a1 +a1"},
		{"a table that has become empty", "+a1 t -a e *", "-a e"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newTestQueue()
			for _, step := range strings.Fields(c.steps) {
				q.step(t, step)
			}
			if got := strings.Join(q.sent, " "); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
			q.checkEmpty(t)
		})
	}
}

// testQueue is a table and one session's outbox, as the speaker uses them.
type testQueue struct {
	out  outTable
	box  *outbox
	sent []string
}

var queueRD = srv6.RouteDistinguisher{7: 1}

func newTestQueue() *testQueue { return &testQueue{out: make(outTable), box: newOutbox()} }

func (q *testQueue) announce(route int, prefixes ...netip.Prefix) {
	q.out.set(queueRD, unique.Make(wire.VPNRoute{Attributes: wire.Attributes{MED: uint32(route)}}), prefixes)
	q.box.announce(queueRD, prefixes)
}

func (q *testQueue) withdraw(prefixes ...netip.Prefix) {
	q.box.withdraw(queueRD, q.out.remove(queueRD, prefixes))
}

func (q *testQueue) step(t *testing.T, step string) {
	t.Helper()
	switch step[0] {
	case '+':
		q.announce(int(step[2]-'0'), bgptest.Prefixes6(int(step[1]), 1)...)
	case '-':
		q.withdraw(bgptest.Prefixes6(int(step[1]), 1)...)
	case 't':
		for rd := range q.out {
			q.box.announceTable(rd)
		}
	case 'e':
		q.box.send([]byte("e"))
	case '>':
		q.take()
	case '*':
		for q.take() {
			continue
		}
	default:
		t.Fatalf("unknown step %q", step)
	}
}

func (q *testQueue) take() bool {
	p, more := q.box.take(q.out, parcelRoutes)
	var sent []string
	for _, g := range p.groups {
		for _, prefix := range g.Prefixes {
			name := string(prefix.Addr().AsSlice()[5])
			if g.Route == (unique.Handle[wire.VPNRoute]{}) {
				sent = append(sent, "-"+name)
			} else {
				sent = append(sent, fmt.Sprint("+", name, g.Route.Value().Attributes.MED))
			}
		}
	}
	slices.Sort(sent) // a table has no order
	if p.messages != nil {
		sent = append(sent, string(p.messages))
	}
	q.sent = append(q.sent, sent...)
	return more
}

// checkEmpty fails the test when the outbox keeps anything although nothing waits.
func (q *testQueue) checkEmpty(t *testing.T) {
	t.Helper()
	if b := q.box; b.keys != 0 || len(b.waiting) != 0 || len(b.withdrawals) != 0 || len(b.announcements) != 0 {
		t.Errorf("after all was sent it keeps %d keys, %d distinguishers, %d and %d items",
			b.keys, len(b.waiting), len(b.withdrawals), len(b.announcements))
	}
}

func TestFlappingRoutesTakeNoRoom(t *testing.T) {
	q := newTestQueue()
	prefixes := bgptest.Prefixes6(0, 100)
	for i := range 1000 {
		q.announce(i, prefixes...)
		q.withdraw(prefixes...)
	}
	if q.box.keys != len(prefixes) || len(q.box.announcements) != 1 || len(q.box.withdrawals) != 1 {
		t.Errorf("%d keys wait in %d and %d items, want %d in one each",
			q.box.keys, len(q.box.announcements), len(q.box.withdrawals), len(prefixes))
	}
	if q.box.full() {
		t.Error("the outbox is full")
	}
}

// A reflector that reads now and then has in the end the routes of the table, whatever
// happened between.
func TestReflectorEndsUpWithTheTable(t *testing.T) {
	for seed := range uint64(200) {
		q, random := newTestQueue(), rand.New(rand.NewPCG(seed, 0))
		reflector := make(map[netip.Prefix]uint32)
		receive := func() bool {
			p, more := q.box.take(q.out, 5)
			for _, g := range p.groups {
				for _, prefix := range g.Prefixes {
					if g.Route == (unique.Handle[wire.VPNRoute]{}) {
						delete(reflector, prefix)
					} else {
						reflector[prefix] = g.Route.Value().Attributes.MED
					}
				}
			}
			return more
		}
		for range 300 {
			prefixes := bgptest.Prefixes6(random.IntN(30), 1+random.IntN(12))
			switch random.IntN(8) {
			case 0, 1, 2:
				q.announce(random.IntN(4), prefixes...)
			case 3, 4:
				q.withdraw(prefixes...)
			case 5:
				q.step(t, "t")
			default:
				receive()
			}
		}
		for receive() {
			continue
		}
		for key, route := range q.out[queueRD] {
			if med, ok := reflector[key.prefix()]; !ok || med != route.Value().Attributes.MED {
				t.Fatalf("seed %d: %s is there as %d (%t), want %d", seed, key.prefix(), med, ok, route.Value().Attributes.MED)
			}
		}
		if len(reflector) != len(q.out[queueRD]) {
			t.Fatalf("seed %d: the reflector has %d routes, the table %d", seed, len(reflector), len(q.out[queueRD]))
		}
		q.checkEmpty(t)
	}
}
